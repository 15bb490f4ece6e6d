import { isUtf8 } from 'node:buffer'
import type { Static, TSchema } from '@sinclair/typebox'
import { GatewayError, invalid, tooLarge } from './errors.ts'
import { mayHaveLongInteger, parseExact } from './json.ts'
import { describeIssue, findSchemaIssue, type SchemaIssue } from './schema.ts'
import { LARGEST_BODY } from './schema-builders.ts'
import type { Work } from './turns.ts'

// The limits of a JSON body: its bytes, its nesting, and its number of brackets, commas and colons.

const DEEPEST = 128
const MAX_TOKENS = 500_000

/**
 * Parses a JSON body and checks it against the schema. Throws 413 above 32 MiB, and 400 for a body
 * that is not UTF-8, is not JSON, nests too deep or does not match the schema. The error names the
 * field, what was expected and the kind of value that was found, never the value itself.
 */
export function parseBody<T extends TSchema>(schema: T, bytes: Uint8Array): Static<T> {
  return parseBodyText(schema, decodeBody(bytes))
}

/** Decodes a JSON body. Throws 413 above 32 MiB, and 400 if it is not UTF-8 or nests too deep. */
export function decodeBody(bytes: Uint8Array): string {
  if (bytes.length > LARGEST_BODY) throw tooLarge()
  checkSize(bytes)
  return decodeText(bytes)
}

/**
 * Gives the memory of bytes back at once; they are empty then. The collector may take so long that
 * several copies of a large body exist. What shares its buffer with others is left as it is.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

/** Returns the value if it matches the schema. Throws 400 naming the field. */
export function requireValid<T extends TSchema>(schema: T, value: unknown): Static<T> {
  const issue = findSchemaIssue(schema, value)
  if (!issue) return value as Static<T>
  throw refuseIssue(issue, issue.path || 'body')
}

/** Returns the 400 for a value that does not match its schema: a text that is too long has its own. */
export function refuseIssue(issue: SchemaIssue, field: string): GatewayError {
  const type = issue.isTooLong ? 'string_too_long' : 'invalid_request'
  return new GatewayError(type, describeIssue(issue, field), { metadata: { field } })
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Counts brackets and separators before anything is built from them. Skips strings. */
function checkSize(bytes: Uint8Array): void {
  let depth = 0
  let tokens = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === QUOTE) {
      // Short texts are read here.
      const near = i + STEP
      for (i++; i < near && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i++
      if (i >= near) i = findTextEnd(bytes, i - 1)
    } else if (byte === 0x7b || byte === 0x5b) {
      depth += 1
      tokens += 1
      if (depth > DEEPEST) throw tooDeep(bytes, i)
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1
    else if (byte === 0x2c || byte === 0x3a) tokens += 1
    if (tokens > MAX_TOKENS) throw invalid(`body: expected at most ${MAX_TOKENS} values`)
  }
}

/** The error for a value that nests too deep at `end`. It names the value's place in the body. */
function tooDeep(bytes: Uint8Array, end: number): GatewayError {
  const field = findPlace(bytes, end)
  return invalid(`${field ?? 'body'}: expected at most ${DEEPEST} levels of nesting`, field)
}

const [OPEN_LIST, COLON, COMMA] = [0x5b, 0x3a, 0x2c]

/**
 * Finds the member of the body that `end` is in, and its index if that member is a list: `input.3`.
 * Undefined if the body is no object, or the member's name is not one that a field could have.
 */
function findPlace(bytes: Uint8Array, end: number): string | undefined {
  let name = ''
  let text = ''
  let depth = 0
  let index = -1
  for (let i = 0; i < end; i++) {
    const byte = bytes[i] as number
    if (byte === QUOTE) {
      const close = findTextEnd(bytes, i)
      if (depth === 1) text = DECODER.decode(bytes.subarray(i + 1, Math.min(close, i + 66)))
      i = close
    } else if (byte === 0x7b || byte === OPEN_LIST) {
      depth += 1
      if (depth === 2) index = byte === OPEN_LIST ? 0 : -1
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1
    else if (byte === COLON && depth === 1) name = text
    else if (byte === COMMA && depth === 2 && index >= 0) index += 1
  }
  if (!/^\w{1,64}$/.test(name)) return undefined
  return index >= 0 ? `${name}.${index}` : name
}

/** So many bytes of a text, and after an escaped quote, are read one by one: others may follow at once. */
const STEP = 64

// The native search jumps to the next quote. Between quotes that are close it is slow: a text of
// them alone took 400 ms.
function findTextEnd(bytes: Uint8Array, start: number): number {
  let at = start + 1
  for (;;) {
    const quote = bytes.indexOf(QUOTE, at)
    if (quote === -1) return bytes.length
    if (!isEscaped(bytes, quote, at)) return quote
    at = quote + 1
    for (const end = at + STEP; at < end; at++) {
      const byte = bytes[at]
      if (byte === QUOTE) return at
      if (byte === BACKSLASH) at += 1
    }
  }
}

// A quote belongs to the string when an odd number of backslashes precedes it.
function isEscaped(bytes: Uint8Array, quote: number, start: number): boolean {
  let before = quote - 1
  while (before >= start && bytes[before] === BACKSLASH) before -= 1
  return (quote - before) % 2 === 0
}

function decodeText(bytes: Uint8Array): string {
  if (bytes.length === 0) throw invalid('body: expected a JSON object, found nothing')
  if (!isUtf8(bytes)) throw invalid(EXPECTED)
  return DECODER.decode(bytes)
}

// Strips a byte order mark, which a parser may ignore (RFC 8259, 8.1).
const DECODER = new TextDecoder()

/** Parses and checks a decoded body. Throws 400 as `parseBody` does. */
export function parseBodyText<T extends TSchema>(schema: T, text: string): Static<T> {
  // JavaScript represents an integer that is kept exactly as an object. The first check treats it
  // as a number, so that it is not accepted where an object is expected. The second check sees it
  // as it is, so that it is not accepted where the gateway needs a number.
  const value = requireValid(schema, parseJson(text, JSON.parse))
  return mayHaveLongInteger(text) ? requireValid(schema, parseJson(text, parseExact)) : value
}

/**
 * Parses and checks a body as `parseBody` does, and releases its bytes. Others may have their turn
 * between the steps.
 */
export function* parseBodyInSteps<T extends TSchema>(
  schema: T,
  bytes: Uint8Array,
): Work<Static<T>> {
  const text = decodeBody(bytes)
  releaseBytes(bytes)
  yield
  const parsed = parseJson(text, JSON.parse)
  yield
  const value = requireValid(schema, parsed)
  yield
  if (!mayHaveLongInteger(text)) return value
  const exact = parseJson(text, parseExact)
  yield
  return requireValid(schema, exact)
}

function parseJson(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch {
    throw invalid(EXPECTED)
  }
}

const EXPECTED = 'body: expected valid JSON in UTF-8'
