import type { Span } from '../../patterns/machine.ts'
import { CONFUSABLES } from '../regex-prompt-injection.data.ts'
import { Shifts } from '../shifts.ts'

/** A simplified text, and what a span of it stands for in the original. */
interface FoldedText {
  text: string
  toOriginal(span: Span): Span
}

/** Letters that stand alone, as a text, and the offset in the original of each. */
interface SpacedLetters {
  text: string
  offsets: number[]
}

/**
 * Replaces every character by the one that it looks like: NFKC, without marks and characters of no
 * width, and with Latin letters for look-alikes of other alphabets. Returns null for a text that
 * stays the same.
 */
export function foldText(text: string): FoldedText | null {
  const first = findFoldable(text, 0)
  if (first === text.length) return null
  const shifts = new Shifts()
  const units = new UnitBuffer(2 * text.length)
  for (let i = 0; i < text.length; ) {
    const code = text.charCodeAt(i)
    const single = code < 0x80 ? code : findSingle(code)
    if (single !== NOT_SINGLE) {
      units.add(single)
      i += 1
      continue
    }
    const character = String.fromCodePoint(text.codePointAt(i) ?? 0)
    const plain = foldCharacter(character)
    if (plain.length !== character.length)
      shifts.add(i, character.length, units.length, plain.length)
    for (let at = 0; at < plain.length; at++) units.add(plain.charCodeAt(at))
    i += character.length
  }
  return { text: units.toString(), toOriginal: span => shifts.toOriginal(span) }
}

/** UTF-16 units that become a text. */
class UnitBuffer {
  length = 0
  #units: Uint16Array

  constructor(size: number) {
    this.#units = new Uint16Array(size)
  }

  add(unit: number): void {
    if (this.length === this.#units.length) {
      const larger = new Uint16Array(2 * this.length)
      larger.set(this.#units)
      this.#units = larger
    }
    this.#units[this.length++] = unit
  }

  toString(): string {
    return Buffer.from(this.#units.buffer, 0, 2 * this.length).toString('utf16le')
  }
}

/** What each UTF-16 unit becomes where that is one unit: its code plus one, or nothing yet. */
const SINGLES = new Int32Array(0x10000)
const NOT_SINGLE = -1

function findSingle(code: number): number {
  const known = SINGLES[code] as number
  if (known !== 0) return known > 0 ? known - 1 : NOT_SINGLE
  const isSame = readKind(code) === SAME
  const plain = isSame || isSurrogate(code) ? '' : foldCharacter(String.fromCharCode(code))
  const single = isSame ? code : plain.length === 1 ? plain.charCodeAt(0) : NOT_SINGLE
  SINGLES[code] = single === NOT_SINGLE ? NOT_SINGLE : single + 1
  return single
}

const isSurrogate = (code: number): boolean => (code & 0xf800) === 0xd800

/** What is known of each UTF-16 unit: nothing yet, that it stays the same, or that it may not. */
const [UNKNOWN, SAME, FOLDABLE] = [0, 1, 2]
const KINDS = new Uint8Array(0x10000)

function findFoldable(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x80 && KINDS[code] !== SAME && readKind(code) !== SAME) return i
  }
  return text.length
}

function readKind(code: number): number {
  if (KINDS[code] === UNKNOWN) {
    const character = String.fromCharCode(code)
    const isSame =
      code === ELLIPSIS || (!isSurrogate(code) && foldCharacter(character) === character)
    KINDS[code] = isSame ? SAME : FOLDABLE
  }
  return KINDS[code] as number
}

// Common in prose, and three full stops are in no phrase.
const ELLIPSIS = 0x2026

function foldCharacter(character: string): string {
  const known = folded.get(character)
  if (known !== undefined) return known
  const plain = character.normalize('NFKD').toLowerCase().replace(UNSEEN, '')
  const result = CONFUSABLES[plain] ?? plain
  if (folded.size === MOST_REMEMBERED) folded.clear()
  folded.set(character, result)
  return result
}

const folded = new Map<string, string>()
const MOST_REMEMBERED = 4_096

// Marks and formatting characters: zero-width blanks and joiners, soft hyphens, variation
// selectors, tags.
const UNSEEN = /[\p{M}\p{Cf}]/gu

/**
 * Joins every run of letters that stand alone into words: `i g n o r e`. Null if there is none. No
 * phrase goes over the end of a run.
 */
export function joinSpacedLetters(text: string): SpacedLetters | null {
  return MAY_BE_SPACED.test(text) ? joinLetters(text) : null
}

/** Three letters with separators between them and after. */
const MAY_BE_SPACED = /[a-z][ .\-_*|\u00a0]{1,4}[a-z][ .\-_*|\u00a0]{1,4}[a-z][ .\-_*|\u00a0]/i

function joinLetters(text: string): SpacedLetters | null {
  const [units, offsets]: [number[], number[]] = [[], []]
  let run: number[] = []
  let wasLetter = false
  for (let i = 0; i < text.length; i++) {
    const isLone = !wasLetter
    wasLetter = isLetter(text.charCodeAt(i))
    if (!wasLetter || !isLone || isLetter(text.charCodeAt(i + 1))) continue
    if (run.length > 0 && !isBridge(text, run.at(-1) ?? 0, i)) {
      addRun(text, run, units, offsets)
      run = []
    }
    run.push(i)
  }
  addRun(text, run, units, offsets)
  return units.length > 0 ? { text: Buffer.from(units).toString('latin1'), offsets } : null
}

/** Adds the letters at these places, which are ASCII, and an end that no phrase goes over. */
function addRun(text: string, run: number[], units: number[], offsets: number[]): void {
  const last = run.at(-1)
  if (run.length < FEWEST || last === undefined) return
  for (const at of run) {
    units.push(text.charCodeAt(at))
    offsets.push(at)
  }
  for (const unit of RUN_END) {
    units.push(unit)
    offsets.push(last)
  }
}

/** Blanks of phrases are no full stop, and their gaps no end of a line. */
const RUN_END = Buffer.from('.\n')

/** The fewest letters in a run that do not form a word by accident. */
const FEWEST = 8

// ASCII only: the phrases are English, and letters of other alphabets have been replaced before.
export const isLetter = (code: number): boolean =>
  (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)

/** Returns whether two letters are separated by a few separators and nothing else. */
function isBridge(text: string, from: number, to: number): boolean {
  if (to - from > WIDEST) return false
  for (let i = from + 1; i < to; i++) if (SEPARATORS[text.charCodeAt(i)] !== 1) return false
  return true
}

const WIDEST = 5
const SEPARATORS = new Uint8Array(0x10000)
for (const separator of ' .-_*|\u00a0') SEPARATORS[separator.charCodeAt(0)] = 1

/** Lists the original offset of each unit that is left after blanks are removed. */
export function listNonBlankOffsets(text: string): number[] {
  const offsets: number[] = []
  for (let i = 0; i < text.length; i++) if (!/\s/.test(text.charAt(i))) offsets.push(i)
  return offsets
}
