/** A JSON object that nobody has looked into yet. */
export type Json = Record<string, unknown>

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The member, if it is an object; else an empty one. */
export const member = (of: Json, name: string): Json => (isObject(of[name]) ? of[name] : {})

/** The objects of a list; none where there is no list. */
export const objects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(isObject) : []

/** The text, if it is one. */
export const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** The table's own entry of this name, if it has one: strangers give the names, and every object also knows `constructor`. */
export const own = <T>(table: Record<string, T>, name: unknown): T | undefined =>
  typeof name === 'string' && Object.hasOwn(table, name) ? table[name] : undefined

/** The members that have a value. */
export const defined = <T extends object>(members: T): Given<T> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Given<T>

/** What of these members has a value. */
export type Given<T> = { [Name in keyof T]?: Exclude<T[Name], undefined> }

/**
 * The members of a body that stand in `fields` and have a value. A body may hold others, which
 * nobody asked for.
 */
export const pickGiven = <T extends object, Name extends keyof T>(
  body: T,
  fields: Record<Name, unknown>,
): Given<Pick<T, Name>> =>
  defined(
    Object.fromEntries((Object.keys(fields) as Name[]).map(name => [name, body[name]])) as Pick<
      T,
      Name
    >,
  )

/** No answer has more tokens than this. */
const LARGEST_COUNT = 1_000_000_000

/** The count, if it is one that an answer can have: whole, not negative, not absurd. */
export const count = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= LARGEST_COUNT
    ? value
    : undefined

/** The count of a part, which is no larger than its whole; 0 where none was told. */
export const countWithin = (whole: number, value: unknown): number =>
  Math.min(count(value) ?? 0, whole)

/** The object in this JSON text, if there is one. */
export function parseObject(json: string): Json | undefined {
  try {
    const value = parseExact(json)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Nobody nests deeper than this who means well; the stack ends at some tens of thousands. */
const DEEPEST = 5_000

function isDeeper(json: string): boolean {
  let depth = 0
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === 0x22) i = endOfText(json, i)
    else if (code === 0x5b || code === 0x7b) depth += 1
    else if (code === 0x5d || code === 0x7d) depth -= 1
    if (depth > DEEPEST) return true
  }
  return false
}

// A quote is inside the text when an odd number of backslashes stands before it.
function endOfText(json: string, start: number): number {
  for (let at = json.indexOf('"', start + 1); at !== -1; at = json.indexOf('"', at + 1)) {
    let before = at - 1
    while (json.charCodeAt(before) === 0x5c) before -= 1
    if ((at - before) % 2 === 1) return at
  }
  return json.length
}

const LONG_INTEGER = /^-?\d{16,}$/
// Fractions have as many digits, and an answer of vectors is full of them: those stand behind a point.
const MAY_HOLD_ONE = /[[,:\s-]\d{16}|^\d{16}/

/** Whether the text may hold an integer that JSON.parse would round. */
export const holdsLongInteger = (json: string): boolean => MAY_HOLD_ONE.test(json)

/**
 * Like JSON.parse, but an integer that JavaScript would round is kept as it was written, and JSON.stringify writes it so
 * again: an id of eighteen digits in a tool's arguments must not become another id. Throws a SyntaxError, for a text that
 * nests deeper than JSON.stringify could write too.
 */
export function parseExact(json: string): unknown {
  if (json.length > 2 * DEEPEST && isDeeper(json)) throw new SyntaxError('The JSON nests too deep')
  if (!holdsLongInteger(json)) return JSON.parse(json)
  return JSON.parse(json, exactly as Reviver)
}

type Reviver = (name: string, value: unknown) => unknown

const exactly = (_: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' &&
  !Number.isSafeInteger(value) &&
  source !== undefined &&
  LONG_INTEGER.test(source)
    ? (JSON as unknown as { rawJSON(source: string): unknown }).rawJSON(source)
    : value

/**
 * Whether this is an integer that `parseExact` has kept: to be written as it is, and not looked
 * into.
 */
export const isRawJson = (value: unknown): boolean =>
  (JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON(value)
