import { unzipSync } from 'fflate'
import type { DocumentType } from '../../engine/traffic/read-documents.ts'
import type { DocumentProblem, DocumentResult } from '../documents.ts'
import { isPdf, isZip } from './detect.ts'
import { TextSink } from './text-sink.ts'

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

/** The most pages of a PDF that are read. */
const MOST_PAGES = 2_000

/** Reads the text of a PDF, page by page. Throws what the library throws. */
async function readPdf(bytes: Uint8Array, sink: TextSink): Promise<void> {
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

/** The parts of a document that have its text, in the order in which they are read. */
const PARTS = /^word\/(?:document|footnotes|endnotes)\.xml$/
const MAIN = 'word/document.xml'

/** Tells whether an archive with this file is a DOCX. */
const isDocxPart = (name: string): boolean => name === MAIN

/**
 * Reads the text of a DOCX: paragraphs as lines, headings marked as in Markdown, the cells of a row
 * on one line, and notes at the end.
 */
function readDocx(bytes: Uint8Array, sink: TextSink): void {
  const parts = readZip(bytes, name => PARTS.test(name))
  const names = [MAIN, ...[...parts.keys()].filter(name => name !== MAIN)]
  for (const name of names) {
    const part = parts.get(name)
    if (part && !addPart(part, sink)) return
  }
}

/** What each element adds to the text when it ends. Cells are set apart by tabs. */
const ENDS: Record<string, string> = { p: '\n', tr: '\n', tc: '\t' }
const SIGNS: Record<string, string> = { tab: '\t', br: '\n', cr: '\n', noBreakHyphen: '-' }
const HEADING = /^(?:heading|title|berschrift|überschrift)\s?([1-6])?$/i

function addPart(part: Uint8Array, sink: TextSink): boolean {
  let isText = false
  let cells = 0
  for (const event of readXml(part)) {
    if (event.type === 'text') {
      if (isText && !sink.add(event.text)) return false
      continue
    }
    const { name } = event
    if (event.type === 'open') {
      isText = name === 't' && !event.isEmpty
      if (name === 'tc') cells += 1
      const added = name === 'pStyle' ? renderHeading(event.attributes) : SIGNS[name]
      if (added && !sink.add(added)) return false
      continue
    }
    isText = false
    // A paragraph within a cell is no line of its own.
    const ending = name === 'p' && cells > 0 ? ' ' : ENDS[name]
    if (name === 'tc') cells -= 1
    if (ending && !sink.add(ending)) return false
  }
  return true
}

function renderHeading(attributes: string): string | undefined {
  const found = HEADING.exec(readAttribute(attributes, 'val') ?? '')
  return found ? `${'#'.repeat(Number(found[1] ?? 1))} ` : undefined
}

/** The formats of dates and times that every office program has (ECMA-376, 18.8.30). */
const isDateFormat = (id: number) => (id >= 14 && id <= 22) || (id >= 45 && id <= 47)

/** Texts in quotes, in brackets and after a backslash are no signs of a date. */
const LITERALS = /"[^"]*"|\[[^\]]*\]|\\./g
const DATE_SIGNS = /[ymdhs]/i

/** Reads which styles of cells show a number as a date. */
function readDateStyles(part: Uint8Array | undefined): Set<number> {
  const formats = new Set<number>()
  const styles = new Set<number>()
  let isCellStyles = false
  let count = 0
  for (const event of part ? readXml(part) : []) {
    if (event.type === 'text') continue
    if (event.name === 'cellXfs') isCellStyles = event.type === 'open'
    if (event.type !== 'open') continue
    const format = Number(readAttribute(event.attributes, 'numFmtId') ?? 0)
    const code = event.name === 'numFmt' ? readAttribute(event.attributes, 'formatCode') : undefined
    if (code !== undefined && DATE_SIGNS.test(code.replace(LITERALS, ''))) formats.add(format)
    if (event.name !== 'xf' || !isCellStyles) continue
    if (isDateFormat(format) || formats.has(format)) styles.add(count)
    count += 1
  }
  return styles
}

const DAY = 86_400_000
const EPOCH_1900 = Date.UTC(1899, 11, 30)
const EPOCH_1904 = Date.UTC(1904, 0, 1)

/** Returns a function that renders days since the beginning of a workbook's time. */
const createDateReader =
  (isFrom1904: boolean) =>
  (days: number): string => {
    const time = new Date((isFrom1904 ? EPOCH_1904 : EPOCH_1900) + Math.round(days * DAY))
    if (Number.isNaN(time.getTime())) return String(days)
    const [date = '', clock = ''] = time.toISOString().split('T')
    const hour = clock.slice(0, 8)
    if (Math.abs(days) < 1) return hour
    return hour === '00:00:00' ? date : `${date} ${hour}`
  }

const SHEET = /^xl\/worksheets\/[^/]{1,100}\.xml$/
const BOOK = 'xl/workbook.xml'
const LINKS = 'xl/_rels/workbook.xml.rels'
const STRINGS = 'xl/sharedStrings.xml'
const STYLES = 'xl/styles.xml'
const OTHERS = [BOOK, LINKS, STRINGS, STYLES]

/** Tells whether an archive with this file is an XLSX. */
const isXlsxPart = (name: string): boolean => name === BOOK

/** Reads the text of an XLSX: each sheet under its name, each row on a line, cells set by tabs. */
function readXlsx(bytes: Uint8Array, sink: TextSink): void {
  const parts = readZip(bytes, name => SHEET.test(name) || OTHERS.includes(name))
  const book = readBook(parts)
  const cells: CellReader = {
    strings: readStrings(takePart(parts, STRINGS)),
    dateStyles: readDateStyles(parts.get(STYLES)),
    toDate: createDateReader(book.isFrom1904),
  }
  for (const { name, path } of book.sheets) {
    const part = takePart(parts, path)
    if (part && !(sink.add(`\n## ${name}\n`) && addSheet(part, cells, sink))) return
  }
}

/** Returns a file of the archive that is read but once, so that its bytes can go. */
function takePart(parts: Map<string, Uint8Array>, path: string): Uint8Array | undefined {
  const part = parts.get(path)
  parts.delete(path)
  return part
}

interface Book {
  sheets: { name: string; path: string }[]
  isFrom1904: boolean
}

function readBook(parts: Map<string, Uint8Array>): Book {
  const links = readLinks(parts.get(LINKS))
  const book: Book = { sheets: [], isFrom1904: false }
  const part = parts.get(BOOK)
  for (const event of part ? readXml(part) : []) {
    if (event.type !== 'open') continue
    if (event.name === 'workbookPr')
      book.isFrom1904 = /^(?:1|true)$/.test(readAttribute(event.attributes, 'date1904') ?? '')
    if (event.name !== 'sheet') continue
    const target = links.get(readAttribute(event.attributes, 'r:id') ?? '')?.target
    const name = readAttribute(event.attributes, 'name') ?? ''
    if (target) book.sheets.push({ name, path: `xl/${target.replace(/^\/xl\//, '')}` })
  }
  if (book.sheets.length > 0) return book
  const paths = [...parts.keys()].filter(name => SHEET.test(name)).sort()
  return { ...book, sheets: paths.map((path, i) => ({ name: `Sheet ${i + 1}`, path })) }
}

/** Reads the texts that cells refer to by number. Phonetic readings are left out. */
function readStrings(part: Uint8Array | undefined): StringTable {
  const strings = new StringTable()
  let current = ''
  let isText = false
  let isPhonetic = false
  for (const event of part ? readXml(part) : []) {
    if (event.type === 'text') {
      if (isText && !isPhonetic) current += event.text
      continue
    }
    isText = event.type === 'open' && event.name === 't' && !event.isEmpty
    if (event.name === 'rPh') isPhonetic = event.type === 'open'
    if (event.name !== 'si') continue
    if (event.type === 'close' || event.isEmpty) strings.add(current)
    current = ''
  }
  return strings
}

/** So many texts are kept as one: each by itself takes more memory than its characters. */
const TEXTS_AT_ONCE = 1_024

/** A list of texts, however many. */
class StringTable {
  readonly #texts: string[] = []
  readonly #ends: Uint32Array[] = []
  #open: string[] = []

  add(text: string): void {
    if (this.#open.push(text) === TEXTS_AT_ONCE) this.#close()
  }

  /** Returns a text by its number; empty if there is none. */
  get(index: number): string {
    if (!Number.isInteger(index)) return ''
    const block = Math.floor(index / TEXTS_AT_ONCE)
    const place = index % TEXTS_AT_ONCE
    const ends = this.#ends[block]
    if (!ends) return (block === this.#texts.length && this.#open[place]) || ''
    return this.#texts[block]?.slice(place === 0 ? 0 : ends[place - 1], ends[place]) ?? ''
  }

  #close(): void {
    const ends = new Uint32Array(this.#open.length)
    let end = 0
    for (const [i, text] of this.#open.entries()) {
      end += text.length
      ends[i] = end
    }
    this.#texts.push(this.#open.join(''))
    this.#ends.push(ends)
    this.#open = []
  }
}

/** What is needed to read the cells of a workbook. */
interface CellReader {
  strings: StringTable
  /** The styles that show a number as a date. */
  dateStyles: Set<number>
  toDate(days: number): string
}

interface Cell {
  type: string
  style: number
  column: number
  value: string
}

function addSheet(part: Uint8Array, reader: CellReader, sink: TextSink): boolean {
  let cell: Cell | null = null
  let isValue = false
  let column = 0
  for (const event of readXml(part)) {
    if (event.type === 'text') {
      if (cell && isValue) cell.value += event.text
      continue
    }
    const { name } = event
    isValue = event.type === 'open' && (name === 'v' || name === 't') && !event.isEmpty
    if (event.type === 'open') {
      if (name === 'row') column = 0
      if (name === 'c') cell = event.isEmpty ? null : openCell(event.attributes, column)
    } else if (name === 'c' && cell) {
      if (!sink.add('\t'.repeat(Math.max(cell.column - column, 0)) + renderCell(cell, reader)))
        return false
      column = cell.column
      cell = null
    } else if (name === 'row' && !sink.add('\n')) return false
  }
  return true
}

function openCell(attributes: string, last: number): Cell {
  return {
    type: readAttribute(attributes, 't') ?? 'n',
    style: Number(readAttribute(attributes, 's') ?? -1),
    column: readColumn(readAttribute(attributes, 'r')) ?? last + 1,
    value: '',
  }
}

/** The most columns of a sheet. */
const MAX_COLUMNS = 16_384

/** Reads the column of a cell such as `B7`, from 0; undefined if there is none. */
function readColumn(reference: string | undefined): number | undefined {
  const letters = /^[A-Z]{1,3}/.exec(reference ?? '')?.[0]
  if (!letters) return undefined
  const number = [...letters].reduce((sum, one) => sum * 26 + one.charCodeAt(0) - 64, 0)
  return Math.min(number, MAX_COLUMNS) - 1
}

const BOOLEANS: Record<string, string> = { 0: 'FALSE', 1: 'TRUE' }

function renderCell({ type, style, value }: Cell, reader: CellReader): string {
  if (type === 's') return toOneLine(reader.strings.get(Number(value)))
  if (type === 'b') return BOOLEANS[value] ?? value
  if (type === 'n' && reader.dateStyles.has(style) && value !== '')
    return reader.toDate(Number(value))
  return toOneLine(value)
}

const toOneLine = (text: string) => text.replace(/\s+/g, ' ')

const SLIDE = /^ppt\/slides\/slide(\d{1,6})\.xml$/
const NOTES = /^ppt\/notesSlides\/notesSlide\d{1,6}\.xml$/
const SLIDE_LINKS = /^ppt\/slides\/_rels\/slide\d{1,6}\.xml\.rels$/
const ORDER = ['ppt/presentation.xml', 'ppt/_rels/presentation.xml.rels']

/** Tells whether an archive with this file is a PPTX. */
const isPptxPart = (name: string): boolean => name === 'ppt/presentation.xml'

/** Reads the text of a PPTX: slide by slide in the order of the presentation, with its notes. */
function readPptx(bytes: Uint8Array, sink: TextSink): void {
  const parts = readZip(
    bytes,
    name => SLIDE.test(name) || NOTES.test(name) || SLIDE_LINKS.test(name) || ORDER.includes(name),
  )
  for (const [i, slide] of listSlides(parts).entries()) {
    const part = parts.get(slide)
    if (!part) continue
    if (!sink.add(`\n## Slide ${i + 1}\n`) || !addParagraphs(part, sink)) return
    const notes = parts.get(findNotes(parts, slide) ?? '')
    if (notes && !(sink.add('\nNotes: ') && addParagraphs(notes, sink))) return
  }
}

/** Lists the slides in the order of the presentation, or by their numbers if it names none. */
function listSlides(parts: Map<string, Uint8Array>): string[] {
  const targets = readLinks(parts.get('ppt/_rels/presentation.xml.rels'))
  const ordered: string[] = []
  for (const event of readPart(parts.get('ppt/presentation.xml')))
    if (event.type === 'open' && event.name === 'sldId') {
      const target = targets.get(readAttribute(event.attributes, 'r:id') ?? '')
      if (target) ordered.push(`ppt/${target.target.replace(/^\/ppt\//, '')}`)
    }
  const known = ordered.filter(name => parts.has(name))
  return known.length > 0 ? known : listByNumber(parts)
}

const listByNumber = (parts: Map<string, Uint8Array>): string[] =>
  [...parts.keys()]
    .flatMap(name => {
      const number = SLIDE.exec(name)?.[1]
      return number === undefined ? [] : [{ name, number: Number(number) }]
    })
    .sort((a, b) => a.number - b.number)
    .map(({ name }) => name)

function findNotes(parts: Map<string, Uint8Array>, slide: string): string | undefined {
  const links = readLinks(parts.get(slide.replace('slides/', 'slides/_rels/').concat('.rels')))
  const notes = [...links.values()].find(({ type }) => type.endsWith('/notesSlide'))
  return notes && `ppt/${notes.target.replace(/^(?:\.\.\/|\/ppt\/)/, '')}`
}

/** A link from one part of the archive to another. */
interface Link {
  type: string
  target: string
}

/** Reads the links of a part, by their ids. */
function readLinks(part: Uint8Array | undefined): Map<string, Link> {
  const links = new Map<string, Link>()
  for (const event of readPart(part)) {
    if (event.type !== 'open' || event.name !== 'Relationship') continue
    const [id, type, target] = ['Id', 'Type', 'Target'].map(name =>
      readAttribute(event.attributes, name),
    )
    if (id && target) links.set(id, { type: type ?? '', target })
  }
  return links
}

const readPart = (part: Uint8Array | undefined) => (part ? readXml(part) : [])

/**
 * Adds a part's text: paragraphs are lines, and the cells of a row are on one. Fields, such as the
 * number of a slide, are left out.
 */
function addParagraphs(part: Uint8Array, sink: TextSink): boolean {
  let isText = false
  let isField = false
  let cells = 0
  for (const event of readXml(part)) {
    if (event.type === 'text') {
      if (isText && !isField && !sink.add(event.text)) return false
      continue
    }
    if (event.name === 'fld') isField = event.type === 'open' && !event.isEmpty
    isText = event.type === 'open' && event.name === 't' && !event.isEmpty
    if (event.name === 'tc') cells += event.type === 'open' ? 1 : -1
    const added = event.type === 'close' ? renderEnd(event.name, cells) : renderSign(event.name)
    if (added && !sink.add(added)) return false
  }
  return true
}

const renderSign = (name: string) => (name === 'br' ? '\n' : undefined)

function renderEnd(name: string, cells: number): string | undefined {
  if (name === 'p') return cells > 0 ? ' ' : '\n'
  if (name === 'tc') return '\t'
  return name === 'tr' ? '\n' : undefined
}

const MEBIBYTE = 1024 * 1024

/** What one file of an archive, and all that are read of it, may come to once inflated. */
const LARGEST_ENTRY = 32 * MEBIBYTE
const LARGEST_SUM = 96 * MEBIBYTE
/** How many files an archive may list. */
const MOST_ENTRIES = 20_000

/** The archive lists too much, inflates to too much, or states a wrong size. */
class ZipError extends Error {}

/**
 * Reads the files of a zip archive whose names `isWanted`. Never takes more memory than the bounds:
 * what an archive says of a size is the room that the file gets, and no more is inflated. Throws
 * for an archive that is damaged, or larger than the bounds.
 */
function readZip(bytes: Uint8Array, isWanted: (name: string) => boolean): Map<string, Uint8Array> {
  const sizes = new Map<string, number>()
  let count = 0
  let sum = 0
  const files = unzipSync(bytes, {
    filter({ name, originalSize }) {
      count += 1
      if (count > MOST_ENTRIES) throw new ZipError('too many files')
      if (!isWanted(name)) return false
      sum += originalSize
      if (originalSize > LARGEST_ENTRY || sum > LARGEST_SUM) throw new ZipError('too large')
      sizes.set(name, originalSize)
      return true
    },
  })
  for (const [name, size] of sizes)
    if (files[name]?.length !== size) throw new ZipError('a size that is not true')
  return new Map(Object.entries(files))
}

/** One piece of an XML document. Names are without their prefix. */
type XmlEvent =
  | { type: 'open'; name: string; attributes: string; isEmpty: boolean }
  | { type: 'close'; name: string }
  | { type: 'text'; text: string }

/** The XML cannot be read, or declares what office programs never write. */
class XmlError extends Error {}

/** Of so many characters all pieces become garbage, and the collector waits for much more. */
const COLLECT_AFTER = 2 * 1024 * 1024

/**
 * Reads the pieces of an XML document in linear time. It is no validator: it takes what office
 * programs write. Throws `XmlError` for a document type, so that no entity is ever declared, and
 * for what is not closed.
 */
function* readXml(bytes: Uint8Array): Generator<XmlEvent> {
  const xml = decodeXml(bytes)
  let at = 0
  let collectAt = COLLECT_AFTER
  while (at < xml.length) {
    if (at > collectAt) {
      Bun.gc(true)
      collectAt = at + COLLECT_AFTER
    }
    const tag = xml.indexOf('<', at)
    const end = tag === -1 ? xml.length : tag
    if (end > at) yield { type: 'text', text: decodeEntities(xml.slice(at, end)) }
    if (tag === -1) return
    if (xml.startsWith('<![CDATA[', tag)) {
      const close = findEnd(xml, ']]>', tag)
      yield { type: 'text', text: xml.slice(tag + '<![CDATA['.length, close) }
      at = close + ']]>'.length
    } else if (xml.startsWith('<!--', tag)) at = findEnd(xml, '-->', tag) + '-->'.length
    else if (xml.startsWith('<?', tag)) at = findEnd(xml, '?>', tag) + '?>'.length
    else if (xml.startsWith('<!', tag)) throw new XmlError('a document type')
    else {
      const close = findTagEnd(xml, tag)
      yield readTag(xml.slice(tag + 1, close))
      at = close + 1
    }
  }
}

const decodeXml = (bytes: Uint8Array): string => {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder('utf-16le').decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes)
  return new TextDecoder().decode(bytes)
}

function findEnd(xml: string, end: string, from: number): number {
  const found = xml.indexOf(end, from)
  if (found === -1) throw new XmlError('the end of a tag')
  return found
}

/** Finds the end of a tag: a value in quotes may have a `>`. */
function findTagEnd(xml: string, from: number): number {
  let quote = ''
  for (let i = from; i < xml.length; i++) {
    const character = xml[i] as string
    if (quote === '' && character === '>') return i
    if (quote === '' && (character === '"' || character === "'")) quote = character
    else if (character === quote) quote = ''
  }
  throw new XmlError('the end of a tag')
}

const NAME_END = /[\s/]/

function readTag(tag: string): XmlEvent {
  if (tag.startsWith('/')) return { type: 'close', name: toLocalName(tag.slice(1).trim()) }
  const isEmpty = tag.endsWith('/')
  const end = tag.search(NAME_END)
  const name = end === -1 ? tag : tag.slice(0, end)
  return { type: 'open', name: toLocalName(name), attributes: tag.slice(name.length), isEmpty }
}

const toLocalName = (name: string) => name.slice(name.indexOf(':') + 1)

/** Returns the value of an attribute by its name without a prefix; undefined if there is none. */
function readAttribute(attributes: string, name: string): string | undefined {
  for (const quote of ['"', "'"])
    for (let at = attributes.indexOf(`${name}=${quote}`); at !== -1; ) {
      const before = attributes[at - 1]
      const start = at + name.length + 2
      const end = attributes.indexOf(quote, start)
      if (end === -1) return undefined
      if (before === ':' || (before !== undefined && /\s/.test(before)))
        return decodeEntities(attributes.slice(start, end))
      at = attributes.indexOf(`${name}=${quote}`, end)
    }
  return undefined
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }
const ENTITY = /&([^;&\s]{0,12});?/g

function decodeEntities(text: string): string {
  return text.includes('&') ? text.replace(ENTITY, (_, name: string) => decodeEntity(name)) : text
}

/** Only the five entities of XML itself, and characters by their number, have a meaning. */
function decodeEntity(name: string): string {
  const known = Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : undefined
  if (known !== undefined) return known
  const [, hexadecimal, decimal] = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i.exec(name) ?? []
  const code = hexadecimal ? Number.parseInt(hexadecimal, 16) : Number(decimal ?? Number.NaN)
  if (!(code > 0 && code <= 0x10ffff)) throw new XmlError('an entity that is not declared')
  return String.fromCodePoint(code)
}
