import isCreditCard from 'validator/es/lib/isCreditCard.js'
import type { Span } from '../patterns/machine.ts'
import type { Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'

/**
 * Finds numbers of payment cards: 13 to 19 digits, grouped or not, with a network's prefix and the
 * right check digit (ISO/IEC 7812, Luhn).
 */
export const creditCard: Builtin = {
  label: LABELS['credit-card'],
  name: 'Credit card number',
  // Takes all consecutive numbers together, so that a date before a card does not hide it.
  detectors: [{ pattern: '\\b\\d(?:[ .\\x{A0}-]?\\d){12,}\\b', findSpans: findCards }],
}

const LONGEST = 19
const SHORTEST = 13

/** Finds the cards among groups of digits: each begins and ends with a group. */
function findCards(text: string): Span[] {
  const groups = [...text.matchAll(/\d+/g)].map(({ 0: digits, index }) => ({
    digits,
    start: index,
    end: index + digits.length,
  }))
  const cards: Span[] = []
  for (let i = 0; i < groups.length; ) {
    const last = findLastGroup(groups, i)
    if (last !== undefined)
      cards.push({ start: groups[i]?.start ?? 0, end: groups[last]?.end ?? 0 })
    i = (last ?? i) + 1
  }
  return cards
}

/** Finds the index of the last group of a card that begins with the group `first`. */
function findLastGroup(groups: { digits: string }[], first: number): number | undefined {
  let digits = ''
  for (let i = first; i < groups.length && digits.length < LONGEST; i++) {
    digits += groups[i]?.digits ?? ''
    if (digits.length >= SHORTEST && digits.length <= LONGEST && isCreditCard(digits)) return i
  }
  return undefined
}
