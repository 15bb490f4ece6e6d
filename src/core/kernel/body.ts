import { isUtf8 } from 'node:buffer'
import type { Static, TSchema } from '@sinclair/typebox'
import { invalid, tooLarge } from '../errors.ts'
import { mayHaveLongInteger, parseExact } from './json.ts'
import { describeIssue, findSchemaIssue } from './schema.ts'
import { LARGEST_BODY } from './schema-builders.ts'

// The limits of a JSON body: its bytes, its nesting, and its number of brackets, commas and colons.

const DEEPEST = 128
const MAX_TOKENS = 500_000

/**
 * Parses a JSON body and checks it against the schema. Throws 413 above 32 MiB, and 400 for a body
 * that is not UTF-8, is not JSON, nests too deep or does not match the schema. The error names the
 * field, what was expected and the kind of value that was found, never the value itself.
 */
export function parseBody<T extends TSchema>(schema: T, bytes: Uint8Array): Static<T> {
  if (bytes.length > LARGEST_BODY) throw tooLarge()
  checkSize(bytes)
  return parseText(schema, decodeText(bytes))
}

/** Returns the value if it matches the schema. Throws 400 naming the field. */
export function requireValid<T extends TSchema>(schema: T, value: unknown): Static<T> {
  const issue = findSchemaIssue(schema, value)
  if (!issue) return value as Static<T>
  const field = issue.path || 'body'
  throw invalid(describeIssue(issue, field), field)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Counts brackets and separators before anything is built from them. Skips strings. */
function checkSize(bytes: Uint8Array): void {
  let depth = 0
  let tokens = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === QUOTE) i = findTextEnd(bytes, i)
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1
      tokens += 1
      if (depth > DEEPEST) throw invalid(`body: expected at most ${DEEPEST} levels of nesting`)
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1
    else if (byte === 0x2c || byte === 0x3a) tokens += 1
    if (tokens > MAX_TOKENS) throw invalid(`body: expected at most ${MAX_TOKENS} values`)
  }
}

// The native search jumps to the next quote. A quote belongs to the string when an odd number of
// backslashes precedes it.
function findTextEnd(bytes: Uint8Array, start: number): number {
  for (
    let index = bytes.indexOf(QUOTE, start + 1);
    index !== -1;
    index = bytes.indexOf(QUOTE, index + 1)
  ) {
    let before = index - 1
    while (bytes[before] === BACKSLASH) before -= 1
    if ((index - before) % 2 === 1) return index
  }
  return bytes.length
}

function decodeText(bytes: Uint8Array): string {
  if (bytes.length === 0) throw invalid('body: expected a JSON object, found nothing')
  if (!isUtf8(bytes)) throw invalid(EXPECTED)
  return DECODER.decode(bytes)
}

// Strips a byte order mark, which a parser may ignore (RFC 8259, 8.1).
const DECODER = new TextDecoder()

// JavaScript represents an integer that is kept exactly as an object. The first check treats it as
// a number, so that it is not accepted where an object is expected. The second check sees it as it
// is, so that it is not accepted where the gateway needs a number.
function parseText<T extends TSchema>(schema: T, text: string): Static<T> {
  const value = requireValid(schema, parseJson(text, JSON.parse))
  return mayHaveLongInteger(text) ? requireValid(schema, parseJson(text, parseExact)) : value
}

function parseJson(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch {
    throw invalid(EXPECTED)
  }
}

const EXPECTED = 'body: expected valid JSON in UTF-8'
