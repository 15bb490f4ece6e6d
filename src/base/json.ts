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
export type Defined<T> = { [Name in keyof T]?: Exclude<T[Name], undefined> }

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
