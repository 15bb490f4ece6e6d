import { parseDataUrl } from '../../kernel/data-url.ts'
import type { Attachment, UpstreamRequest } from '../../protocols/protocol.ts'
import type { BodyPiece } from '../egress.ts'

/** No part contains the boundary: it is random, and chosen when the process starts. */
const BOUNDARY = `gateway-${crypto.randomUUID()}`

/** The content type of the forms below. */
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`

/**
 * Writes a body as a form (RFC 7578). The fields in `files` hold lists of data URLs, each of which
 * becomes a file of its bytes; every other value is a text, or JSON if it is none, and a list is a
 * field for each of its items. Each piece has memory of its own, so that it can be given back once
 * it is sent. The file of an attachment comes last and is read while it is sent. Throws `invalid_image` for a
 * data URL that cannot be read.
 */
export function writeForm({ body, attachment }: UpstreamRequest, files: string[]): BodyPiece[] {
  const pieces: BodyPiece[] = []
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue
    if (files.includes(name))
      pieces.push(...listUrls(value).flatMap((url, i) => writeFile(name, url, i)))
    else
      for (const one of Array.isArray(value) ? value : [value])
        pieces.push(toBytes(`${writeHead(name)}\r\n${renderText(one)}\r\n`))
  }
  if (attachment) pieces.push(...writeAttachment(attachment))
  return [...pieces, toBytes(`--${BOUNDARY}--\r\n`)]
}

function writeAttachment({ as, filename, media_type, source }: Attachment): BodyPiece[] {
  if (typeof as === 'string' || !('field' in as)) return []
  const head = writeHead(as.field, `; filename="${filename}"`)
  return [toBytes(`${head}content-type: ${media_type}\r\n\r\n`), source, toBytes('\r\n')]
}

const listUrls = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])

const renderText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

function writeFile(name: string, url: string, position: number): Uint8Array[] {
  const { media_type, data } = parseDataUrl(url)
  const extension = media_type.split('/')[1]?.replace(/\+.*$/, '') ?? 'bin'
  const file = `; filename="${name.replace(/\W/g, '')}-${position}.${extension}"`
  const head = `${writeHead(name, file)}content-type: ${media_type}\r\n\r\n`
  return [toBytes(head), decode(data), toBytes('\r\n')]
}

const writeHead = (name: string, file = ''): string =>
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"${file}\r\n`

// Not from the pool, which other buffers share.
function decode(data: string): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(data, 'base64'))
  return bytes.subarray(0, bytes.write(data, 'base64'))
}

const toBytes = (text: string): Uint8Array => new TextEncoder().encode(text)
