import type { Span } from '../patterns/machine.ts'

/** What looks for one kind of thing: patterns in RE2's syntax. */
export interface Looking {
  pattern: string
  /** Which pieces of what the pattern found are the thing. All of it, when this is left out; none: it only looked like it. */
  spans?: (found: string) => Span[]
}

/** A filter that is built in. */
export interface Builtin {
  /** What stands in the place of what was found (wire reference H.2). */
  label: string
  /** What it is called where a call is blocked (wire reference H.6). */
  name: string
  /** What a caller is told whose call is blocked, where that is not the usual. */
  blocked?: string
  /** What finds it in a text that is still coming. */
  patterns: Looking[]
  /** What finds it in a whole text only: it is not looked for in answers. */
  find?: (text: string) => Span[]
}

/** The whole of what was found, or nothing. */
export const wholeIf = (found: string, isIt: boolean): Span[] =>
  isIt ? [{ start: 0, end: found.length }] : []
