import { CONFUSABLES } from '../regex-prompt-injection.data.ts'

/** A text made plainer, and where each of its units came from. */
export interface Folded {
  text: string
  at: number[]
}

/** The text with every character as the one that it looks like: NFKC, without marks and what has no width, other alphabets' look-alikes as ours. */
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

// Marks, and what is formatting only: zero-width blanks and joiners, soft hyphens, variation selectors, tags.
const UNSEEN = /[\p{M}\p{Cf}]/gu

const SEPARATORS = ' .-_*|\u00a0'

/** Every run of letters that stand alone, as the words that they make: `i g n o r e`. */
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

/** So many letters make no word by accident. */
const FEWEST = 8

// The phrases are English: letters of other alphabets have been made ours by then.
const isLetter = (code: number): boolean =>
  (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)

/** Whether nothing but separators stands between two letters, and few of them. */
function isBridge(text: string, from: number, to: number): boolean {
  if (to - from > WIDEST) return false
  for (let i = from + 1; i < to; i++) if (!SEPARATORS.includes(text.charAt(i))) return false
  return true
}

const WIDEST = 5

/** Where each unit of the text came from once it has lost its blanks. */
export function placesWithoutBlanks(text: string): number[] {
  const at: number[] = []
  for (let i = 0; i < text.length; i++) if (!/\s/.test(text.charAt(i))) at.push(i)
  return at
}
