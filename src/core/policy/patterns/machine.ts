import type { Program } from './program.ts'

/** A part of a text, from `start` to before `end`, in UTF-16 units. */
export interface Span {
  start: number
  end: number
}

/** Is called for each match, in the order of their starts. */
export type OnMatch = (start: number, end: number) => void

/**
 * Reads one text and reports every match of a pattern in it, however the text is cut. It finds what
 * a search that restarts after each match would find (leftmost first, as JavaScript prefers; no
 * empty matches), but reads each character once.
 *
 * All starts are followed at the same time, and of two that reach the same state only the earlier
 * goes on. So the work for a character never exceeds the size of the program. A search that
 * restarts takes quadratic time in the text where long matches almost succeed.
 */
export class Machine {
  /** How many instructions ran: the cost of the text. */
  steps = 0
  readonly #program: Program
  readonly #onMatch: OnMatch
  readonly #patience: number
  /**
   * Threads that may still match: their next instruction, and where they began. In order of
   * preference, so earlier starts come first.
   */
  #threads: number[] = []
  #starts: number[] = []
  #nextThreads: number[] = []
  #nextStarts: number[] = []
  /**
   * Matches that an earlier start may still include, or that a better one from the same start may
   * replace.
   */
  #candidates: Span[] = []
  #position = 0
  #before = NOTHING
  #high = NOTHING
  /** Starts before this position are inside a match. */
  #cut = 0

  /**
   * Reports a match that began more than `patience` units ago although a longer one may still come.
   */
  constructor(program: Program, onMatch: OnMatch, patience = Number.POSITIVE_INFINITY) {
    this.#program = program
    this.#onMatch = onMatch
    this.#patience = patience
  }

  /**
   * The start of the earliest possible match that is still open; the end of what was read if there
   * is none.
   */
  get earliestOpen(): number {
    return Math.min(this.#starts[0] ?? this.#position, this.#candidates[0]?.start ?? this.#position)
  }

  /** Returns a machine that has read the same and reports to another place. */
  fork(onMatch: OnMatch): Machine {
    const other = new Machine(this.#program, onMatch, this.#patience)
    other.#threads = [...this.#threads]
    other.#starts = [...this.#starts]
    other.#candidates = [...this.#candidates]
    other.#position = this.#position
    other.#before = this.#before
    other.#high = this.#high
    other.#cut = this.#cut
    return other
  }

  /** Reads more text. */
  feed(text: string): void {
    const { canBegin, canBeginBeyondAscii } = this.#program
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      // Most of a text cannot begin a match and is skipped.
      if (
        this.#threads.length === 0 &&
        this.#high === NOTHING &&
        (code < ASCII ? canBegin[code] === 0 : !canBeginBeyondAscii)
      ) {
        this.#before = code
        this.#position += 1
      } else this.#readUnit(code)
    }
  }

  /** Moves a machine that is idle to another position of its text, after this character. */
  jumpTo(position: number, before: number): void {
    this.#position = position
    this.#before = before
  }

  /**
   * Reads a part of a text until nothing is open, or until it has taken this many steps. Returns
   * how far it has read, at least one unit.
   */
  readUntilIdle(text: string, from: number, to: number, steps: number): number {
    const last = this.steps + steps
    let i = from
    do this.#readUnit(text.charCodeAt(i++))
    while (i < to && this.steps < last && !this.isIdle)
    return i
  }

  /** Whether nothing that it has read may become part of a match. */
  get isIdle(): boolean {
    return this.#threads.length === 0 && this.#high === NOTHING && this.#candidates.length === 0
  }

  /** Ends the text. */
  end(): void {
    if (this.#high !== NOTHING) this.#readRune(this.#high, 1)
    this.#high = NOTHING
    this.#step(NOTHING)
  }

  // The two halves of a surrogate pair may come in two pieces.
  #readUnit(code: number): void {
    const high = this.#high
    this.#high = NOTHING
    const isWhole = high !== NOTHING && isLow(code)
    if (high !== NOTHING && !isWhole) this.#readRune(high, 1)
    if (isWhole) this.#readRune(((high - 0xd800) << 10) + (code - 0xdc00) + 0x10000, 2)
    else if (isHigh(code)) this.#high = code
    else this.#readRune(code, 1)
  }

  #readRune(rune: number, width: number): void {
    this.#step(rune)
    this.#position += width
    this.#before = rune
  }

  /** Advances every thread over this character, which is the next one, or ends it. */
  #step(rune: number): void {
    const program = this.#program
    const threads = this.#threads
    const starts = this.#starts
    const context = program.needsContext ? computeContext(this.#before, rune) : 0
    const visit = program.startVisit()
    this.#cut = 0
    for (let i = 0; i < threads.length; i++)
      this.#follow(threads[i] ?? 0, starts[i] ?? 0, rune, context, visit)
    if (rune >= 0 && rune < ASCII) this.#beginThreads(program.getFirstThreads(rune, context))
    else this.#follow(program.start, this.#position, rune, context, visit)
    this.#swapThreads()
    if (this.#candidates.length > 0) this.#reportSettled()
  }

  // What a character may begin is cached. A thread that another one has overtaken is dropped in the
  // next step.
  #beginThreads(threads: number[]): void {
    this.steps += 1 + threads.length
    for (let i = 0; i < threads.length; i++) {
      this.#nextThreads.push(threads[i] ?? 0)
      this.#nextStarts.push(this.#position)
    }
  }

  #swapThreads(): void {
    const threads = this.#threads
    const starts = this.#starts
    this.#threads = this.#nextThreads
    this.#starts = this.#nextStarts
    threads.length = 0
    starts.length = 0
    this.#nextThreads = threads
    this.#nextStarts = starts
  }

  #follow(at: number, start: number, rune: number, context: number, visit: number): void {
    const { op, out, arg, visited } = this.#program
    for (let pc = at; ; ) {
      if (start < this.#cut || visited[pc] === visit) return
      visited[pc] = visit
      this.steps += 1
      switch (op[pc]) {
        case OP.either:
          this.#follow(out[pc] ?? 0, start, rune, context, visit)
          pc = arg[pc] ?? 0
          continue
        case OP.nothing:
          pc = out[pc] ?? 0
          continue
        case OP.between:
          if (((arg[pc] ?? 0) & ~context) !== 0) return
          pc = out[pc] ?? 0
          continue
        case OP.match:
          if (start < this.#position) this.#addCandidate(start)
          return
        case OP.rune:
          if (rune !== NOTHING && this.#program.accepts(pc, rune)) {
            this.#nextThreads.push(out[pc] ?? 0)
            this.#nextStarts.push(start)
          }
          return
        default:
          return
      }
    }
  }

  // Drops less preferred matches from the same start, and those that begin inside.
  #addCandidate(start: number): void {
    const candidates = this.#candidates
    for (let last = candidates.at(-1); last && last.start >= start; last = candidates.at(-1))
      candidates.pop()
    candidates.push({ start, end: this.#position })
    this.#cut = this.#position
  }

  #reportSettled(): void {
    const earliest = this.#starts[0] ?? Number.POSITIVE_INFINITY
    const late = this.#position - this.#patience
    let settled = 0
    for (const { start, end } of this.#candidates) {
      if (start >= earliest && start >= late) break
      settled += 1
      this.#onMatch(start, end)
    }
    if (settled > 0) this.#candidates = this.#candidates.slice(settled)
  }
}

/** The operations of instructions. */
export const OP = { fail: 0, either: 1, nothing: 2, between: 3, match: 4, rune: 5 } as const

/** Stands for the character before the beginning and after the end of a text. */
export const NOTHING = -1
export const ASCII = 128

const isHigh = (code: number) => code >= 0xd800 && code < 0xdc00
const isLow = (code: number) => code >= 0xdc00 && code < 0xe000

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
export const LINE_FEED = 0x0a

export const isWord = (code: number) =>
  (code >= 0x61 && code <= 0x7a) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x30 && code <= 0x39) ||
  code === 0x5f
