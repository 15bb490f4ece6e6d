import { ITEMS_AT_ONCE, type Work } from './turns.ts'

/** A JSON object whose members have not been checked yet. */
export type Json = Record<string, unknown>

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Reads a member that is an object. Returns an empty object otherwise. */
export const readObject = (object: Json, name: string): Json =>
  isObject(object[name]) ? object[name] : {}

/** Reads the objects of a list. Returns an empty list when the value is no list. */
export const readObjects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(isObject) : []

/** Returns the value if it is a string, otherwise null. */
export const readString = (value: unknown): string | null =>
  typeof value === 'string' ? value : null

/**
 * Returns the table's own entry of this name, if any. Names come from outside, and every object
 * also inherits `constructor`.
 */
export const getOwn = <T>(table: Record<string, T>, name: unknown): T | undefined =>
  typeof name === 'string' && Object.hasOwn(table, name) ? table[name] : undefined

/** Returns the members that are not undefined. */
export const omitUndefined = <T extends object>(members: T): Defined<T> =>
  Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as Defined<T>

/** The members that are not undefined. */
type Defined<T> = { [Name in keyof T]?: Exclude<T[Name], undefined> }

/**
 * Picks the members of a body that `fields` names and that have a value. A body may have unknown
 * members.
 */
export const pickDefined = <T extends object, Name extends keyof T>(
  body: T,
  fields: Record<Name, unknown>,
): Defined<Pick<T, Name>> =>
  omitUndefined(
    Object.fromEntries((Object.keys(fields) as Name[]).map(name => [name, body[name]])) as Pick<
      T,
      Name
    >,
  )

/** The largest plausible number of tokens of an answer. */
const LARGEST_COUNT = 1_000_000_000

/** Returns the value if it is a plausible count: whole, not negative and not too large. */
export const parseCount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= LARGEST_COUNT
    ? value
    : undefined

/** Parses the count of a part, at most its whole. Returns 0 when the value is no count. */
export const parsePartCount = (whole: number, value: unknown): number =>
  value == null ? 0 : Math.min(parseCount(value) ?? 0, whole)

/** Parses a JSON text that holds an object. Undefined for any other text. */
export function parseObject(json: string): Json | undefined {
  // Most texts of tools are no JSON, and an exception for each costs more than all else.
  if (!BEGINS_OBJECT.test(json)) return undefined
  try {
    // What begins with a brace is an object, or no JSON.
    return parseExact(json) as Json
  } catch {
    return undefined
  }
}

/** A text that may hold an object: the white space of JSON, and a brace. */
const BEGINS_OBJECT = /^[ \t\n\r]*\{/

/** No honest sender nests deeper than this. The stack overflows at some tens of thousands. */
const DEEPEST = 5_000

function isTooDeep(json: string): boolean {
  let depth = 0
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === 0x22) i = findTextEnd(json, i)
    else if (code === 0x5b || code === 0x7b) depth += 1
    else if (code === 0x5d || code === 0x7d) depth -= 1
    if (depth > DEEPEST) return true
  }
  return false
}

/** So many units after an escaped quote are read one by one: others may follow at once. */
const STEP = 64

// The native search jumps to the next quote. Between quotes that are close it is slow.
function findTextEnd(json: string, start: number): number {
  let at = start + 1
  for (;;) {
    for (const end = at + STEP; at < end; at++) {
      const code = json.charCodeAt(at)
      if (code === 0x22) return at
      if (code === 0x5c) at += 1
    }
    const quote = json.indexOf('"', at)
    if (quote === -1) return json.length
    if (!isEscaped(json, quote, at)) return quote
    at = quote + 1
  }
}

// A quote belongs to the string when an odd number of backslashes precedes it.
function isEscaped(json: string, quote: number, start: number): boolean {
  let before = quote - 1
  while (before >= start && json.charCodeAt(before) === 0x5c) before -= 1
  return (quote - before) % 2 === 0
}

const LONG_INTEGER = /^-?\d{16,}$/
// Written out, it is found twice as fast as with a count, and most texts have none.
const MANY_DIGITS = new RegExp('[0-9]'.repeat(16))
// Fractions have as many digits, and an answer of vectors is full of them: they follow a point.
const MAY_HOLD_ONE = /[[,:\s-]\d{16}|^\d{16}/

/** Whether the text may hold an integer that JSON.parse would round. */
export const mayHaveLongInteger = (json: string): boolean =>
  MANY_DIGITS.test(json) && MAY_HOLD_ONE.test(json)

/**
 * Parses like JSON.parse, but keeps an integer that JavaScript would round as it was written, and
 * JSON.stringify writes it the same way again. An id of eighteen digits in a tool's arguments must
 * not become another id. Throws a SyntaxError, also for a text that nests deeper than
 * JSON.stringify could write.
 */
export function parseExact(json: string): unknown {
  if (json.length > 2 * DEEPEST && isTooDeep(json)) throw new SyntaxError('The JSON nests too deep')
  if (!MANY_DIGITS.test(json) || !MAY_HOLD_ONE.test(json)) return JSON.parse(json)
  return JSON.parse(json, keepLongInteger as Reviver)
}

type Reviver = (name: string, value: unknown) => unknown

const keepLongInteger = (_: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' &&
  !Number.isSafeInteger(value) &&
  source !== undefined &&
  LONG_INTEGER.test(source)
    ? (JSON as unknown as { rawJSON(source: string): unknown }).rawJSON(source)
    : value

/**
 * Whether this is an integer that `parseExact` kept exactly. It can be written as it is, but has
 * no members to read.
 */
export const isRawJson = (value: unknown): boolean =>
  (JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON(value)

/*
 * JSON of large values. The platform writes it in one turn, as text with two bytes for each unit if
 * one of them needs two, and that becomes bytes once more: of a body of 30 MB it made 90 MB.
 */

/** A value with so many units of text, or so many members and items, is large. */
const LARGE = 256 * 1024
/** A text is written in slices of so many units. */
const SLICE = 64 * 1024
/** What is not larger, and has no text of several slices, takes the platform a few milliseconds. */
const WHOLE = 4 * 1024 * 1024
/** Shorter texts become bytes together. */
const JOINED = 4 * 1024
/** So many short items are written at once, of which a text counts for several. */
const GROUP = 1024
const TEXT = 16

/** Tells whether a value is large. Looks at no more of it than that takes. */
export function isLargeJson(value: unknown): boolean {
  // Each value takes one of it, and each unit of text and of a name.
  let left = LARGE
  const lists: unknown[][] = [[value]]
  for (let list = lists.pop(); list; list = lists.pop())
    for (const item of list) {
      left -= typeof item === 'string' ? item.length + 1 : 1
      if (left < 0) return true
      if (typeof item !== 'object' || item === null) continue
      if (Array.isArray(item)) lists.push(item)
      else
        for (const name in item) {
          const member = (item as Record<string, unknown>)[name]
          left -= name.length
          if (typeof member === 'object' && member !== null) lists.push([member])
          else left -= typeof member === 'string' ? member.length + 1 : 1
          if (left < 0) return true
        }
    }
  return false
}

/**
 * Adds the lists and objects of a value that are not to be written at once to `large`. Returns its
 * size.
 */
function measureValue(value: unknown, large: Set<unknown>): number {
  if (typeof value === 'string') return measureText(value)
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  if (Array.isArray(value)) for (const item of value) size += measureValue(item, large)
  else
    for (const name in value)
      size += measureText(name) + measureValue((value as Record<string, unknown>)[name], large)
  if (size > WHOLE) large.add(value)
  return size
}

// What has a long text is too large for the platform, whatever its size.
const measureText = ({ length }: string): number => (length > SLICE ? length + WHOLE : length)

/** Tells whether a value has a text that is written in slices. */
function hasLongText(value: unknown): boolean {
  if (typeof value === 'string') return value.length > SLICE
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasLongText)
  for (const name in value)
    if (name.length > SLICE || hasLongText((value as Record<string, unknown>)[name])) return true
  return false
}

/**
 * Writes what JSON.stringify does, as pieces of bytes that are one JSON text together. Gives others
 * their turn, and makes no second copy. Each text is as `mend` returns it.
 */
export function* writeJsonBytes(
  value: unknown,
  mend: (text: string) => string = text => text,
): Work<Uint8Array[]> {
  const pieces: Uint8Array[] = []
  let open = ''
  let count = 0
  const flush = () => {
    if (open !== '') pieces.push(Buffer.from(open))
    open = ''
  }
  for (const written of new Writer(value).writeAll()) {
    const text = mend(written)
    const isLong = text.length > JOINED
    if (isLong || open.length > SLICE) flush()
    if (isLong) pieces.push(Buffer.from(text))
    else open += text
    if (isLong || ++count % ITEMS_AT_ONCE === 0) yield
  }
  flush()
  return pieces
}

/** Counts the bytes of what JSON.stringify writes, and makes no copy of long texts. */
export function countJsonBytes(value: unknown): number {
  if (!isLargeJson(value) || !hasLongText(value))
    return Buffer.byteLength(JSON.stringify(value) ?? '')
  let bytes = 0
  for (const text of new Writer(value).writeAll()) bytes += Buffer.byteLength(text)
  return bytes
}

/** Writes a large value in texts of bounded length. What is small is left to the platform. */
class Writer {
  readonly #value: unknown
  readonly #large = new Set<unknown>()

  constructor(value: unknown) {
    this.#value = value
    measureValue(value, this.#large)
  }

  writeAll(): Texts {
    return this.#write(this.#value)
  }

  *#write(value: unknown): Texts {
    if (typeof value === 'string') yield* writeText(value)
    else if (!this.#isWritten(value)) yield JSON.stringify(value) ?? 'null'
    else if (Array.isArray(value)) yield* this.#writeItems(value)
    else yield* this.#writeMembers(value)
  }

  /** Tells whether a list or object is written here and not by the platform. */
  #isWritten(value: unknown): value is unknown[] | Record<string, unknown> {
    return this.#large.has(value) && isContainer(value)
  }

  /** Tells whether an item is written together with those beside it. */
  #isShort(value: unknown): boolean {
    return typeof value === 'string' ? value.length <= JOINED : !this.#large.has(value)
  }

  *#writeItems(items: unknown[]): Texts {
    let separator = '['
    for (let at = 0; at < items.length; separator = ',') {
      const end = this.#findGroupEnd(i => items[i], at, items.length)
      yield separator
      if (end === at) yield* this.#write(items[at])
      else yield JSON.stringify(items.slice(at, end)).slice(1, -1)
      at = Math.max(end, at + 1)
    }
    yield ']'
  }

  *#writeMembers(members: Record<string, unknown>): Texts {
    const names = Object.keys(members)
    let separator = '{'
    for (let at = 0; at < names.length; ) {
      const name = names[at] ?? ''
      const end = this.#findGroupEnd(i => members[names[i] ?? ''], at, names.length, names)
      const group = writeGroup(members, names, at, end)
      if (group !== '') yield separator + group
      else if (end === at) {
        yield separator
        yield* writeText(name)
        yield ':'
        yield* this.#write(members[name])
      }
      if (group !== '' || end === at) separator = ','
      at = Math.max(end, at + 1)
    }
    yield separator === '{' ? '{}' : '}'
  }

  /** Finds the end of the short items from here on that are written together. */
  #findGroupEnd(
    read: (index: number) => unknown,
    from: number,
    length: number,
    names: string[] = [],
  ): number {
    let end = from
    for (let weight = 0; end < length && weight < GROUP; end++) {
      const item = read(end)
      if (!this.#isShort(item) || (names[end]?.length ?? 0) > JOINED) break
      weight += isScalar(item) ? 1 : typeof item === 'string' ? TEXT : GROUP
    }
    return end
  }
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' && typeof value !== 'string'

/** Writes some members. An object without a prototype has no setter that takes one of them. */
function writeGroup(
  members: Record<string, unknown>,
  names: string[],
  from: number,
  end: number,
): string {
  const group: Record<string, unknown> = Object.create(null)
  for (let i = from; i < end; i++) group[names[i] ?? ''] = members[names[i] ?? '']
  return JSON.stringify(group).slice(1, -1)
}

type Texts = Generator<string, void, undefined>

/** Tells whether the platform would write the members of a value, and not something else. */
function isContainer(value: unknown): value is unknown[] | Record<string, unknown> {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return false
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype
}

function* writeText(text: string): Texts {
  if (text.length <= SLICE) yield JSON.stringify(text)
  else {
    yield '"'
    for (let at = 0; at < text.length; ) {
      const end = findSliceEnd(text, at + SLICE)
      yield escapeText(text.slice(at, end))
      at = end
    }
    yield '"'
  }
}

// Most texts have nothing to escape, and are not copied then.
const escapeText = (text: string): string =>
  MAY_BE_ESCAPED.test(text) ? JSON.stringify(text).slice(1, -1) : text

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes controls, and lone surrogates.
const MAY_BE_ESCAPED = /["\\\x00-\x1f\ud800-\udfff]/

/** Finds the end of a slice that does not cut a character of two units. */
const findSliceEnd = (text: string, end: number): number =>
  isHigh(text.charCodeAt(end - 1)) && isLow(text.charCodeAt(end)) ? end + 1 : end

const isHigh = (code: number): boolean => (code & 0xfc00) === 0xd800
const isLow = (code: number): boolean => (code & 0xfc00) === 0xdc00
