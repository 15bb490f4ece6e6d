import { isUtf8 } from 'node:buffer'
import { GatewayError } from '../../../base/errors.ts'
import type { DocumentText } from '../../../engine/traffic/read-documents.ts'
import type { ExtensionWorld } from '../../world.ts'
import { ToolFailure } from '../use-limit.ts'
import type { FetchedPage } from './fetch-page.ts'
import { convertHtml, type ReadablePage } from './html-to-text.ts'

/** Returns what people read in a page or a file. Throws `ToolFailure` if that is not known. */
export async function readFetchedPage(
  world: ExtensionWorld,
  page: FetchedPage,
  mostCharacters: number,
): Promise<ReadablePage> {
  const type = page.type === '' ? guessType(page.bytes) : page.type
  if (HTML.has(type)) return convertHtml(decodeText(page), page.url, mostCharacters)
  if (isTextType(type)) return { title: null, text: decodeText(page).slice(0, mostCharacters) }
  const document = DOCUMENTS.has(type) ? await readDocument(world, page) : null
  if (document === null)
    throw new ToolFailure(`Pages of the type ${describeType(type)} cannot be read`)
  return { title: null, text: document.text }
}

const HTML = new Set(['text/html', 'application/xhtml+xml'])

const isTextType = (type: string): boolean =>
  type.startsWith('text/') || TEXTS.has(type) || /\+(json|xml)$/.test(type)

const TEXTS = new Set([
  ...['application/json', 'application/xml', 'application/javascript', 'application/yaml'],
  ...['application/x-yaml', 'application/x-ndjson', 'application/ld+json', 'application/toml'],
])

const OFFICE = 'application/vnd.openxmlformats-officedocument.'
const DOCUMENTS = new Set([
  ...['application/pdf', 'application/octet-stream'],
  ...['wordprocessingml.document', 'spreadsheetml.sheet', 'presentationml.presentation'].map(
    kind => OFFICE + kind,
  ),
])

// The server's own words may be anything.
const describeType = (type: string): string =>
  /^[a-z]+\/[a-z0-9.+-]{1,80}$/.test(type) ? type : 'that its server states'

/** Reads a document; null for bytes that are none. */
async function readDocument(
  { documents }: ExtensionWorld,
  { bytes, isCut }: FetchedPage,
): Promise<DocumentText | null> {
  if (isCut) throw new ToolFailure('The file is too large')
  try {
    return await documents.read(new Uint8Array(bytes), 'The file')
  } catch (thrown) {
    const isOurs = thrown instanceof GatewayError && thrown.type === 'invalid_request'
    throw new ToolFailure(isOurs ? thrown.message : 'The file cannot be read')
  }
}

const SAMPLE = 1_024

function guessType(bytes: Buffer): string {
  const start = bytes.subarray(0, SAMPLE)
  if (start.subarray(0, 5).toString('latin1') === '%PDF-') return 'application/pdf'
  if (start.includes(0)) return 'application/octet-stream'
  return /<(!doctype html|html|head|body)/i.test(start.toString('latin1'))
    ? 'text/html'
    : 'text/plain'
}

/** Decodes a text by its marks, its server's word or its own, in this order. */
function decodeText({ bytes, charset, type }: FetchedPage): string {
  const named = findMark(bytes) ?? charset ?? (HTML.has(type) ? findOwnCharset(bytes) : null)
  if (named === null || isUtf8(bytes)) return UTF8.decode(bytes)
  try {
    return new TextDecoder(named).decode(bytes)
  } catch {
    return UTF8.decode(bytes)
  }
}

const UTF8 = new TextDecoder()

function findMark(bytes: Buffer): string | null {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  return bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : null
}

const findOwnCharset = (bytes: Buffer): string | null =>
  /<meta[^>]{0,200}?charset\s{0,4}=\s{0,4}["']?([\w.:-]{1,40})/i.exec(
    bytes.subarray(0, SAMPLE).toString('latin1'),
  )?.[1] ?? null
