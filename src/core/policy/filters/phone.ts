import { seekCode, seekDigits } from './anchors.ts'
import { areDigits, type Builtin, isDigit } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import { isPossibleNumber } from './phone/possible.ts'

// Documented forms: `914-309-4996`, with dots, spaces or nothing between. Area codes and exchanges
// begin with 2 to 9 (NANP).
const AMERICAN =
  '\\b(?:1[ .-]?)?(?:\\([2-9]\\d{2}\\) ?|[2-9]\\d{2}[ .-]?)[2-9]\\d{2}[ .-]?\\d{4}\\b'
const BRACKETED = '\\([2-9]\\d{2}\\)[ .-]?[2-9]\\d{2}[ .-]?\\d{4}\\b'
const INTERNATIONAL = '\\+\\d(?:[ ().\\x{A0}/-]{0,2}\\d){6,14}\\b'

/**
 * Finds telephone numbers: with a country code in each country's form, and without one in the form
 * of the United States.
 */
export const phone: Builtin = {
  label: LABELS.phone,
  name: 'Phone number',
  detectors: [
    { pattern: INTERNATIONAL, accepts: isPossibleNumber, anchor: seekPlus },
    { pattern: `${AMERICAN}|${BRACKETED}`, anchor: seekDigits(3, isExchange) },
  ],
}

const [PLUS, BLANK, DOT, DASH, BRACKET, TWO] = [0x2b, 0x20, 0x2e, 0x2d, 0x29, 0x32]

const seekSign = seekCode(PLUS)

/** Finds a plus sign before a digit. */
function seekPlus(text: string, from: number, to: number): number {
  let at = seekSign(text, from, to)
  while (at !== -1 && !isDigit(text.charCodeAt(at + 1))) at = seekSign(text, at + 1, to)
  return at
}

/**
 * Tells whether the three digits at this place are an exchange: an area code stands before them, and
 * four digits follow, each with a sign between or without one.
 */
function isExchange(text: string, at: number): boolean {
  if (text.charCodeAt(at) < TWO) return false
  const line = isSign(text.charCodeAt(at + 3)) ? at + 4 : at + 3
  if (!areDigits(text, line, 4)) return false
  const end = isSign(text.charCodeAt(at - 1)) ? at - 1 : at
  const area = text.charCodeAt(end - 1) === BRACKET ? end - 4 : end - 3
  return areDigits(text, area, 3) && text.charCodeAt(area) >= TWO
}

const isSign = (code: number): boolean => code === BLANK || code === DOT || code === DASH
