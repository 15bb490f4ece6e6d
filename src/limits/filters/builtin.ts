import type { Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'
import type { Alphabet } from '../patterns/program.ts'
import type { Anchor } from '../patterns/start-search.ts'

/** A pattern in RE2's syntax that finds one kind of thing. */
interface Detector {
  pattern: string
  /**
   * Tells whether a match, which is a part of a text, may be the thing, or have it as a part; takes
   * a short time for any. It looks at nothing else of the text.
   */
  accepts?: (text: string, start: number, end: number) => boolean
  /**
   * Returns the parts of the pattern's match that are the thing; none for a false match, and null
   * where a long search may be interrupted. Without it the whole match counts, if it is accepted.
   */
  findSpans?: (text: string) => Iterable<Span | null>
  /**
   * Finds something that every match with a part that is the thing includes, in linear time: the
   * pattern is sought only around it.
   */
  anchor?: Anchor['find']
  /** What may stand in a match before its anchor, if not every character of the pattern. */
  before?: Alphabet
}

/** A built-in filter. */
export interface Builtin {
  /** The text that replaces a match (wire reference H.2). */
  label: string
  /** Its name in the error of a blocked call (wire reference H.6). */
  name: string
  /** The message of a blocked call, where it is not the usual one. */
  blockedMessage?: string
  /** The patterns that find it in a text as it streams. */
  detectors: Detector[]
  /** Finds it in a whole text only, so not in answers. */
  find?: (text: string) => Work<Span[]>
}

/** Returns the characters of ASCII that an expression matches, with all others or none. */
export const toAlphabet = (characters: RegExp, beyondAscii: boolean): Alphabet => ({
  ascii: Uint8Array.from({ length: 128 }, (_, code) =>
    Number(characters.test(String.fromCharCode(code))),
  ),
  beyondAscii,
})

/** Tells whether this is the code of a digit. */
export const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

/** Tells whether so many digits stand in a text from here on. */
export function areDigits(text: string, from: number, count: number): boolean {
  for (let i = from; i < from + count; i++) if (!isDigit(text.charCodeAt(i))) return false
  return true
}
