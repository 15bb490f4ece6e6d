import type { Work } from '../../kernel/turns.ts'
import type { Span } from '../patterns/machine.ts'

/** A pattern in RE2's syntax that finds one kind of thing. */
export interface Detector {
  pattern: string
  /**
   * Returns the parts of the pattern's match that are the thing; none for a false match, and null
   * where a long search may be interrupted. Without it the whole match counts.
   */
  findSpans?: (text: string) => Iterable<Span | null>
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

/** Returns a span of the whole text if it is a match, else nothing. */
export const matchWhole = (text: string, isMatch: boolean): Span[] =>
  isMatch ? [{ start: 0, end: text.length }] : []
