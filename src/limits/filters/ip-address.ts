import type { Span } from '../patterns/machine.ts'
import { type Builtin, isDigit } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// Words before other things with four numbers, which are no addresses.
const NUMBERED =
  '(?i:\\b(?:sections?|versions?|chapters?|release|build|table|figure|kapitel|abschnitt|v))'

/** Finds addresses of the internet protocol, versions 4 and 6. */
export const ipAddress: Builtin = {
  label: LABELS['ip-address'],
  name: 'IP address',
  // Both patterns match whole words, so that nothing is found inside a longer number, a time or a
  // C++ name.
  detectors: [
    {
      pattern: `(?:${NUMBERED}[. ]{0,2})?\\b\\d+(?:\\.\\d+){3,}\\b`,
      accepts: isIpv4,
      anchor: seekFourNumbers,
    },
    {
      pattern: '[\\w.]*:[\\w.]*:[\\w:.]*',
      accepts: (text, start, end) =>
        end - start <= LONGEST_LABEL + LONGEST_IPV6 + 1 && hasDigit(text, start, end),
      findSpans: findIpv6,
      anchor: seekGroup,
    },
  ],
}

/**
 * Tells whether a part of a text is four numbers up to 255 with full stops between them, and no
 * zeros before a number.
 */
export function isIpv4(text: string, start: number, end: number): boolean {
  let count = 0
  let number = 0
  let first = start
  for (let i = start; i <= end; i++) {
    const code = i < end ? text.charCodeAt(i) : DOT
    if (code === DOT) {
      const isZero = text.charCodeAt(first) === ZERO
      if (i === first || (isZero && i - first > 1) || ++count > 4) return false
      first = i + 1
      number = 0
    } else {
      number = 10 * number + code - ZERO
      if (!isDigit(code) || number > 255) return false
    }
  }
  return count === 4
}

// RFC 4291, 2.2, allows 45 characters at most. A digit is required: `A::B` is an address too, but
// rarely meant as one.
function findIpv6(text: string): Span[] {
  const start = findLabelEnd(text)
  const end = text.length - (hasStop(text) ? 1 : 0)
  const isAddress =
    end - start <= LONGEST_IPV6 && hasDigit(text, start, end) && isIpv6(text, start, end)
  return isAddress ? [{ start, end }] : NOTHING
}

/** Finds a digit, two numbers of up to three digits and a digit, with full stops between them. */
function seekFourNumbers(text: string, from: number, to: number): number {
  for (let i = from + 1; i <= to; i++) {
    if (text.charCodeAt(i) !== DOT || !isDigit(text.charCodeAt(i - 1))) continue
    const second = findStop(text, i + 1)
    const third = second < 0 ? -1 : findStop(text, second + 1)
    if (third >= 0 && isDigit(text.charCodeAt(third + 1))) return i - 1
  }
  return -1
}

/** Finds the full stop after one to three digits; -1 if there is none. */
function findStop(text: string, from: number): number {
  let at = from
  while (at < from + 3 && isDigit(text.charCodeAt(at))) at += 1
  return at > from && text.charCodeAt(at) === DOT ? at : -1
}

/** Finds two colons with up to four hexadecimal digits between them. */
function seekGroup(text: string, from: number, to: number): number {
  for (let i = from; i < to; i++)
    if (text.charCodeAt(i) === COLON) {
      const end = findGroupEnd(text, i + 1, text.length)
      if (end < text.length && text.charCodeAt(end) === COLON) return i
    }
  return -1
}

const NOTHING: Span[] = []
const [LONGEST_LABEL, LONGEST_IPV6] = [40, 45]
const [ZERO, DOT, COLON] = [0x30, 0x2e, 0x3a]

/** Finds the end of a word such as `dns:` before an address: one that is no number. */
function findLabelEnd(text: string): number {
  let isWord = false
  for (let i = 0; i < text.length && i < LONGEST_LABEL; i++) {
    const code = text.charCodeAt(i)
    if (code === COLON) {
      const isAddress = i + 1 < LONGEST_LABEL && text.charCodeAt(i + 1) === COLON
      return isWord && !isAddress ? i + 1 : 0
    }
    if (isDigit(code)) return 0
    isWord ||= !isHexDigit(code)
  }
  return 0
}

/** Tells whether the text ends with a full stop or colon that is no part of an address. */
function hasStop(text: string): boolean {
  const last = text.charCodeAt(text.length - 1)
  return (last === DOT || last === COLON) && text.charCodeAt(text.length - 2) !== COLON
}

function hasDigit(text: string, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (isDigit(text.charCodeAt(i))) return true
  return false
}

const isHexDigit = (code: number): boolean =>
  isDigit(code) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66)

/**
 * Tells whether a part of a text is eight groups of up to four hexadecimal digits, of which the
 * last two may be an address of version 4, and one or more may be left out.
 */
export function isIpv6(text: string, start: number, end: number): boolean {
  let count = 0
  let isShort = false
  let at = start
  while (at < end) {
    if (text.charCodeAt(at) === COLON && text.charCodeAt(at + 1) === COLON && at + 1 < end) {
      if (isShort) return false
      isShort = true
      at += 2
      if (at === end) break
    } else if (at > start) {
      if (text.charCodeAt(at) !== COLON) return false
      at += 1
    }
    const groupEnd = findGroupEnd(text, at, end)
    if (groupEnd < end && text.charCodeAt(groupEnd) === DOT) {
      if (!isIpv4(text, at, end)) return false
      return isComplete(count + 2, isShort)
    }
    if (groupEnd === at) return false
    count += 1
    at = groupEnd
  }
  return isComplete(count, isShort)
}

const isComplete = (count: number, isShort: boolean): boolean => (isShort ? count < 8 : count === 8)

/** Finds the end of up to four hexadecimal digits. */
function findGroupEnd(text: string, start: number, end: number): number {
  let at = start
  while (at < end && at < start + 4 && isHexDigit(text.charCodeAt(at))) at += 1
  return at
}
