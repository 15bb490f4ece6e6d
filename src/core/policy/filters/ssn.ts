import type { Span } from '../patterns/machine.ts'
import type { Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// A run of digits and dashes is matched whole, so that no number is found inside a longer one. Nine
// digits without dashes could be anything, unless a name precedes them.
const DASHED = '\\b\\d[\\d-]*\\d\\b'
const SPACED = '\\b\\d{3} \\d{2} \\d{4}\\b'
const NAMED = '(?i)\\b(?:ssn|social security(?: number| no\\.?)?)[ :#=]{0,3}(?:is )?\\d{9}\\b'

/** Finds social security numbers of the United States. */
export const ssn: Builtin = {
  label: LABELS.ssn,
  name: 'Social Security number',
  detectors: [
    {
      pattern: DASHED,
      accepts: isDashed,
      anchor: /\d{3}-\d{2}-\d{4}/g,
    },
    {
      pattern: SPACED,
      accepts: text => isIssued(text, 0, 4, 7),
      anchor: /\d{3} \d{2} \d{4}/g,
    },
    {
      pattern: NAMED,
      findSpans: findNamed,
      anchor: /\d{9}/g,
    },
  ],
}

// 20 CFR 422.103 and SSA's "Meaning of the Social Security Number": no area 000, 666 or 900 and
// above, no group 00, no serial 0000.
function isIssued(text: string, area: number, group: number, serial: number): boolean {
  return (
    text.charCodeAt(area) !== NINE &&
    !text.startsWith('000', area) &&
    !text.startsWith('666', area) &&
    !text.startsWith('00', group) &&
    !text.startsWith('0000', serial)
  )
}

const NINE = 0x39

/** Tells whether digits and dashes are three groups of three, two and four digits. */
function isDashed(text: string): boolean {
  return (
    text.length === 11 &&
    text.indexOf('-') === 3 &&
    text.indexOf('-', 4) === 6 &&
    text.lastIndexOf('-') === 6 &&
    isIssued(text, 0, 4, 7)
  )
}

function findNamed(text: string): Span[] {
  const start = text.length - 9
  return isIssued(text, start, start + 3, start + 5) ? [{ start, end: text.length }] : []
}
