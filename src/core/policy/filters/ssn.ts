import { type Builtin, matchWhole } from './builtin.ts'
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
      findSpans: text => matchWhole(text, /^\d{3}-\d{2}-\d{4}$/.test(text) && isIssued(text)),
      anchor: /\d{3}-\d{2}-\d{4}/g,
    },
    {
      pattern: SPACED,
      findSpans: text => matchWhole(text, isIssued(text)),
      anchor: /\d{3} \d{2} \d{4}/g,
    },
    {
      pattern: NAMED,
      findSpans: text =>
        isIssued(text.slice(-9)) ? [{ start: text.length - 9, end: text.length }] : [],
      anchor: /\d{9}/g,
    },
  ],
}

// 20 CFR 422.103 and SSA's "Meaning of the Social Security Number": no area 000, 666 or 900 and
// above, no group 00, no serial 0000.
function isIssued(number: string): boolean {
  const digits = number.replace(/[- ]/g, '')
  return !/^(?:000|666|9)/.test(digits) && digits.slice(3, 5) !== '00' && digits.slice(5) !== '0000'
}
