/** The operations of instructions. */
export const OP = { fail: 0, either: 1, nothing: 2, between: 3, match: 4, rune: 5 } as const

/**
 * A pattern as instructions. The marks that machines set in a step are kept here, since only one
 * machine steps at a time.
 */
export interface Instructions {
  readonly start: number
  /** The number of its instructions. */
  readonly size: number
  readonly op: Uint8Array
  readonly out: Int32Array
  readonly arg: Int32Array
  readonly visited: Uint32Array
  /** Whether it tests the context of a position: `^`, `$`, `\b`. */
  readonly needsContext: boolean
  readonly canBeginBeyondAscii: boolean
  /** Whether those others are only the long s and the Kelvin sign: letters in either case. */
  readonly beginsWithFolded: boolean
  /** Returns a new number by which a machine marks what it has visited in this step. */
  startVisit(): number
  /** Returns whether this instruction accepts the character. */
  accepts(pc: number, rune: number): boolean
  /** Returns the threads of a match that begins with this ASCII character in this context. */
  getFirstThreads(rune: number, context: number): number[]
}

/** The operations that read no character. */
export const GOES_ON: Record<number, boolean> = {
  [OP.either]: true,
  [OP.nothing]: true,
  [OP.between]: true,
}

/** Naming a state costs so many times as much as running an instruction. */
export const NAMING = 8

/** Stands for the character before the beginning and after the end of a text. */
export const NOTHING = -1
export const ASCII = 128

/**
 * Computes what `^`, `$`, `\b` and the like test between two characters: the bits of RE2's
 * programs.
 */
export function computeContext(before: number, after: number): number {
  const edges = (before === NOTHING ? BEGIN_TEXT : 0) | (after === NOTHING ? END_TEXT : 0)
  const lines =
    (before === NOTHING || before === LINE_FEED ? BEGIN_LINE : 0) |
    (after === NOTHING || after === LINE_FEED ? END_LINE : 0)
  return edges | lines | (isWord(before) === isWord(after) ? NO_WORD_BOUNDARY : WORD_BOUNDARY)
}

const [BEGIN_LINE, END_LINE, BEGIN_TEXT, END_TEXT, WORD_BOUNDARY, NO_WORD_BOUNDARY] = [
  1, 2, 4, 8, 16, 32,
]
const LINE_FEED = 0x0a
const [LETTER, BLANK] = [0x61, 0x20]

const isWord = (code: number) =>
  (code >= 0x61 && code <= 0x7a) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x30 && code <= 0x39) ||
  code === 0x5f

/** One character of each kind that a program can tell apart before a position. */
export const KINDS_BEFORE = [NOTHING, LINE_FEED, LETTER, BLANK]

/** Stands for every character before a position where a program does not ask for it. */
export const ANY_KIND = BLANK

/** Returns the character that stands for the kind of this one. */
export function toKind(rune: number): number {
  if (rune === NOTHING || rune === LINE_FEED) return rune
  return isWord(rune) ? LETTER : BLANK
}
