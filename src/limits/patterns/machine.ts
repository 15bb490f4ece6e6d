import { ASCII, NOTHING } from './instructions.ts'
import { CLEAR_STATES, type Edge, type KnownStates, UNKNOWN } from './known-states.ts'
import type { Program } from './program.ts'
import { NO_MATCH, Threads } from './threads.ts'

/** A part of a text, from `start` to before `end`, in UTF-16 units. */
export interface Span {
  start: number
  end: number
}

/** Is called for each match, in the order of their starts. */
export type OnMatch = (start: number, end: number) => void

/** A match costs others so much time that a slice ends after a thousand. */
const MATCH_STEPS = 64
/** So much is read before it is asked whether anything is open. */
const CHUNK = 128

/** A machine that learns more than this beyond what it reads stops to remember for a while. */
const MOST_DEBT = 8_192
const LEARNING = 32
const WHILE = 16_384

/**
 * Reads one text and reports every match of a pattern in it, however the text is cut. It finds what
 * a search that restarts after each match would find (leftmost first, as JavaScript prefers; no
 * empty matches), but reads each character once.
 *
 * All starts are followed at the same time, and of two that reach the same state only the earlier
 * goes on. So the work for a character never exceeds the size of the program. A search that
 * restarts takes quadratic time in the text where long matches almost succeed.
 *
 * What characters do is remembered with the program, so that most of a text takes one look-up for
 * each character. Where a text brings something new again and again, threads are run instead.
 */
export class Machine {
  readonly #program: Program
  readonly #onMatch: OnMatch
  readonly #patience: number
  readonly #threads: Threads
  #known: KnownStates
  /** What it is in, of the known states; null while it runs threads. */
  #state: number | null
  /** Where the threads of the state began. */
  #starts: number[] = []
  #spareStarts: number[] = []
  /** How much has been learnt beyond what has been read; while threads run, how long they will. */
  #debt = 0
  #steps = 0
  /**
   * Matches that an earlier start may still include, or that a better one from the same start may
   * replace.
   */
  #candidates: Span[] = []
  #position = 0
  #before = NOTHING
  #high = NOTHING

  /**
   * Reports a match that began more than `patience` units ago although a longer one may still come.
   */
  constructor(program: Program, onMatch: OnMatch, patience = Number.POSITIVE_INFINITY) {
    this.#program = program
    this.#onMatch = onMatch
    this.#patience = patience
    this.#threads = new Threads(program)
    this.#known = program.knownStates
    this.#state = this.#known.findClear(NOTHING)
  }

  /** How many instructions ran, and how many characters were looked up: the cost of the text. */
  get steps(): number {
    return this.#steps + this.#threads.steps
  }

  /**
   * The start of the earliest possible match that is still open; the end of what was read if there
   * is none.
   */
  get earliestOpen(): number {
    return Math.min(
      this.#earliestStart ?? this.#position,
      this.#candidates[0]?.start ?? this.#position,
    )
  }

  get #earliestStart(): number | undefined {
    return this.#state === null ? this.#threads.starts[0] : this.#starts[0]
  }

  /** Returns a machine that has read the same and reports to another place. */
  fork(onMatch: OnMatch): Machine {
    const other = new Machine(this.#program, onMatch, this.#patience)
    other.#threads.pcs = [...this.#threads.pcs]
    other.#threads.starts = [...this.#threads.starts]
    other.#known = this.#known
    other.#state = this.#state
    other.#starts = [...this.#starts]
    other.#debt = this.#debt
    other.#candidates = this.#candidates.map(candidate => ({ ...candidate }))
    other.#position = this.#position
    other.#before = this.#before
    other.#high = this.#high
    return other
  }

  /** Reads more text. */
  feed(text: string): void {
    for (let i = 0; i < text.length; ) i = this.#read(text, i, text.length)
  }

  /** Moves a machine that is idle to another position of its text, after this character. */
  jumpTo(position: number, before: number): void {
    this.#position = position
    this.#before = before
    if (this.#state !== null) this.#state = this.#known.findClear(before)
  }

  /**
   * Reads a part of a text until nothing is open, or until it has taken this many steps. Returns
   * how far it has read, at least one unit.
   */
  readUntilIdle(text: string, from: number, to: number, steps: number): number {
    const last = this.steps + steps
    let i = from
    do i = this.#read(text, i, Math.min(to, i + CHUNK))
    while (i < to && this.steps < last && !this.isIdle)
    return i
  }

  /** Whether nothing that it has read may become part of a match. */
  get isIdle(): boolean {
    return (
      this.#high === NOTHING &&
      this.#candidates.length === 0 &&
      (this.#state === null ? this.#threads.pcs.length === 0 : this.#state < CLEAR_STATES)
    )
  }

  /** Ends the text. */
  end(): void {
    if (this.#high !== NOTHING) this.#readRune(this.#high, 1)
    this.#high = NOTHING
    this.#runThreads(0)
    this.#step(NOTHING)
  }

  /** Reads at least one unit, and as far as is known what it does. Returns how far. */
  #read(text: string, from: number, to: number): number {
    if (this.#state === null) return this.#skip(text, from, to)
    if (this.#high !== NOTHING) {
      this.#readUnit(text.charCodeAt(from))
      return from + 1
    }
    const reached = this.#lookUp(text, from, this.#findSettling(from, to))
    if (reached > from) return reached
    this.#readUnit(text.charCodeAt(from))
    return from + 1
  }

  /** Finds before which unit a match has to be reported that is open for too long. */
  #findSettling(from: number, to: number): number {
    const first = this.#candidates[0]
    if (!first || this.#patience === Number.POSITIVE_INFINITY) return to
    return Math.min(to, Math.max(from, from + first.start + this.#patience - this.#position))
  }

  /** Reads characters of ASCII as long as it is known what they do: nearly every character. */
  #lookUp(text: string, from: number, until: number): number {
    let to = until
    const { next, edges } = this.#known
    let state = this.#state as number
    let i = from
    let counted = from
    for (; i < to; i++) {
      const code = text.charCodeAt(i)
      if (code >= ASCII) break
      const known = next[state * ASCII + code] as number
      if (known > UNKNOWN) state = known - 1
      else {
        if (known === UNKNOWN) break
        this.#moveBy(text, i, i - counted)
        counted = i
        this.#cross(edges[~known] as Edge)
        state = this.#state as number
        // A match that is open now may have to be reported before its end.
        if (this.#patience !== Number.POSITIVE_INFINITY) to = Math.min(to, i + 1)
      }
    }
    this.#state = state
    this.#moveBy(text, i, i - counted)
    this.#debt = Math.max(0, this.#debt - (i - from))
    return i
  }

  /** Counts units that were read, of which the last is the one before this offset. */
  #moveBy(text: string, offset: number, count: number): void {
    if (count === 0) return
    this.#position += count
    this.#steps += count
    this.#before = text.charCodeAt(offset - 1)
  }

  /** Goes on in another state: with a match that ends here, and with other starts. */
  #cross({ to, matched, starts }: Edge): void {
    const before = this.#starts
    if (matched !== NO_MATCH) this.#addCandidate(before[matched] as number)
    const after = this.#spareStarts
    after.length = 0
    for (let i = 0; i < starts.length; i++)
      after.push(before[starts[i] as number] ?? this.#position)
    this.#starts = after
    this.#spareStarts = before
    this.#state = to
    if (this.#candidates.length > 0) this.#reportSettled()
  }

  /** Skips what cannot begin a match while no thread runs: most of a text. */
  #skip(text: string, from: number, to: number): number {
    const { canBegin, canBeginBeyondAscii } = this.#program
    let i = from
    for (; i < to && this.#threads.pcs.length === 0 && this.#high === NOTHING; i++) {
      const code = text.charCodeAt(i)
      if (code < ASCII ? canBegin[code] !== 0 : canBeginBeyondAscii) break
      if (this.#candidates.length > 0) break
    }
    if (i > from) {
      this.#position += i - from
      this.#before = text.charCodeAt(i - 1)
      return i
    }
    this.#readUnit(text.charCodeAt(from))
    return from + 1
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
    if (this.#state !== null && this.#known.isFull) this.#leaveFull()
    if (this.#state === null) this.#step(rune)
    else this.#learn(this.#state, rune)
    this.#position += width
    this.#before = rune
    if (this.#state === null && --this.#debt <= 0) this.#runKnown()
  }

  /** Reads a character of which it may not be known what it does. */
  #learn(state: number, rune: number): void {
    const stepsBefore = this.#known.steps
    const next = this.#known.learn(state, rune)
    const cost = this.#known.steps - stepsBefore
    this.#steps += 1 + cost
    if (cost > 0) this.#debt += LEARNING
    if (next === UNKNOWN || this.#debt > MOST_DEBT) {
      this.#runThreads(WHILE)
      this.#step(rune)
    } else if (next < UNKNOWN) this.#cross(this.#known.edges[~next] as Edge)
    else {
      this.#state = next - 1
      if (this.#candidates.length > 0) this.#reportSettled()
    }
  }

  /** Goes on with other known states, where there is room for more. */
  #leaveFull(): void {
    this.#runThreads(0)
    this.#runKnown()
  }

  /** Runs threads from now on, for so many characters. */
  #runThreads(debt: number): void {
    if (this.#state === null) return
    const { pcs, ranks } = this.#known.getState(this.#state)
    this.#threads.pcs = [...pcs]
    this.#threads.starts = ranks.map(rank => this.#starts[rank] as number)
    this.#state = null
    this.#debt = debt
  }

  /** Goes on with known states, if the threads are not too many. */
  #runKnown(): void {
    this.#known = this.#program.knownStates
    const { pcs, starts } = this.#threads
    const entered = this.#known.enter(pcs, starts, this.#before)
    this.#debt = entered ? MOST_DEBT / 2 : WHILE
    if (!entered) return
    this.#state = entered.state
    this.#starts = entered.starts
  }

  /** Advances every thread over this character, which is the next one, or ends it. */
  #step(rune: number): void {
    const matched = this.#threads.step(rune, this.#before, this.#position)
    if (matched !== NO_MATCH) this.#addCandidate(matched)
    if (this.#candidates.length > 0) this.#reportSettled()
  }

  // Drops less preferred matches from the same start, and those that begin inside.
  #addCandidate(start: number): void {
    const candidates = this.#candidates
    let last = candidates[candidates.length - 1]
    for (; last && last.start > start; last = candidates[candidates.length - 1]) candidates.pop()
    if (last?.start === start) last.end = this.#position
    else candidates.push({ start, end: this.#position })
  }

  #reportSettled(): void {
    const earliest = this.#earliestStart ?? Number.POSITIVE_INFINITY
    const late = this.#position - this.#patience
    const candidates = this.#candidates
    let settled = 0
    for (; settled < candidates.length; settled++) {
      const { start, end } = candidates[settled] as Span
      if (start >= earliest && start >= late) break
      this.#onMatch(start, end)
    }
    this.#steps += MATCH_STEPS * settled
    if (settled === candidates.length) candidates.length = 0
    else if (settled > 0) this.#candidates = candidates.slice(settled)
  }
}

const isHigh = (code: number) => code >= 0xd800 && code < 0xdc00
const isLow = (code: number) => code >= 0xdc00 && code < 0xe000
