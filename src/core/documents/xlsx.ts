import { readLinks } from './pptx.ts'
import type { TextSink } from './text-sink.ts'
import { createDateReader, readDateStyles } from './xlsx/dates.ts'
import { readAttribute, readXml } from './xml.ts'
import { readZip } from './zip.ts'

const SHEET = /^xl\/worksheets\/[^/]{1,100}\.xml$/
const BOOK = 'xl/workbook.xml'
const LINKS = 'xl/_rels/workbook.xml.rels'
const STRINGS = 'xl/sharedStrings.xml'
const STYLES = 'xl/styles.xml'
const OTHERS = [BOOK, LINKS, STRINGS, STYLES]

/** Tells whether an archive with this file is an XLSX. */
export const isXlsxPart = (name: string): boolean => name === BOOK

/** Reads the text of an XLSX: each sheet under its name, each row on a line, cells set by tabs. */
export function readXlsx(bytes: Uint8Array, sink: TextSink): void {
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
