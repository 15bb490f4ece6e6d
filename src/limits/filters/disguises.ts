import type { Span } from '../patterns/machine.ts'
import { isPlainAscii, NormalForm } from './normal-form.ts'
import { CONFUSABLES } from './regex-prompt-injection.data.ts'
import { Shifts } from './shifts.ts'

/**
 * The plain reading of a text that may come in pieces, as who receives it may read it: without
 * escapes of URLs, HTML and JSON, also within each other, with tags of Unicode as the letters that
 * models take them for, in normal form, and with Latin letters for those that look like them. It
 * does not depend on how the text is cut.
 */
export class PlainReading {
  /** Where the text first differs from its reading; null while it does not. */
  firstChange: number | null = null
  /** How far the reading of the text is known. */
  knownUntil = 0
  /** The last characters of the text, as far as what follows may still change them. */
  open = ''
  readonly #escapes = Array.from({ length: MOST_ROUNDS }, () => new EscapeDecoder())
  readonly #form = new NormalForm()
  #firstLookAlike: number | null = null
  #length = 0

  /** Whether more than a normal form has been undone: an escape or a letter that looks like another. */
  get isDisguised(): boolean {
    return (
      this.#firstLookAlike !== null || this.#escapes.some(({ firstChange }) => firstChange !== null)
    )
  }

  /** The last characters of a text in which nothing is disguised, as far as an escape may begin there. */
  get undecoded(): string {
    return this.#escapes.reduce((open, decoder) => decoder.open + open, '')
  }

  /** Reads more text, and returns what is added to the reading. */
  read(text: string, isLast = false): string {
    let added = text
    for (const decoder of this.#escapes) added = decoder.read(added, isLast)
    const normal = this.#form.read(added, isLast)
    const plain = replaceLookAlikes(normal)
    if (plain !== normal) this.#firstLookAlike ??= this.#length + findDifference(normal, plain)
    this.open += text
    const known = this.#originOf(this.#form.knownUntil)
    this.open = this.open.slice(known - this.knownUntil)
    this.knownUntil = known
    this.#length += plain.length
    this.firstChange ??= this.#findChange()
    return plain
  }

  /** Returns the span of the text that a span of its reading stands for. */
  toOriginal(span: Span): Span {
    return this.#escapes.reduceRight(
      (mapped, { shifts }) => shifts.toOriginal(mapped),
      this.#form.toOriginal(span),
    )
  }

  /** Returns where the character at an offset of the reading begins in the text. */
  findOrigin(offset: number): number {
    return this.#originOf(this.#form.findOrigin(offset))
  }

  /** Forgets where the reading before this offset comes from. */
  forget(offset: number): void {
    let at = this.#form.findOrigin(offset)
    this.#form.forget(offset)
    for (const { shifts } of this.#escapes.toReversed()) {
      const origin = shifts.findOrigin(at)
      shifts.forget(at)
      at = origin
    }
  }

  /** Returns where an offset of the decoded text is in the text. */
  #originOf(offset: number): number {
    return this.#escapes.reduceRight((at, { shifts }) => shifts.findOrigin(at), offset)
  }

  /** Finds where the text first differs, as far as every step has read it. */
  #findChange(): number | null {
    const steps = [...this.#escapes, this.#form].map(({ firstChange }) => firstChange)
    const changes = [...steps, this.#firstLookAlike].filter(change => change !== null)
    // Before the first change all offsets are those of the text.
    const first = Math.min(...changes)
    return first < this.knownUntil ? first : null
  }
}

/** How often a text may be encoded within another encoding. */
const MOST_ROUNDS = 3

const findDifference = (one: string, other: string): number => {
  let at = 0
  while (one.charCodeAt(at) === other.charCodeAt(at)) at += 1
  return at
}

/** Tells whether something of a text may be disguised. A plain text of ASCII is asked four times. */
export function mayBeDisguised(text: string): boolean {
  if (SIGNS.some(sign => text.includes(sign)) && ESCAPE.test(text)) return true
  return !isPlainAscii(text) && (text.includes(TAG) || LOOK_ALIKE.test(text))
}

const SIGNS = ['\\', '%', '&']
/** The first half of a tag. */
const TAG = '\udb40'

/** What a name of HTML stands for; only those that words are disguised with. */
const NAMED: Record<string, string> = {
  ...{ lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ', commat: '@', period: '.' },
  ...{ hyphen: '-', lowbar: '_', colon: ':', sol: '/', num: '#', plus: '+', lpar: '(', rpar: ')' },
  ...{ comma: ',', equals: '=', percnt: '%', bsol: '\\', tab: '\t', newline: '\n', dollar: '$' },
}

const HEX = '[\\da-f]'
const MORE = `%[89ab]${HEX}`
/** A character in an encoding: of a URL, in UTF-8; of HTML; of JSON and JavaScript; or a tag. */
const ENCODED = [
  `%(?:[0-7]${HEX}|[cd]${HEX}${MORE}|e${HEX}(?:${MORE}){2}|f[0-7](?:${MORE}){3})`,
  `&(?:#\\d{1,7}|#x${HEX}{1,6}|${Object.keys(NAMED).join('|')});?`,
  `\\\\(?:u${HEX}{4}|u\\{${HEX}{1,6}\\}|x${HEX}{2}|[bfnrt/"'\\\\])`,
  '\\udb40[\\udc20-\\udc7e]',
].join('|')
const ESCAPE = new RegExp(ENCODED, 'i')
const ESCAPES = new RegExp(ENCODED, 'gi')
/** Where an encoded character may begin. */
const BEGINS = /[%&\\\udb40]/
/** One that may not have ended with the text. */
const UNENDED = /[%&\\\udb40][\da-z#{%]*$/i
/** The longest is of twelve units: a character of four bytes in a URL. */
export const LONGEST_ENCODED = 12

/** Decodes one round of escapes in a text that may come in pieces. */
class EscapeDecoder {
  firstChange: number | null = null
  readonly shifts = new Shifts()
  /** The last characters of what it has read, as far as an escape may begin there. */
  open = ''
  #taken = 0
  #length = 0

  read(text: string, isLast: boolean): string {
    const unread = this.open + text
    let decoded = ''
    let at = 0
    if (BEGINS.test(unread))
      for (const { 0: written, index } of unread.matchAll(ESCAPES)) {
        const end = index + written.length
        if (end === unread.length && mayGoOn(written) && !isLast) break
        const plain = decodeCharacter(written)
        decoded += unread.slice(at, index)
        this.firstChange ??= this.#taken + index
        const place = this.#length + decoded.length
        this.shifts.add(this.#taken + index, written.length, place, plain.length)
        decoded += plain
        at = end
      }
    const end = isLast ? unread.length : findOpen(unread, at)
    decoded += unread.slice(at, end)
    this.open = unread.slice(end)
    this.#taken += end
    this.#length += decoded.length
    return decoded
  }
}

/** Tells whether a reference may be longer than it is: more digits may follow, or its end. */
const mayGoOn = (written: string): boolean => written.startsWith('&') && !written.endsWith(';')

/** Finds where an encoded character may have begun that has not ended yet. */
function findOpen(text: string, from: number): number {
  const start = Math.max(from, text.length - LONGEST_ENCODED)
  const open = text.slice(start).search(UNENDED)
  return open === -1 ? text.length : start + open
}

function decodeCharacter(written: string): string {
  const sign = written.charAt(0)
  if (sign === '&') return decodeReference(written.slice(1).replace(';', ''))
  if (sign === TAG) return String.fromCharCode(written.charCodeAt(1) - 0xdc00)
  if (sign === '\\') return decodeEscape(written.slice(1))
  return written.length === 3
    ? String.fromCharCode(Number.parseInt(written.slice(1), 16))
    : Buffer.from(written.replaceAll('%', ''), 'hex').toString()
}

const decodeReference = (name: string): string =>
  NAMED[name.toLowerCase()] ??
  toCharacter(/^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1)))

const CONTROLS: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

function decodeEscape(sign: string): string {
  if (sign.length === 1) return CONTROLS[sign.toLowerCase()] ?? sign
  const digits = sign.replace(/^[ux]\{?|\}$/gi, '')
  const code = Number.parseInt(digits, 16)
  // A half of a character stands beside its other half.
  return digits.length === 4 ? String.fromCharCode(code) : toCharacter(code)
}

const toCharacter = (point: number): string =>
  point <= 0x10_ff_ff ? String.fromCodePoint(point) : '\ufffd'

/** Capitals look like other letters than small ones do. */
const CAPITALS = { Η: 'H', Ν: 'N', Υ: 'Y', Ζ: 'Z' }

/** Letters that look like those of Latin, in both cases: each one unit for one. */
const LOOK_ALIKES = new Map<string, string>([
  ...Object.entries(CONFUSABLES).filter(([letter]) => letter.length === 1 && letter >= '\u0080'),
  ...Object.entries(CONFUSABLES)
    .map(([letter, latin]): [string, string] => [letter.toUpperCase(), latin.toUpperCase()])
    .filter(([letter]) => letter.length === 1 && letter >= '\u0080'),
  ...Object.entries(CAPITALS),
])
const LOOK_ALIKE = new RegExp(`[${[...LOOK_ALIKES.keys()].join('')}]`)
const ALL_LOOK_ALIKES = new RegExp(LOOK_ALIKE, 'g')

const replaceLookAlikes = (text: string): string =>
  LOOK_ALIKE.test(text)
    ? text.replace(ALL_LOOK_ALIKES, letter => LOOK_ALIKES.get(letter) ?? letter)
    : text
