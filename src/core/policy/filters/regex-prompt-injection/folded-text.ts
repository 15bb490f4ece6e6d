import { CONFUSABLES } from '../regex-prompt-injection.data.ts'

/** A simplified text, and the offset in the original of each of its units. */
export interface FoldedText {
  text: string
  offsets: number[]
}

/**
 * Replaces every character by the one that it looks like: NFKC, without marks and characters of no
 * width, and with Latin letters for look-alikes of other alphabets.
 */
export function foldText(text: string): FoldedText {
  const units: string[] = []
  const offsets: number[] = []
  let from = 0
  for (const character of text) {
    for (const unit of foldCharacter(character)) {
      units.push(unit)
      offsets.push(from)
    }
    from += character.length
  }
  return { text: units.join(''), offsets }
}

function foldCharacter(character: string): string {
  if (character.length === 1 && character < '\u0080') return character
  const plain = character.normalize('NFKD').toLowerCase().replace(UNSEEN, '')
  return CONFUSABLES[plain] ?? plain
}

// Marks and formatting characters: zero-width blanks and joiners, soft hyphens, variation
// selectors, tags.
const UNSEEN = /[\p{M}\p{Cf}]/gu

const SEPARATORS = ' .-_*|\u00a0'

/** Joins every run of letters that stand alone into words: `i g n o r e`. */
export function joinSpacedLetters(text: string): FoldedText[] {
  const found: FoldedText[] = []
  let run: FoldedText = { text: '', offsets: [] }
  for (let i = 0; i < text.length; i++) {
    if (
      !isLetter(text.charCodeAt(i)) ||
      isLetter(text.charCodeAt(i - 1)) ||
      isLetter(text.charCodeAt(i + 1))
    )
      continue
    if (run.offsets.length > 0 && !isBridge(text, run.offsets.at(-1) ?? 0, i)) {
      if (run.offsets.length >= FEWEST) found.push(run)
      run = { text: '', offsets: [] }
    }
    run.text += text[i]
    run.offsets.push(i)
  }
  return run.offsets.length >= FEWEST ? [...found, run] : found
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
export function listNonBlankOffsets(text: string): number[] {
  const offsets: number[] = []
  for (let i = 0; i < text.length; i++) if (!/\s/.test(text.charAt(i))) offsets.push(i)
  return offsets
}
