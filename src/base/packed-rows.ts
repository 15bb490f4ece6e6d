import { yieldToEventLoop } from './clock.ts'
import { compareTexts, findPlace } from './sorting.ts'

/**
 * How the records of a noun are packed. A packed row is a JSON array: the name, the time of
 * creation, the mark, the group, and what else `parse` needs.
 */
export interface Packing<Value extends { created_at: string }> {
  parse(fields: unknown[]): Value
  /** Returns what a value is found by: usually a hash of 64 digits. */
  getName(value: Value): string
  /** Returns the id of what it belongs to: lists are of one group, or of some. */
  getGroup(value: Value): string
  /** Returns its mark: a sum of bits below 64. In rows, `NO_MARK` is added to it. */
  getMark(value: Value): number
  /** What decides the order of those created at the same time: the name, or the field after the group. */
  tie: 'name' | 'field'
  getTie(value: Value): string
}

/** Some rows as one text, one a line. */
export interface PageOfRows {
  rows: Buffer
  /** How many: one at least. */
  count: number
}

/** Part of a list that is ordered by time of creation. */
export interface PackedQuery {
  isInGroup(group: string): boolean
  /** Bits of marks: what has one of them is not in the list. */
  without: number
  order: 'oldest' | 'newest'
  /** How many of the first are wanted. */
  count: number
}

/** What is added to marks in rows, so that all are of two digits. */
export const NO_MARK = 10

/** So many pages are indexed before others get their turn. */
const AT_ONCE = 4

// Where the fields of a row are, in bytes: ["<64>","<24>",<2>,"<36>","…
const NAME = 2
const NAME_LENGTH = 64
const CREATED = 69
const CREATED_LENGTH = 24
const MARK = 95
const MARK_LENGTH = 2
const GROUP = 99
const GROUP_LENGTH = 36
const FIELD = GROUP + GROUP_LENGTH + 3

/** What the digits of a mark without bits come to: marks are written from 10, in two digits. */
const ZERO = 0x31 * 10 + 0x30

const [QUOTE, COMMA, BACKSLASH, LINE_END] = [0x22, 0x2c, 0x5c, 0x0a]

/**
 * Records in memory as the bytes of their rows: a tenth of a million are a few large buffers, and
 * not a million objects. A value is parsed when it is asked for.
 */
export class PackedRows<Value extends { created_at: string }> implements Iterable<Value> {
  /** The values whose rows are of another form, and those that are no rows. */
  readonly others: Value[]
  readonly packing: Packing<Value>
  /** The number of rows, those of another form included. */
  readonly length: number
  readonly #pages: Buffer[]
  /** The number of each page's first row. */
  readonly #firsts: number[] = []
  /** The page of each row, and where it starts there. */
  readonly #pageNumbers: Uint32Array
  readonly #starts: Uint32Array
  /** Finds a row by its name: each place has the number of a row, from 1. */
  readonly #places: Uint32Array
  #packed = 0
  #columns: Columns | undefined

  private constructor(packing: Packing<Value>, pages: PageOfRows[], others: Value[]) {
    this.packing = packing
    this.others = others
    this.length = pages.reduce((sum, { count }) => sum + count, 0)
    this.#pages = pages.map(({ rows }) => rows)
    this.#pageNumbers = new Uint32Array(this.length)
    this.#starts = new Uint32Array(this.length)
    this.#places = new Uint32Array(toCapacity(this.length))
  }

  /** Packs pages of rows, in turns. Adds other values. */
  static async pack<Value extends { created_at: string }>(
    packing: Packing<Value>,
    pages: PageOfRows[],
    others: Value[] = [],
  ): Promise<PackedRows<Value>> {
    const rows = new PackedRows(packing, pages, [...others])
    let first = 0
    for (const [number, { count }] of pages.entries()) {
      rows.#index(number, first, count)
      first += count
      if (number % AT_ONCE === AT_ONCE - 1) await yieldToEventLoop()
    }
    return rows
  }

  /** The number of rows but those of another form. */
  get packed(): number {
    return this.#packed
  }

  *[Symbol.iterator](): Iterator<Value> {
    for (const row of this.list()) yield this.parse(row)
    yield* this.others
  }

  /**
   * Yields the numbers of all rows but those of another form: of those alone whose mark has one of
   * these bits, if any are given.
   */
  *list(bits = 0): Iterable<number> {
    for (let row = 0; row < this.length; row++)
      if (hasForm(...this.#open(row)) && (bits === 0 || this.#has(row, bits))) yield row
  }

  /** Finds the row with a name. Undefined if there is none, or if it is one of `others`. */
  find(name: string): number | undefined {
    if (name.length !== NAME_LENGTH) return undefined
    const last = this.#places.length - 1
    for (let place = hashName(name) & last; ; place = (place + 1) & last) {
      const row = (this.#places[place] ?? 0) - 1
      if (row < 0) return undefined
      if (this.#hasName(row, name)) return row
    }
  }

  parse(row: number): Value {
    const [page, start] = this.#open(row)
    const end = page.indexOf(LINE_END, start)
    const text = page.toString('utf8', start, end === -1 ? page.length : end)
    return this.packing.parse(JSON.parse(text))
  }

  readName(row: number): string {
    const [page, start] = this.#open(row)
    return page.toString('latin1', start + NAME, start + NAME + NAME_LENGTH)
  }

  /** Yields the rows that have this plain text somewhere. */
  *search(text: string): Iterable<number> {
    for (const [number, page] of this.#pages.entries()) {
      const first = this.#firsts[number] as number
      const starts = this.#starts.subarray(first, this.#firsts[number + 1] ?? this.length)
      for (let at = page.indexOf(text); at !== -1; ) {
        const row = findLast(starts, at)
        yield first + row
        const next = starts[row + 1]
        at = next === undefined ? -1 : page.indexOf(text, next)
      }
    }
  }

  /** Picks the first rows of a list, and counts all of it. Leaves out those that are marked as gone. */
  pick(query: PackedQuery, gone?: Uint8Array): { first: number[]; total: number } {
    const columns = this.#readColumns()
    const compare = this.#createOrder(columns, query.order)
    if (query.count > FEW) {
      const listed: number[] = []
      const total = this.#visit(query, gone, row => listed.push(row))
      return { first: listed.sort(compare).slice(0, query.count), total }
    }
    const first: number[] = []
    const total = this.#visit(query, gone, row => {
      if (first.length < query.count) insertSorted(first, row, compare)
      else if (compare(row, first.at(-1) as number) < 0) {
        first.pop()
        insertSorted(first, row, compare)
      }
    })
    return { first, total }
  }

  /** Visits the rows of a list, those that are likely to be its first ones first. Counts them. */
  #visit(query: PackedQuery, gone: Uint8Array | undefined, visit: (row: number) => void): number {
    const { groups, marks, names } = this.#readColumns()
    const isWanted = Uint8Array.from(names, name => Number(name !== '' && query.isInGroup(name)))
    // The newest are the last that were read.
    const [start, step] = query.order === 'oldest' ? [0, 1] : [this.length - 1, -1]
    let total = 0
    for (let row = start; row >= 0 && row < this.length; row += step) {
      if (isWanted[groups[row] as number] === 0 || ((marks[row] as number) & query.without) !== 0)
        continue
      if (gone !== undefined && gone[row] === 1) continue
      total++
      visit(row)
    }
    return total
  }

  #createOrder({ created, ties }: Columns, order: PackedQuery['order']) {
    const direction = order === 'oldest' ? 1 : -1
    return (a: number, b: number): number => {
      const difference = (created[a] as number) - (created[b] as number)
      if (difference !== 0) return direction * difference
      return (ties[a] as number) - (ties[b] as number) || this.#compareTies(a, b)
    }
  }

  #has(row: number, bits: number): boolean {
    return (readMark(...this.#open(row)) & bits) !== 0
  }

  #open(row: number): [page: Buffer, start: number] {
    return [this.#pages[this.#pageNumbers[row] as number] as Buffer, this.#starts[row] as number]
  }

  #index(number: number, first: number, count: number): void {
    const page = this.#pages[number] as Buffer
    const last = this.#places.length - 1
    this.#firsts.push(first)
    this.#pageNumbers.fill(number, first, first + count)
    for (let row = first, start = 0; row < first + count; row++) {
      this.#starts[row] = start
      if (hasForm(page, start)) {
        let place = hashBytes(page, start + NAME) & last
        while (this.#places[place] !== 0) place = (place + 1) & last
        this.#places[place] = row + 1
        this.#packed++
      } else this.others.push(this.parse(row))
      start = page.indexOf(LINE_END, start) + 1
    }
  }

  #hasName(row: number, name: string): boolean {
    const [page, start] = this.#open(row)
    for (let i = 0; i < NAME_LENGTH; i++)
      if (page[start + NAME + i] !== name.charCodeAt(i)) return false
    return true
  }

  #compareTies(a: number, b: number): number {
    const at = this.#tieStart
    const [first, start] = this.#open(a)
    const [second, other] = this.#open(b)
    for (let i = at; i < at + NAME_LENGTH; i++) {
      const difference = (first[start + i] as number) - (second[other + i] as number)
      if (difference !== 0 || first[start + i] === QUOTE) return difference
    }
    return 0
  }

  get #tieStart(): number {
    return this.packing.tie === 'name' ? NAME : FIELD
  }

  /** What lists are chosen and ordered by. Read for the first list, as that takes a while. */
  #readColumns(): Columns {
    this.#columns ??= this.#listColumns()
    return this.#columns
  }

  #listColumns(): Columns {
    const created = new Float64Array(this.length)
    const ties = new Float64Array(this.length)
    const groups = new Uint32Array(this.length)
    const marks = new Uint8Array(this.length)
    const digits = DECIDING[this.packing.tie]
    // The first group is that of rows that are not packed. It has no name.
    const numbers = new Map<string, number>([['', 0]])
    for (let row = 0; row < this.length; row++) {
      const [page, start] = this.#open(row)
      if (!hasForm(page, start)) continue
      created[row] = readTime(page, start + CREATED)
      ties[row] = readDigits(page, start + this.#tieStart, digits)
      marks[row] = readMark(page, start)
      const group = page.toString('latin1', start + GROUP, start + GROUP + GROUP_LENGTH)
      const known = numbers.get(group) ?? numbers.size
      if (known === numbers.size) numbers.set(group, known)
      groups[row] = known
    }
    return { created, ties, groups, marks, names: [...numbers.keys()] }
  }
}

interface Columns {
  /** Numbers in the order of the times. */
  created: Float64Array
  /**
   * Numbers in the order of what decides between equal times, as far as its first digits do. Not
   * numbers where it has other letters.
   */
  ties: Float64Array
  /** The place of each row's group among the names. */
  groups: Uint32Array
  marks: Uint8Array
  names: string[]
}

/** Longer pages are sorted with all others. */
const FEW = 1_000

function insertSorted(
  rows: number[],
  row: number,
  compare: (a: number, b: number) => number,
): void {
  rows.splice(findPlace(rows, row, compare), 0, row)
}

/** Compares two values as lists are ordered. */
export const comparePacked =
  <Value extends { created_at: string }>(
    { getTie }: Pick<Packing<Value>, 'getTie'>,
    order: PackedQuery['order'],
  ) =>
  (a: Value, b: Value): number =>
    (order === 'oldest' ? 1 : -1) * compareTexts(a.created_at, b.created_at) ||
    compareTexts(getTie(a), getTie(b))

// At most half of the places are taken.
const toCapacity = (count: number): number => 2 ** Math.ceil(Math.log2(count * 2 + 2))

function hasForm(page: Buffer, start: number): boolean {
  return (
    endsText(page, start + NAME + NAME_LENGTH) &&
    endsText(page, start + CREATED + CREATED_LENGTH) &&
    page[start + MARK + MARK_LENGTH] === COMMA &&
    endsText(page, start + GROUP + GROUP_LENGTH)
  )
}

const endsText = (page: Buffer, at: number): boolean =>
  page[at] === QUOTE && page[at - 1] !== BACKSLASH && page[at + 1] === COMMA

/** Returns the last of these starts that is not after a place. */
function findLast(starts: Uint32Array, at: number): number {
  let low = 0
  let high = starts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((starts[middle] as number) <= at) low = middle
    else high = middle - 1
  }
  return low
}

/** The first digits of a hash are as good as any number made of it. */
const DIGITS = 8

function hashBytes(page: Buffer, at: number): number {
  let hash = 0
  for (let i = 0; i < DIGITS; i++) hash = (hash << 4) ^ toDigit(page[at + i] as number)
  return hash
}

function hashName(name: string): number {
  let hash = 0
  for (let i = 0; i < DIGITS; i++) {
    const code = name.charCodeAt(i)
    hash = (hash << 4) ^ ((code & 0xf) + (code >> 6) * 9)
  }
  return hash
}

const toDigit = (code: number): number => (code & 0xf) + (code >> 6) * 9

function readMark(page: Buffer, start: number): number {
  const digits = (page[start + MARK] as number) * 10 + (page[start + MARK + 1] as number)
  return digits - ZERO
}

/**
 * The places of the hexadecimal digits that are compared as one number, before all others: in a hash,
 * and in a UUID, where the first ones are those of its time, and one is its version.
 */
const DECIDING: Record<Packing<never>['tie'], number[]> = {
  name: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
  field: [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 15, 16, 17],
}

/** Reads digits of a text as a number; not as one where one of them is none. */
function readDigits(page: Buffer, at: number, places: number[]): number {
  let number = 0
  for (let i = 0; i < places.length; i++) {
    const code = page[at + (places[i] as number)] as number
    if (!(code >= 0x30 && code <= 0x39) && !(code >= 0x61 && code <= 0x66)) return Number.NaN
    number = number * 16 + toDigit(code)
  }
  return number
}

/** Reads a time in ISO 8601 as a number that is greater for a later one. */
function readTime(page: Buffer, at: number): number {
  let time = 0
  for (let i = 0; i < CREATED_LENGTH; i++) {
    const digit = (page[at + i] as number) - 0x30
    if (digit >= 0 && digit <= 9) time = time * (RADIX[i] ?? 10) + digit
  }
  return time
}

// Seventeen decimal digits are more than a number holds exactly: those of months, days, hours,
// minutes and seconds that begin a pair count fewer.
const RADIX: Record<number, number> = { 5: 2, 8: 4, 11: 3, 14: 6, 17: 6 }
