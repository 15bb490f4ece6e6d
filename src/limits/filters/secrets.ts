import type { Span } from '../patterns/machine.ts'
import { seekExpression } from './anchors.ts'
import { type Builtin, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import { SECRET_BEGINNINGS, SECRET_FORMS, SECRET_NAMES } from './secrets.data.ts'

// The armour of PEM and of PGP (RFC 7468, RFC 9580). If its end is missing, it extends as far as it
// looks like a key.
const BODY = '[A-Za-z0-9+/=\\s:,\\\\.()-]'
const PRIVATE_KEY =
  `-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?:${BODY}*?-----END [A-Z0-9 ]*PRIVATE KEY` +
  '[A-Z ]*-----|[A-Za-z0-9+/=\\s\\\\]*)'
// A password in a URL, as in `postgres://user:password@host`.
const IN_ADDRESS = '[a-z][a-z0-9+.-]+://[^\\s:@/"\']+:[^\\s:@/"\']{3,}@'
const ASSIGNED =
  `(?i)(?:${SECRET_NAMES.join('|')})\\\\?["']?\\s*(?:=>|:=|=` +
  `|:)\\s*\\\\?["']?[^\\s"'\\\\,;)\\]}<>]{8,}`

const NOTHING_BEFORE = toAlphabet(/$^/, false)

/**
 * Finds keys, tokens and passwords: those of a vendor's fixed form, and those assigned to a name
 * such as `password`.
 */
export const secrets: Builtin = {
  label: LABELS.secrets,
  name: 'Secret or API key',
  detectors: [
    {
      pattern: `\\b(?:${Object.values(SECRET_FORMS).join('|')})`,
      anchor: seekExpression(SECRET_BEGINNINGS),
      before: NOTHING_BEFORE,
    },
    { pattern: PRIVATE_KEY, anchor: seekExpression(/-----BEGIN /g), before: NOTHING_BEFORE },
    {
      pattern: IN_ADDRESS,
      findSpans: findUrlPassword,
      anchor: seekExpression(/:\/\//g),
      before: toAlphabet(/[a-z0-9+.-]/, false),
    },
    {
      pattern: ASSIGNED,
      findSpans: findAssignedSecret,
      anchor: seekAssignment,
      before: toAlphabet(/[\w\s"'\\-]/, true),
    },
  ],
}

/** Finds a sign of assignment before something that may be a value. */
function seekAssignment(text: string, from: number, to: number): number {
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i)
    if ((code === COLON || code === EQUALS) && mayBeAssigned(text, i)) return i
  }
  return -1
}

const [COLON, EQUALS, GREATER] = [0x3a, 0x3d, 0x3e]
const SHORTEST_VALUE = 8
/** What follows more blanks than these is not looked at. */
const MOST_BLANKS = 64

/** Tells whether a value follows the sign of assignment at this place, or many blanks do. */
function mayBeAssigned(text: string, at: number): boolean {
  const next = text.charCodeAt(at + 1)
  if (text.charCodeAt(at) === COLON && next === EQUALS) return true
  let start = next === GREATER ? at + 2 : at + 1
  for (let left = MOST_BLANKS; OUTSIDE[text.charCodeAt(start)] === IS_BLANK; start++)
    if (left-- === 0) return true
  // A backslash may stand before the value, and then a quote.
  if (OUTSIDE[text.charCodeAt(start)] === IS_QUOTE) start += 1
  if (OUTSIDE[text.charCodeAt(start)] === IS_QUOTE) start += 1
  for (let i = start; i < start + SHORTEST_VALUE; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x80 ? OUTSIDE[code] !== 0 : Number.isNaN(code)) return false
  }
  return true
}

/** What is no part of a value: blanks, what stands before one, and other signs. */
const [IS_BLANK, IS_QUOTE, IS_SIGN] = [1, 2, 3]
const OUTSIDE = new Uint8Array(128)
for (const [kind, signs] of [
  [IS_BLANK, ' \t\n\f\r'],
  [IS_QUOTE, '\\"\''],
  [IS_SIGN, ',;)]}<>'],
] as const)
  for (const sign of signs) OUTSIDE[sign.charCodeAt(0)] = kind

function findUrlPassword(text: string): Span[] {
  const start = text.lastIndexOf(':') + 1
  return isPlaceholder(text.slice(start, -1)) ? [] : [{ start, end: text.length - 1 }]
}

/**
 * Finds an assigned value if it looks random and not like a word: `password=changeme` reveals
 * nothing.
 */
function findAssignedSecret(text: string): Span[] {
  const start = findValueStart(text)
  const value = text.slice(start, start + LONGEST_VALUE)
  return isPlaceholder(value) || !isLikelyRandom(value) ? [] : [{ start, end: text.length }]
}

const LONGEST_VALUE = 512

/** Finds the offset after the last character of an assignment that is not part of the value. */
function findValueStart(text: string): number {
  BEFORE_VALUE.lastIndex = 0
  return BEFORE_VALUE.test(text) ? BEFORE_VALUE.lastIndex : 0
}

const BEFORE_VALUE = /[\w-]+\\?["']?\s*(?:=>|:=|=|:)\s*\\?["']?/y

const PLACEHOLDER = new RegExp(
  '^(?:\\$|%|\\{|<|\\*{3}|\\.{3}|x{4}|your|my[-_]|example|change|placeholder' +
    '|process\\.|os\\.|env[.[(]|self\\.|this\\.|get|config)',
  'i',
)

const isPlaceholder = (value: string): boolean => PLACEHOLDER.test(value)

// Words of this length have about two and a half bits a letter, keys of 16 characters more than
// three. A secret has both digits and letters.
const RANDOM_BITS = 2.75

const isLikelyRandom = (value: string): boolean =>
  /[0-9]/.test(value) && /[A-Za-z]/.test(value) && computeEntropy(value) >= RANDOM_BITS

/** Computes Shannon's entropy of the value's characters, in bits per character. */
function computeEntropy(value: string): number {
  if (IS_ASCII.test(value)) return computeAsciiEntropy(value)
  const counts = new Map<string, number>()
  for (const character of value) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const count of counts.values())
    bits -= (count / value.length) * Math.log2(count / value.length)
  return bits
}

const IS_ASCII = /^[\0-\x7f]*$/
/** What characters add that occur so often in a value of this length: zero is not yet known. */
const LONGEST_KNOWN = 63
const BITS = new Float64Array((LONGEST_KNOWN + 1) ** 2)

function getBits(count: number, length: number): number {
  if (length > LONGEST_KNOWN) return computeBits(count, length)
  const place = length * (LONGEST_KNOWN + 1) + count
  if (BITS[place] === 0) BITS[place] = computeBits(count, length)
  return BITS[place] as number
}

const computeBits = (count: number, length: number): number =>
  (count / length) * Math.log2(count / length)

/** How often each character occurs in the value at hand: all are zero between two of them. */
const COUNTS = new Uint16Array(128)

/** Computes the same, adding in the same order. */
function computeAsciiEntropy(value: string): number {
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    COUNTS[code] = (COUNTS[code] as number) + 1
  }
  let bits = 0
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    const count = COUNTS[code] as number
    if (count > 0) bits -= getBits(count, value.length)
    COUNTS[code] = 0
  }
  return bits
}
