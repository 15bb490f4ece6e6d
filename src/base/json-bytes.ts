import { ITEMS_AT_ONCE, type Work } from './turns.ts'

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
