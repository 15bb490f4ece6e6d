import type { Span } from '../patterns/machine.ts'
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
      anchor: SECRET_BEGINNINGS,
      before: NOTHING_BEFORE,
    },
    { pattern: PRIVATE_KEY, anchor: /-----BEGIN /g, before: NOTHING_BEFORE },
    { pattern: IN_ADDRESS, findSpans: findUrlPassword, anchor: /:\/\/[^ \t-\r:@/"']+:/g },
    {
      pattern: ASSIGNED,
      findSpans: findAssignedSecret,
      anchor: /(?:=>|:=|=|:)\s*\\?["']?[^ \t-\r"'\\,;)\]}<>]{8}/g,
      before: toAlphabet(/[\w\s"'\\-]/, true),
    },
  ],
}

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
const findValueStart = (text: string): number =>
  /^[\w-]+\\?["']?\s*(?:=>|:=|=|:)\s*\\?["']?/.exec(text)?.[0].length ?? 0

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
    if (count > 0) bits -= (count / value.length) * Math.log2(count / value.length)
    COUNTS[code] = 0
  }
  return bits
}
