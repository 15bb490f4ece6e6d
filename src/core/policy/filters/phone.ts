import type { Builtin } from './builtin.ts'
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
    { pattern: INTERNATIONAL, accepts: isPossibleNumber, anchor: /\+\d/g },
    { pattern: `${AMERICAN}|${BRACKETED}`, anchor: /\d{3}[ .-]?\d{4}/g },
  ],
}
