import { isUtf8 } from 'node:buffer'
import type { Static, TSchema } from '@sinclair/typebox'
import { invalid, tooLarge } from '../errors.ts'
import { holdsLongInteger, parseExact } from './json.ts'
import { misfit } from './schema.ts'

// The limits of a JSON body: its bytes, its nesting, and its number of brackets, commas and colons.

/** The largest JSON body that is accepted, in bytes. */
export const LARGEST_BODY = 32 * 1024 * 1024
const DEEPEST = 128
const MOST_TOKENS = 500_000

/**
 * Parses a JSON body and checks it against the schema. Throws 413 above 32 MiB, and 400 for a body
 * that is not UTF-8, is not JSON, nests too deep or does not match the schema. The error names the
 * field, what was expected and the kind of value that was found, never the value itself.
 */
export function bodyOf<T extends TSchema>(schema: T, bytes: Uint8Array): Static<T> {
  if (bytes.length > LARGEST_BODY) throw tooLarge()
  guard(bytes)
  return parsed(schema, textOf(bytes))
}

/** Returns the value if it matches the schema. Throws 400 naming the field. */
export function checked<T extends TSchema>(schema: T, value: unknown): Static<T> {
  const wrong = misfit(schema, value)
  if (!wrong) return value as Static<T>
  const where = wrong.path || 'body'
  throw invalid(`${where}: expected ${wrong.expected}, found ${wrong.found}`, where)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Counts brackets and separators before anything is built from them. Skips strings. */
function guard(bytes: Uint8Array): void {
  let depth = 0
  let tokens = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === QUOTE) i = endOfText(bytes, i)
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1
      tokens += 1
      if (depth > DEEPEST) throw invalid(`body: expected at most ${DEEPEST} levels of nesting`)
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1
    else if (byte === 0x2c || byte === 0x3a) tokens += 1
    if (tokens > MOST_TOKENS) throw invalid(`body: expected at most ${MOST_TOKENS} values`)
  }
}

// The native search jumps to the next quote. A quote belongs to the string when an odd number of
// backslashes precedes it.
function endOfText(bytes: Uint8Array, start: number): number {
  for (let at = bytes.indexOf(QUOTE, start + 1); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) {
    let before = at - 1
    while (bytes[before] === BACKSLASH) before -= 1
    if ((at - before) % 2 === 1) return at
  }
  return bytes.length
}

function textOf(bytes: Uint8Array): string {
  if (bytes.length === 0) throw invalid('body: expected a JSON object, found nothing')
  if (!isUtf8(bytes)) throw invalid(EXPECTED)
  return DECODER.decode(bytes)
}

// Strips a byte order mark, which a parser may ignore (RFC 8259, 8.1).
const DECODER = new TextDecoder()

// JavaScript represents an integer that is kept exactly as an object. The first check treats it as
// a number, so that it is not accepted where an object is expected. The second check sees it as it
// is, so that it is not accepted where the gateway needs a number.
function parsed<T extends TSchema>(schema: T, text: string): Static<T> {
  const value = checked(schema, json(text, JSON.parse))
  return holdsLongInteger(text) ? checked(schema, json(text, parseExact)) : value
}

function json(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch {
    throw invalid(EXPECTED)
  }
}

const EXPECTED = 'body: expected valid JSON in UTF-8'
