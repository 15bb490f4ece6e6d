import type { Span } from '../patterns/machine.ts'
import { seekDigits } from './anchors.ts'
import { areDigits, type Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// A run of digits and dashes is matched whole, so that no number is found inside a longer one. Nine
// digits without dashes could be anything, unless a name precedes them.
const DASHED = '\\b\\d[\\d-]*\\d\\b'
const SPACED = '\\b\\d{3} \\d{2} \\d{4}\\b'
const NAMED = '(?i)\\b(?:ssn|social security(?: number| no\\.?)?)[ :#=]{0,3}(?:is )?\\d{9}\\b'

const [BLANK, DASH, ZERO] = [0x20, 0x2d, 0x30]

/** Finds social security numbers of the United States. */
export const ssn: Builtin = {
  label: LABELS.ssn,
  name: 'Social Security number',
  detectors: [
    {
      pattern: DASHED,
      accepts: isDashed,
      anchor: seekDigits(3, isGrouped(DASH)),
    },
    {
      pattern: SPACED,
      accepts: (text, start) => isIssued(text, start, start + 4, start + 7),
      anchor: seekDigits(3, isGrouped(BLANK)),
    },
    {
      pattern: NAMED,
      findSpans: findNamed,
      anchor: seekDigits(9, () => true),
    },
  ],
}

// 20 CFR 422.103 and SSA's "Meaning of the Social Security Number": no area 000, 666 or 900 and
// above, no group 00, no serial 0000.
function isIssued(text: string, area: number, group: number, serial: number): boolean {
  const number = readNumber(text, area, 3)
  return (
    number !== 0 &&
    number !== 666 &&
    number < 900 &&
    readNumber(text, group, 2) !== 0 &&
    readNumber(text, serial, 4) !== 0
  )
}

function readNumber(text: string, from: number, count: number): number {
  let number = 0
  for (let i = from; i < from + count; i++) number = 10 * number + text.charCodeAt(i) - ZERO
  return number
}

/** Tells whether digits and dashes are three groups of three, two and four digits. */
function isDashed(text: string, start: number, end: number): boolean {
  return (
    end - start === 11 &&
    text.charCodeAt(start + 3) === DASH &&
    text.charCodeAt(start + 6) === DASH &&
    areDigits(text, start, 3) &&
    areDigits(text, start + 4, 2) &&
    areDigits(text, start + 7, 4) &&
    isIssued(text, start, start + 4, start + 7)
  )
}

function findNamed(text: string): Span[] {
  const start = text.length - 9
  return isIssued(text, start, start + 3, start + 5) ? [{ start, end: text.length }] : []
}

/** Tells whether two and four digits follow the three at a place, with this sign between them. */
function isGrouped(sign: number): (text: string, at: number) => boolean {
  return (text, at) =>
    text.charCodeAt(at + 3) === sign &&
    text.charCodeAt(at + 6) === sign &&
    areDigits(text, at + 4, 2) &&
    areDigits(text, at + 7, 4)
}
