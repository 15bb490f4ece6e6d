import { isUtf8 } from 'node:buffer'
import { inflateRawSync } from 'node:zlib'
import { JsonJudge } from './type/json.ts'

const DELIMITERS = [',', ';', '\t']

/** How many records are compared. */
const MOST_RECORDS = 1_000

/**
 * Whether lines are a table of values (RFC 4180): at least two records with as many fields each,
 * and two fields or more, between commas, semicolons or tabs. Prose has a space after each comma.
 */
const isCsv = (lines: string[]): boolean => {
  const filled = lines.filter(line => line.trim() !== '')
  return DELIMITERS.some(delimiter => isTable(filled, delimiter))
}

function isTable(lines: string[], delimiter: string): boolean {
  const counter = new FieldCounter(delimiter)
  for (const line of lines) {
    if (counter.counts.length === MOST_RECORDS) break
    counter.read(line)
  }
  const { counts, hasTight, isQuoted } = counter
  const [first = 1] = counts
  return counts.length > 1 && first > 1 && hasTight && !isQuoted && counts.every(n => n === first)
}

class FieldCounter {
  readonly counts: number[] = []
  /** Whether a delimiter stood without a space after it. */
  hasTight = false
  /** Whether a quoted field goes on in the next line. */
  isQuoted = false
  #fields = 1
  readonly #delimiter: string

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  read(line: string): void {
    for (let i = 0; i < line.length; i++) {
      const isDelimiter = line[i] === this.#delimiter && !this.isQuoted
      if (line[i] === '"') this.isQuoted = !this.isQuoted
      if (!isDelimiter) continue
      this.#fields += 1
      if (line[i + 1] !== ' ') this.hasTight = true
    }
    if (this.isQuoted) return
    this.counts.push(this.#fields)
    this.#fields = 1
  }
}

/** Longer lines are cut before they are looked at. */
const LONGEST_LINE = 1_000

const HEADING = /^#{1,6} \S/

/** The marks of Markdown (CommonMark 0.31), each of which other texts may have too. */
const MARKS = [
  HEADING,
  /^ {0,3}(```|~~~)/,
  /^ {0,3}[-*+] \S/,
  /^ {0,3}\d{1,9}[.)] \S/,
  /^ {0,3}> ?\S/,
  /^\|.*\|\s*$/,
  /!?\[[^\]]{1,200}\]\([^)\s]{1,400}\)/,
  /(\*\*|__)[^*_\s][^*_]{0,200}(\*\*|__)/,
  /^ {0,3}(-{3,}|\*{3,}|_{3,})\s*$/,
]

/**
 * Whether lines are Markdown: they begin with a heading and an empty line, or have marks of two
 * kinds. Scripts, whose comments look like headings, begin with `#!`.
 */
function isMarkdown(lines: string[]): boolean {
  const [first = '', second = ''] = lines
  if (first.startsWith('#!')) return false
  if (HEADING.test(first) && second.trim() === '') return true
  const found = new Set<RegExp>()
  for (const line of lines) {
    const start = line.slice(0, LONGEST_LINE)
    for (const mark of MARKS) if (!found.has(mark) && mark.test(start)) found.add(mark)
    if (found.size > 1) return true
  }
  return false
}

/** Control characters that texts have: tab, line feed, form feed, carriage return and escape. */
const ALLOWED = [0x09, 0x0a, 0x0c, 0x0d, 0x1b]

const IS_BINARY = new Uint8Array(256)
for (let byte = 0; byte < 0x20; byte++) IS_BINARY[byte] = ALLOWED.includes(byte) ? 0 : 1

/** Judges whether a file is text in UTF-8, and which, while it arrives: all of it is looked at. */
class TextJudge {
  /** The bytes of a character that the next bytes complete. */
  #rest: Uint8Array = new Uint8Array(0)
  #isText = true
  readonly #json = new JsonJudge()

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    if (!this.#isText) return
    this.#isText = this.#isWholeText(bytes) && !hasControl(bytes)
    if (this.#isText) this.#json.push(bytes)
  }

  /** Returns the media type; undefined if it is not text. `head` has the first bytes. */
  finish(head: Buffer, size: number): string | undefined {
    if (!this.#isText || this.#rest.length > 0) return undefined
    const json = this.#json.finish()
    if (json) return json === 'lines' ? 'application/x-ndjson' : 'application/json'
    const lines = splitLines(head.toString('utf8'), head.length < size)
    if (isMarkdown(lines)) return 'text/markdown'
    return isCsv(lines) ? 'text/csv' : 'text/plain'
  }

  // The end of a piece may be the middle of a character.
  #isWholeText(bytes: Uint8Array): boolean {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const end = findLastStart(all)
    this.#rest = Uint8Array.from(all.subarray(end))
    return isUtf8(all.subarray(0, end))
  }
}

/** Finds where the last character begins if it is not complete; else the end. */
function findLastStart(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

function hasControl(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (IS_BINARY[bytes[i] as number] === 1) return true
  return false
}

// The last line of a part may be cut.
function splitLines(text: string, isPart: boolean): string[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/)
  if (isPart && lines.length > 1) lines.pop()
  return lines
}

/** Reads at most `length` bytes of a file from a position. */
type ReadAt = (position: number, length: number) => Promise<Uint8Array>

const OFFICE = 'application/vnd.openxmlformats-officedocument.'

/** The type of a document by the content type of its main part, without `.main+xml`. */
const DOCUMENTS = [
  'wordprocessingml.document',
  'spreadsheetml.sheet',
  'presentationml.presentation',
]

/** Whether a file begins as a ZIP archive does that has entries. */
const isZip = (head: Buffer): boolean => head.toString('latin1', 0, 4) === 'PK\x03\x04'

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
async function detectOoxml(size: number, readAt: ReadAt): Promise<string | undefined> {
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

/** The types that are accepted, by the names that the library has for them. */
const ACCEPTED: Record<string, string> = {
  'application/pdf': 'application/pdf',
  'image/png': 'image/png',
  'image/apng': 'image/png',
  'image/jpeg': 'image/jpeg',
  'image/gif': 'image/gif',
  'image/webp': 'image/webp',
  'audio/mpeg': 'audio/mpeg',
  'audio/wav': 'audio/wav',
  'audio/flac': 'audio/flac',
  'audio/x-flac': 'audio/flac',
  'audio/ogg': 'audio/ogg',
  'audio/ogg; codecs=opus': 'audio/ogg',
}

/** What a file has to begin with. The library accepts less of some. */
const STARTS: Record<string, (head: Buffer) => boolean> = {
  'application/pdf': head => /^%PDF-\d/.test(head.toString('latin1', 0, 6)),
  'image/png': head =>
    head.toString('latin1', 0, 8) === '\x89PNG\r\n\x1a\n' &&
    head.toString('latin1', 12, 16) === 'IHDR',
  'image/gif': head => /^GIF8[79]a/.test(head.toString('latin1', 0, 6)) && head.length >= 13,
  'audio/mpeg': head => head.toString('latin1', 0, 3) === 'ID3' || isMpegFrame(head),
}

/**
 * Finds the type of a picture, a sound or a PDF by its first bytes; undefined for any other. Not
 * for archives, which the library would unpack.
 */
async function findMediaType(head: Buffer): Promise<string | undefined> {
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(head).catch(() => undefined)
  const type = found && ACCEPTED[found.mime]
  return type !== undefined && (STARTS[type]?.(head) ?? true) ? type : undefined
}

// A frame of layer III whose bit rate and sampling rate exist. (ISO/IEC 11172-3, 2.4.2.3)
function isMpegFrame(head: Buffer): boolean {
  const [sync = 0, layer = 0, rates = 0] = head
  const isSynced = sync === 0xff && (layer & 0xe0) === 0xe0
  const isLayer3 = (layer & 0x06) === 0x02 && (layer & 0x18) !== 0x08
  return isSynced && isLayer3 && rates >> 4 !== 0xf && (rates & 0x0c) !== 0x0c
}

/** How many of the first bytes are kept to look at. */
const HEAD = 64 * 1024

/**
 * Detects the type of a file from its contents alone, while they arrive: neither its name nor what
 * a client declares counts (specification E10). Holds 64 KiB, whatever the size.
 */
export class TypeDetector {
  readonly #head = Buffer.alloc(HEAD)
  #filled = 0
  readonly #text = new TextJudge()

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    if (this.#filled < HEAD) {
      const part = bytes.subarray(0, HEAD - this.#filled)
      this.#head.set(part, this.#filled)
      this.#filled += part.length
    }
    this.#text.push(bytes)
  }

  /**
   * Returns the media type of the whole file; undefined for any that is not accepted. `readAt`
   * reads the file, of which a few ranges are needed if it is a ZIP archive.
   */
  async finish(size: number, readAt: ReadAt): Promise<string | undefined> {
    const head = this.#head.subarray(0, this.#filled)
    if (isZip(head)) return detectOoxml(size, readAt)
    const media = await findMediaType(skipBlankLines(head))
    return media ?? this.#text.finish(head, size) ?? findLatePdf(head)
  }
}

const SPACES = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x20])
const PDF_START = Buffer.from('%PDF-')

// Some programs write a blank line before a PDF, and every reader of it accepts that.
function skipBlankLines(head: Buffer): Buffer {
  if (!SPACES.has(head[0] ?? 0)) return head
  const start = head.findIndex(byte => !SPACES.has(byte))
  const rest = start === -1 ? head : head.subarray(start)
  return rest.subarray(0, PDF_START.length).equals(PDF_START) ? rest : head
}

/** Readers of PDF look for its beginning among so many bytes. */
const PDF_SEARCHED = 1024

// A line or two of a printer or a mail before it, but no markup, program or archive: those have
// other readers.
function findLatePdf(head: Buffer): string | undefined {
  const start = /(?:^|[\r\n])%PDF-\d/.exec(head.toString('latin1', 0, PDF_SEARCHED))
  const before = start ? head.toString('latin1', 0, start.index) : '<'
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what no line of a text has.
  return /^(?!#!|MZ|PK)[^<>\x00-\x08\x0e-\x1a]*$/.test(before) ? 'application/pdf' : undefined
}
