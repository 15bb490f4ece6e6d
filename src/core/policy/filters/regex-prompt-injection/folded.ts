import { CONFUSABLES } from '../regex-prompt-injection.data.ts'

/** A simplified text, and the offset in the original of each of its units. */
export interface Folded {
  text: string
  at: number[]
}

/**
 * Replaces every character by the one that it looks like: NFKC, without marks and characters of no
 * width, and with Latin letters for look-alikes of other alphabets.
 */
export function folded(text: string): Folded {
  const units: string[] = []
  const at: number[] = []
  let from = 0
  for (const character of text) {
    for (const unit of lookOf(character)) {
      units.push(unit)
      at.push(from)
    }
    from += character.length
  }
  return { text: units.join(''), at }
}

function lookOf(character: string): string {
  if (character.length === 1 && character < '\u0080') return character
  const plain = character.normalize('NFKD').toLowerCase().replace(UNSEEN, '')
  return CONFUSABLES[plain] ?? plain
}

// Marks and formatting characters: zero-width blanks and joiners, soft hyphens, variation
// selectors, tags.
const UNSEEN = /[\p{M}\p{Cf}]/gu

const SEPARATORS = ' .-_*|\u00a0'

/** Joins every run of letters that stand alone into words: `i g n o r e`. */
export function lettersJoined(text: string): Folded[] {
  const found: Folded[] = []
  let run: Folded = { text: '', at: [] }
  for (let i = 0; i < text.length; i++) {
    if (
      !isLetter(text.charCodeAt(i)) ||
      isLetter(text.charCodeAt(i - 1)) ||
      isLetter(text.charCodeAt(i + 1))
    )
      continue
    if (run.at.length > 0 && !isBridge(text, run.at.at(-1) ?? 0, i)) {
      if (run.at.length >= FEWEST) found.push(run)
      run = { text: '', at: [] }
    }
    run.text += text[i]
    run.at.push(i)
  }
  return run.at.length >= FEWEST ? [...found, run] : found
}

/** The fewest letters in a run that do not form a word by accident. */
const FEWEST = 8

// ASCII only: the phrases are English, and letters of other alphabets have been replaced before.
const isLetter = (code: number): boolean =>
  (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)

/** Returns whether two letters are separated by a few separators and nothing else. */
function isBridge(text: string, from: number, to: number): boolean {
  if (to - from > WIDEST) return false
  for (let i = from + 1; i < to; i++) if (!SEPARATORS.includes(text.charAt(i))) return false
  return true
}

const WIDEST = 5

/** Lists the original offset of each unit that is left after blanks are removed. */
export function placesWithoutBlanks(text: string): number[] {
  const at: number[] = []
  for (let i = 0; i < text.length; i++) if (!/\s/.test(text.charAt(i))) at.push(i)
  return at
}
