import type { TextSink } from './text-sink.ts'

/** The most pages of a PDF that are read. */
const MOST_PAGES = 2_000

/** Reads the text of a PDF, page by page. Throws what the library throws. */
export async function readPdf(bytes: Uint8Array, sink: TextSink): Promise<void> {
  // Loaded on first use: it takes tens of megabytes.
  const { getResolvedPDFJS } = await import('unpdf')
  const { getDocument } = await getResolvedPDFJS()
  const loading = getDocument({ data: bytes, ...OPTIONS })
  try {
    const pdf = await loading.promise
    sink.pages = pdf.numPages
    for (let number = 1; number <= Math.min(pdf.numPages, MOST_PAGES); number++) {
      const page = await pdf.getPage(number)
      const hasRoom = await addPage(page.streamTextContent(), sink)
      page.cleanup()
      if (!hasRoom) return
    }
    if (pdf.numPages > MOST_PAGES) sink.isCut = true
  } finally {
    await loading.destroy()
  }
}

/** No program in a document is run, nothing is loaded for it, and no picture is decoded. */
const OPTIONS = {
  isEvalSupported: false,
  enableXfa: false,
  useSystemFonts: false,
  disableFontFace: true,
  maxImageSize: 1,
  verbosity: 0,
}

interface TextItem {
  str?: string
  hasEOL?: boolean
}

// As a stream, so that a page of millions of texts is not held as a list.
async function addPage(
  stream: ReadableStream<{ items: TextItem[] }>,
  sink: TextSink,
): Promise<boolean> {
  const reader = stream.getReader()
  for (let read = await reader.read(); !read.done; read = await reader.read())
    for (const { str = '', hasEOL } of read.value.items)
      if (!sink.add(hasEOL ? `${str}\n` : str)) {
        await reader.cancel()
        return false
      }
  return sink.add('\n\n')
}
