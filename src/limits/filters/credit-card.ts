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
      anchor: seekThirteen,
    },
  ],
}

/**
 * Finds thirteen digits with at most one sign between two of them. Of two neighbours among those one
 * is a digit, so that only every twelfth pair of a text without digits is read.
 */
function seekThirteen(text: string, from: number, to: number): number {
  const end = Math.min(to, text.length - SHORTEST + 1)
  let at = from
  while (at < end) {
    if (!isDigit(text.charCodeAt(at + STRIDE - 1)) && !isDigit(text.charCodeAt(at + STRIDE))) {
      at += STRIDE
      continue
    }
    while (!isDigit(text.charCodeAt(at))) at += 1
    if (at >= end) return -1
    const broken = findBreak(text, at)
    if (broken === -1) return at
    at = broken + 1
  }
  return -1
}

/** Finds where digits from here on end before there are thirteen; -1 if there are. */
function findBreak(text: string, from: number): number {
  let count = 0
  let last = from
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (isDigit(code)) {
      last = i
      count += 1
      if (count === SHORTEST) return -1
    } else if (i - last > 1 || !isSign(code)) return i
  }
  return text.length
}

const isSign = (code: number): boolean =>
  code === 0x20 || code === 0x2e || code === 0xa0 || code === 0x2d

const LONGEST = 19
const SHORTEST = 13
const STRIDE = SHORTEST - 1
/** A long search may be interrupted after so many groups, or so many digits of one. */
const AT_ONCE = 64

/** Finds the cards among groups of digits: each begins and ends with a group. */
function* findCards(text: string): Iterable<Span | null> {
  const search = new CardSearch(text)
  while (!search.isOver) yield search.findNext()
}

/**
 * The networks' prefixes and lengths: American Express, Diners Club, Discover, JCB, Mastercard,
 * UnionPay, Visa. As `isCreditCard` of `validator` has them, which takes ten times as long.
 */
const NETWORKS =
  /^3[47]\d{13}$|^3(?:0[0-5]|[68]\d)\d{11}$|^6(?:011|5\d\d)\d{12,15}$|^(?:2131|1800|35\d{3})\d{11}$|^5[1-5]\d{2}|(?:222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}$|^6[27]\d{14}$|^81\d{14,17}$|^4\d{12}(?:\d{3,6})?$/

/** So many of the digits that were read last are known: each at its index modulo this. */
const KNOWN = 64
const LAST_KNOWN = KNOWN - 1
const ZERO = 0x30

/** Reads the digits of a text one after the other, of which only the last are in memory. */
class CardSearch {
  isOver = false
  readonly #text: string
  readonly #codes = Buffer.alloc(2 * KNOWN)
  readonly #offsets = new Int32Array(KNOWN)
  readonly #begins = new Uint8Array(KNOWN)
  readonly #ends = new Uint8Array(KNOWN)
  /** The sums of the digits up to each, with every other one doubled (Luhn): two ways to do so. */
  readonly #evenSums = new Int32Array(KNOWN)
  readonly #oddSums = new Int32Array(KNOWN)
  #count = 0
  #position = 0
  /** The digit with which the next card may begin. */
  #first = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Finds the next card; null if it has none among the next groups. */
  findNext(): Span | null {
    for (let count = 0; count < AT_ONCE; count++) {
      const first = this.#first
      if (!this.#has(first)) {
        this.isOver = true
        return null
      }
      const last = this.#begins[first & LAST_KNOWN] === 1 ? this.#findLast(first) : null
      this.#first = (last ?? first) + 1
      if (last !== null)
        return {
          start: this.#offsets[first & LAST_KNOWN] as number,
          end: (this.#offsets[last & LAST_KNOWN] as number) + 1,
        }
    }
    return null
  }

  /** Finds the last digit of the card that begins with this one; null if none does. */
  #findLast(first: number): number | null {
    this.#has(first + LONGEST - 1)
    const ends = this.#ends
    const until = Math.min(this.#count, first + LONGEST)
    for (let last = first + SHORTEST - 1; last < until; last++)
      if (
        ends[last & LAST_KNOWN] === 1 &&
        this.#hasCheckDigit(first, last) &&
        this.#isOfNetwork(first, last)
      )
        return last
    return null
  }

  /** Reads on up to the digit of this index. Tells whether there is one. */
  #has(index: number): boolean {
    if (this.#count <= index) this.#readUntil(index)
    return this.#count > index
  }

  #readUntil(index: number): void {
    const text = this.#text
    let at = this.#position
    let count = this.#count
    for (; count <= index && at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (!isDigit(code)) continue
      const place = count++ & LAST_KNOWN
      // Each is kept twice, so that a number can be read in one piece.
      this.#codes[place] = code
      this.#codes[place + KNOWN] = code
      this.#offsets[place] = at
      this.#begins[place] = Number(!isDigit(text.charCodeAt(at - 1)))
      this.#ends[place] = Number(!isDigit(text.charCodeAt(at + 1)))
      this.#addToSums(place, code - ZERO)
    }
    this.#position = at
    this.#count = count
  }

  #addToSums(place: number, digit: number): void {
    const doubled = digit > 4 ? 2 * digit - 9 : 2 * digit
    const before = (place - 1) & LAST_KNOWN
    const isEven = (place & 1) === 0
    this.#evenSums[place] = (this.#evenSums[before] as number) + (isEven ? digit : doubled)
    this.#oddSums[place] = (this.#oddSums[before] as number) + (isEven ? doubled : digit)
  }

  /** Tells whether the last digit is the right one (Luhn): of ten numbers nine have another. */
  #hasCheckDigit(first: number, last: number): boolean {
    const sums = (last & 1) === 0 ? this.#evenSums : this.#oddSums
    const sum = (sums[last & LAST_KNOWN] as number) - (sums[(first - 1) & LAST_KNOWN] as number)
    return sum % 10 === 0
  }

  /** Tells whether a network has such numbers. Most are none of a network by their first digits. */
  #isOfNetwork(first: number, last: number): boolean {
    const from = first & LAST_KNOWN
    const length = last - first + 1
    const one = (this.#codes[from] as number) - ZERO
    const isUsual = one === 4 || one === 5 || one === 6 || one === 8
    if (!isUsual && length <= LONGEST_USUAL) {
      const isJcb = one === 1 && this.#codes[from + 1] === ZERO + 8
      if (one !== 2 && one !== 3 && !isJcb) return false
    } else if (!isUsual && this.#codes[from + length - LONGEST_USUAL] !== ZERO + 2) return false
    return NETWORKS.test(this.#codes.toString('latin1', from, from + length))
  }
}

/** Longer numbers begin with 4, 5, 6 or 8, or end with sixteen digits of which the first is 2. */
const LONGEST_USUAL = 16
