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
  detectors: [
    {
      pattern: '\\b\\d(?:[ .\\x{A0}-]?\\d){12,}\\b',
      findSpans: findCards,
      anchor: /\d(?:[ .\xa0-]?\d){12}/g,
    },
  ],
}

const LONGEST = 19
const SHORTEST = 13

/** A group of digits among others. */
interface Group {
  digits: string
  start: number
  end: number
}

/** Finds the cards among groups of digits: each begins and ends with a group. */
function* findCards(text: string): Iterable<Span | null> {
  const groups = new GroupQueue(text)
  for (let first = groups.get(0); first; first = groups.get(0)) {
    const count = countGroups(groups)
    const last = groups.get(Math.max(0, count - 1))
    yield count > 0 && last ? { start: first.start, end: last.end } : null
    groups.drop(Math.max(1, count))
  }
}

/** Counts the groups of the card that begins with the first one; 0 if none does. */
function countGroups(groups: GroupQueue): number {
  let digits = ''
  for (let i = 0; digits.length < LONGEST; i++) {
    const group = groups.get(i)
    if (!group || digits.length + group.digits.length > LONGEST) return 0
    digits += group.digits
    if (digits.length >= SHORTEST && hasCheckDigit(digits) && isCreditCard(digits)) return i + 1
  }
  return 0
}

/** Tells whether the last digit is the right one (Luhn): so of ten numbers nine need no other look. */
function hasCheckDigit(digits: string): boolean {
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(digits.length - 1 - i) - ZERO
    sum += i % 2 === 0 ? digit : digit > 4 ? 2 * digit - 9 : 2 * digit
  }
  return sum % 10 === 0
}

const ZERO = 0x30

/** The groups of digits of a text from some place on, of which only a few are in memory. */
class GroupQueue {
  readonly #found: RegExpStringIterator<RegExpExecArray>
  #groups: Group[] = []

  constructor(text: string) {
    this.#found = text.matchAll(/\d+/g)
  }

  get(index: number): Group | undefined {
    while (this.#groups.length <= index) {
      const { done, value } = this.#found.next()
      if (done) return undefined
      const start = value.index
      this.#groups.push({ digits: value[0], start, end: start + value[0].length })
    }
    return this.#groups[index]
  }

  drop(count: number): void {
    this.#groups = this.#groups.slice(count)
  }
}
