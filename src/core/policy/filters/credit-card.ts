import type { Span } from '../patterns/machine.ts'
import { type Builtin, isDigit } from './builtin.ts'
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
/** A long search may be interrupted after so many groups, or so many digits of one. */
const AT_ONCE = 64

/** Finds the cards among groups of digits: each begins and ends with a group. */
function* findCards(text: string): Iterable<Span | null> {
  const digits = new DigitQueue(text)
  for (let first = 0, count = 1; digits.has(first); count++) {
    const last = findLastDigit(digits, first)
    if (last !== null) yield { start: digits.getOffset(first), end: digits.getOffset(last) + 1 }
    else if (count % AT_ONCE === 0) yield null
    for (first = (last ?? first) + 1; digits.has(first) && !digits.beginsGroup(first); first++)
      if (first % AT_ONCE === 0) yield null
  }
}

/** Finds the last digit of the card that begins with this one; null if none does. */
function findLastDigit(digits: DigitQueue, first: number): number | null {
  for (let last = first; last < first + LONGEST; last++) {
    if (!digits.has(last)) return null
    const isWhole = last - first + 1 >= SHORTEST && digits.endsGroup(last)
    if (isWhole && digits.hasCheckDigit(first, last) && NETWORKS.test(digits.read(first, last)))
      return last
  }
  return null
}

/**
 * The networks' prefixes and lengths: American Express, Diners Club, Discover, JCB, Mastercard,
 * UnionPay, Visa. As `isCreditCard` of `validator` has them, which takes ten times as long.
 */
const NETWORKS =
  /^3[47]\d{13}$|^3(?:0[0-5]|[68]\d)\d{11}$|^6(?:011|5\d\d)\d{12,15}$|^(?:2131|1800|35\d{3})\d{11}$|^5[1-5]\d{2}|(?:222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}$|^6[27]\d{14}$|^81\d{14,17}$|^4\d{12}(?:\d{3,6})?$/

/** So many of the digits that were read last are known. */
const KNOWN = 64

/** The digits of a text one after the other, of which only the last are in memory. */
class DigitQueue {
  readonly #text: string
  readonly #codes = Buffer.alloc(2 * KNOWN)
  readonly #offsets = new Int32Array(KNOWN)
  /** The sums of the digits up to each, with every other one doubled (Luhn): two ways to do so. */
  readonly #sums = [new Int32Array(KNOWN), new Int32Array(KNOWN)] as const
  #count = 0
  #position = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Tells whether there are so many digits and one more. */
  has(index: number): boolean {
    while (this.#count <= index) {
      while (this.#position < this.#text.length && !this.#isDigitAt(this.#position))
        this.#position += 1
      if (this.#position >= this.#text.length) return false
      this.#add(this.#position)
      this.#position += 1
    }
    return true
  }

  getOffset(index: number): number {
    return this.#offsets[index % KNOWN] as number
  }

  beginsGroup(index: number): boolean {
    return !this.#isDigitAt(this.getOffset(index) - 1)
  }

  endsGroup(index: number): boolean {
    return !this.#isDigitAt(this.getOffset(index) + 1)
  }

  /** Tells whether the last digit is the right one (Luhn): of ten numbers nine have another. */
  hasCheckDigit(first: number, last: number): boolean {
    const sums = this.#sums[last % 2] as Int32Array
    const before = sums[(first + KNOWN - 1) % KNOWN] as number
    return ((sums[last % KNOWN] as number) - before) % 10 === 0
  }

  read(first: number, last: number): string {
    const from = first % KNOWN
    return this.#codes.toString('latin1', from, from + last - first + 1)
  }

  #add(offset: number): void {
    const index = this.#count++
    const place = index % KNOWN
    const code = this.#text.charCodeAt(offset)
    // Each is kept twice, so that a number can be read in one piece.
    this.#codes[place] = code
    this.#codes[place + KNOWN] = code
    this.#offsets[place] = offset
    const digit = code - ZERO
    const doubled = digit > 4 ? 2 * digit - 9 : 2 * digit
    const [even, odd] = this.#sums
    const before = (index + KNOWN - 1) % KNOWN
    const isEven = index % 2 === 0
    even[place] = (even[before] as number) + (isEven ? digit : doubled)
    odd[place] = (odd[before] as number) + (isEven ? doubled : digit)
  }

  #isDigitAt(offset: number): boolean {
    return isDigit(this.#text.charCodeAt(offset))
  }
}

const ZERO = 0x30
