import { inflateRawSync } from 'node:zlib'

/** Reads at most `length` bytes of a file from a position. */
export type ReadAt = (position: number, length: number) => Promise<Uint8Array>

const OFFICE = 'application/vnd.openxmlformats-officedocument.'

/** The type of a document by the content type of its main part, without `.main+xml`. */
const DOCUMENTS = [
  'wordprocessingml.document',
  'spreadsheetml.sheet',
  'presentationml.presentation',
]

/** Whether a file begins as a ZIP archive does that has entries. */
export const isZip = (head: Buffer): boolean => head.toString('latin1', 0, 4) === 'PK\x03\x04'

/** The end of the central directory, with the longest comment. */
const LONGEST_END = 22 + 65_535
/** The most bytes of a central directory. A document of 100,000 parts has fewer. */
const LARGEST_DIRECTORY = 8 * 1024 * 1024
/** The most bytes of a list of content types, packed or unpacked. */
const LARGEST_TYPES = 1024 * 1024

/**
 * Detects a DOCX, XLSX or PPTX file; undefined for every other archive. Reads its directory, and
 * unpacks one entry: the list of content types, which has to name a main part that is there. What
 * an archive says of its sizes is believed only up to what is read anyway.
 */
export async function detectOoxml(size: number, readAt: ReadAt): Promise<string | undefined> {
  const entries = await readDirectory(size, readAt)
  const types = entries?.get('[Content_Types].xml')
  if (!entries || !types || !entries.has('_rels/.rels')) return undefined
  const xml = await unpack(types, size, readAt)
  if (xml === undefined) return undefined
  const main = findMainPart(xml)
  return main && entries.has(main.part) ? OFFICE + main.document : undefined
}

/** An entry of an archive. */
interface ZipEntry {
  name: string
  method: number
  packed: number
  position: number
}

async function readDirectory(
  size: number,
  readAt: ReadAt,
): Promise<Map<string, ZipEntry> | undefined> {
  const tailLength = Math.min(size, LONGEST_END)
  const tail = Buffer.from(await readAt(size - tailLength, tailLength))
  const end = findEnd(tail)
  if (end === undefined) return undefined
  const [count, length, start] = [
    tail.readUInt16LE(end + 10),
    tail.readUInt32LE(end + 12),
    tail.readUInt32LE(end + 16),
  ]
  const isPlausible = length <= LARGEST_DIRECTORY && start + length === size - tailLength + end
  if (!isPlausible) return undefined
  return parseDirectory(Buffer.from(await readAt(start, length)), count, start)
}

// The last signature whose comment reaches exactly to the end of the file.
function findEnd(tail: Buffer): number | undefined {
  for (let at = tail.length - 22; at >= 0; at--)
    if (
      tail.readUInt32LE(at) === 0x06054b50 &&
      at + 22 + tail.readUInt16LE(at + 20) === tail.length
    )
      return at
  return undefined
}

function parseDirectory(
  directory: Buffer,
  count: number,
  end: number,
): Map<string, ZipEntry> | undefined {
  const entries = new Map<string, ZipEntry>()
  let at = 0
  for (let i = 0; i < count; i++) {
    if (at + 46 > directory.length || directory.readUInt32LE(at) !== 0x02014b50) return undefined
    const nameEnd = at + 46 + directory.readUInt16LE(at + 28)
    const name = directory.toString('utf8', at + 46, nameEnd)
    const position = directory.readUInt32LE(at + 42)
    const packed = directory.readUInt32LE(at + 20)
    // Two entries of one name are two documents for two readers.
    if (nameEnd > directory.length || position + packed > end || entries.has(name)) return undefined
    entries.set(name, { name, method: directory.readUInt16LE(at + 10), packed, position })
    at = nameEnd + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32)
  }
  return at === directory.length ? entries : undefined
}

async function unpack(
  { name, method, packed, position }: ZipEntry,
  size: number,
  readAt: ReadAt,
): Promise<string | undefined> {
  if (packed > LARGEST_TYPES) return undefined
  const head = Buffer.from(await readAt(position, 30 + name.length))
  const isSame =
    head.length === 30 + name.length &&
    head.readUInt32LE(0) === 0x04034b50 &&
    head.toString('utf8', 30) === name
  if (!isSame) return undefined
  const start = position + 30 + head.readUInt16LE(26) + head.readUInt16LE(28)
  if (start + packed > size) return undefined
  return inflate(Buffer.from(await readAt(start, packed)), method)
}

function inflate(bytes: Buffer, method: number): string | undefined {
  if (method === 0) return bytes.toString('utf8')
  if (method !== 8) return undefined
  try {
    return inflateRawSync(bytes, { maxOutputLength: LARGEST_TYPES }).toString('utf8')
  } catch {
    return undefined
  }
}

// The elements have no content, so that they can be told apart at their brackets.
function findMainPart(xml: string): { document: string; part: string } | undefined {
  for (const element of xml.split('<').filter(text => /^(\w+:)?Override\s/.test(text))) {
    const type = readAttribute(element, 'ContentType')
    const part = readAttribute(element, 'PartName')
    const document = DOCUMENTS.find(name => type === `${OFFICE}${name}.main+xml`)
    if (document && part?.startsWith('/')) return { document, part: part.slice(1) }
  }
  return undefined
}

function readAttribute(element: string, name: string): string | undefined {
  const at = element.indexOf(`${name}=`)
  const quote = element[at + name.length + 1]
  if (at === -1 || (quote !== '"' && quote !== "'")) return undefined
  const start = at + name.length + 2
  const end = element.indexOf(quote, start)
  return end === -1 ? undefined : element.slice(start, end)
}
