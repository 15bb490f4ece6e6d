import parsePhoneNumber from 'libphonenumber-js/min'
import { type Builtin, wholeIf } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// Documented: `914-309-4996`, with dots, blanks or nothing between. Area codes and exchanges begin with 2 to 9 (NANP).
const AMERICAN =
  '\\b(?:1[ .-]?)?(?:\\([2-9]\\d{2}\\) ?|[2-9]\\d{2}[ .-]?)[2-9]\\d{2}[ .-]?\\d{4}\\b'
const BRACKETED = '\\([2-9]\\d{2}\\)[ .-]?[2-9]\\d{2}[ .-]?\\d{4}\\b'
const INTERNATIONAL = '\\+\\d(?:[ ().\\x{A0}/-]{0,2}\\d){6,14}\\b'

/** Telephone numbers: with their country's code as each country has them, and without in the form of the United States. */
export const phone: Builtin = {
  label: LABELS.phone,
  name: 'Phone number',
  patterns: [
    {
      pattern: INTERNATIONAL,
      spans: found => wholeIf(found, parsePhoneNumber(found)?.isPossible() ?? false),
    },
    { pattern: `${AMERICAN}|${BRACKETED}` },
  ],
}
