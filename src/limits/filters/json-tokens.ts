import type { Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'

/** A string, a number or a literal in a JSON text, and where it stands. */
export interface JsonToken extends Span {
  isText: boolean
  isName: boolean
}

/** No honest sender nests deeper than this, and `parseExact` refuses it too. */
const DEEPEST = 5_000

/** Tells whether a text is JSON, without building its value. */
export function* isJson(json: string): Work<boolean> {
  const tokens = readTokens(json)
  for (let count = 0; ; count++) {
    const step = tokens.next()
    if (step.done) return step.value
    if (step.value === null || count % TOKENS_AT_ONCE === 0) yield
  }
}

const TOKENS_AT_ONCE = 1_000
/** So many units are read before others may have their turn. */
const UNITS_AT_ONCE = 16_384

/** What may come next in a JSON text. */
type Expected = 'value' | 'first value' | 'name' | 'first name' | 'colon' | 'more'

/**
 * Reads every string, number and literal of a JSON text, in order, and returns whether it is JSON
 * up to its end. Yields null where others may have their turn.
 */
export function* readTokens(json: string): Generator<JsonToken | null, boolean> {
  const closers: number[] = []
  let expected: Expected = 'value'
  let pauseAt = UNITS_AT_ONCE
  for (let i = skipBlanks(json, 0); i < json.length; i = skipBlanks(json, i)) {
    if (i >= pauseAt) {
      pauseAt = i + UNITS_AT_ONCE
      yield null
    }
    const code = json.charCodeAt(i)
    if (isBlank(code)) continue
    const wantsValue: boolean = expected === 'value' || expected === 'first value'
    if (code === closers.at(-1) && (expected === 'more' || expected.startsWith('first'))) {
      closers.pop()
      expected = 'more'
      i += 1
    } else if (code === COMMA && expected === 'more' && closers.length > 0) {
      expected = closers.at(-1) === CLOSE_OBJECT ? 'name' : 'value'
      i += 1
    } else if (code === COLON && expected === 'colon') {
      expected = 'value'
      i += 1
    } else if (wantsValue && (code === OPEN_OBJECT || code === OPEN_LIST)) {
      // The closing bracket's code is the opening one's plus two.
      if (closers.push(code + 2) > DEEPEST) return false
      expected = code === OPEN_OBJECT ? 'first name' : 'first value'
      i += 1
    } else if (code === QUOTE && (wantsValue || expected.endsWith('name'))) {
      const end = yield* findTextEnd(json, i)
      if (end === null) return false
      yield { start: i, end, isText: true, isName: !wantsValue }
      expected = wantsValue ? 'more' : 'colon'
      i = end
    } else if (wantsValue) {
      const end = findScalarEnd(json, i)
      if (!SCALAR.test(json.slice(i, end))) return false
      yield { start: i, end, isText: false, isName: false }
      expected = 'more'
      i = end
    } else return false
  }
  return expected === 'more' && closers.length === 0
}

/** Decodes a string of a JSON text. */
export function decodeToken(json: string, { start, end }: Span): string {
  const token = json.slice(start, end)
  return token.includes('\\') ? String(JSON.parse(token)) : token.slice(1, -1)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/

/** Skips blanks, but not too many at once. */
function skipBlanks(json: string, from: number): number {
  const until = from + UNITS_AT_ONCE
  let at = from
  while (at < until && isBlank(json.charCodeAt(at))) at += 1
  return at
}

const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/**
 * Finds the offset after the closing quote. Null if this is no whole string of JSON: its escapes
 * are known, and it has no controls.
 */
function* findTextEnd(json: string, start: number): Generator<null, number | null> {
  for (let at = start + 1; at < json.length; ) {
    for (const until = at + UNITS_AT_ONCE; at < until; at++) {
      const code = json.charCodeAt(at)
      if (code === QUOTE) return at + 1
      if (code === BACKSLASH) at += measureEscape(json, at + 1)
      else if (!(code >= SMALLEST)) return null
    }
    yield null
  }
  return null
}

/** Other characters are controls, which JSON has only as escapes. */
const SMALLEST = 0x20
const ESCAPE = /["\\/bfnrt]|u[\da-fA-F]{4}/y

/** Measures what follows a backslash. Infinity if that is no escape of JSON. */
function measureEscape(json: string, at: number): number {
  ESCAPE.lastIndex = at
  return ESCAPE.test(json) ? ESCAPE.lastIndex - at : Number.POSITIVE_INFINITY
}

function findScalarEnd(json: string, start: number): number {
  let end = start + 1
  while (end < json.length && isScalarUnit(json.charCodeAt(end))) end += 1
  return end
}

const isScalarUnit = (code: number) =>
  (code >= 0x30 && code <= 0x39) ||
  (code >= 0x61 && code <= 0x7a) ||
  code === 0x2b ||
  code === 0x2d ||
  code === 0x2e ||
  code === 0x45
