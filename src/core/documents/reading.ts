import type { DocumentProblem, DocumentResult, DocumentType } from '../documents.ts'
import { isPdf, isZip } from './detect.ts'
import { isDocxPart, readDocx } from './docx.ts'
import { readPdf } from './pdf.ts'
import { isPptxPart, readPptx } from './pptx.ts'
import { TextSink } from './text-sink.ts'
import { isXlsxPart, readXlsx } from './xlsx.ts'
import { readZip } from './zip.ts'

type Read = (bytes: Uint8Array, sink: TextSink) => void | Promise<void>

const READERS: Record<DocumentType, Read> = {
  pdf: readPdf,
  docx: readDocx,
  xlsx: readXlsx,
  pptx: readPptx,
}

/** Reads the text of a document. Never throws: a document that cannot be read is a problem. */
export async function readDocument(bytes: Uint8Array): Promise<DocumentResult> {
  try {
    const type = detectType(bytes)
    if (!type) return { problem: 'unknown' }
    const sink = new TextSink()
    await READERS[type](bytes, sink)
    const { isCut, pages } = sink
    return { type, text: sink.toText(), isCut, ...(pages === null ? {} : { pages }) }
  } catch (thrown) {
    return { problem: findProblem(thrown) }
  }
}

function detectType(bytes: Uint8Array): DocumentType | null {
  if (isPdf(bytes)) return 'pdf'
  if (!isZip(bytes)) return null
  let type: DocumentType | null = null
  readZip(bytes, name => {
    if (isDocxPart(name)) type ??= 'docx'
    if (isXlsxPart(name)) type ??= 'xlsx'
    if (isPptxPart(name)) type ??= 'pptx'
    return false
  })
  return type
}

// The name that the library gives its error.
const findProblem = (thrown: unknown): DocumentProblem =>
  thrown instanceof Error && thrown.name === 'PasswordException' ? 'encrypted' : 'damaged'
