import type { Work } from '../../base/turns.ts'
import {
  ANY_KIND,
  ASCII,
  computeContext,
  GOES_ON,
  type Instructions,
  KINDS_BEFORE,
  NAMING,
  NOTHING,
  OP,
  toKind,
} from './instructions.ts'
import { NOT_KEPT, RuneCache } from './rune-cache.ts'

/** A set of instructions that wait for the next character, and what kind of character was last. */
interface State {
  threads: number[]
  before: number
}

/** After this many characters others may have their turn, and after this many new states. */
const SLICE = 16_384
const MOST_WORK = 50_000
/** A state costs 256 bytes. When there are too many, all are forgotten. */
const MOST_STATES = 512
/** A search that meets this many new states is left to a machine. */
const MOST_CREATED = 2 * MOST_STATES

/** What a search came to. */
interface AutomatonResult {
  clearUntil: number
  isCandidate: boolean
}

const [UNKNOWN, MATCHED] = [0, -1]
const CLEAR_STATES = KINDS_BEFORE.length

/**
 * Finds where matches may be, but not where they end: several times as fast as a machine, because
 * the states that it meets are kept.
 */
export class Automaton {
  /** What entering new states has cost, in instructions. */
  steps = 0
  readonly #program: Instructions
  /** The first four have no threads. */
  #states: State[] = []
  #byName = new Map<string, number>()
  /** The number of the next state plus one, by state and ASCII character. */
  #next = new Int16Array(0)
  readonly #beyondAscii = new RuneCache()
  #clearUntil = 0
  #reached = 0
  #created = 0
  #isMatched = false

  constructor(program: Instructions) {
    this.#program = program
    this.#forgetStates()
  }

  /**
   * Finds a position at or after `from` from which a machine finds the first match. No match spans
   * it. There may be none after it; null means that there is none.
   */
  *findCandidate(text: string, from: number): Work<number | null> {
    const { clearUntil, isCandidate } = yield* this.search(text, from)
    return isCandidate ? clearUntil : null
  }

  /**
   * Reads a text until it knows where a match may be. Returns the last position that no match
   * spans, and whether a machine must read on from there. Unless `isLast`, the text may go on.
   */
  *search(text: string, from: number, isLast = true): Work<AutomatonResult> {
    this.#clearUntil = from
    let state = this.#enter([], from === 0 ? NOTHING : text.charCodeAt(from - 1))
    const mostCreated = this.#created + MOST_CREATED
    for (let i = from; i < text.length; ) {
      const workEnd = this.steps + MOST_WORK
      const sliceEnd = Math.min(i + SLICE, text.length)
      while (i < sliceEnd && this.steps < workEnd) {
        i = this.#runKnown(text, i, sliceEnd, state)
        state = this.#reached
        if (i >= sliceEnd) break
        const rune = text.codePointAt(i) ?? 0
        if (this.#states.length >= MOST_STATES) state = this.#makeRoom(state)
        const next = rune < ASCII ? this.#learn(state, rune) : this.#findBeyondAscii(state, rune)
        if (next === MATCHED || this.#created > mostCreated)
          return { clearUntil: this.#clearUntil, isCandidate: true }
        state = next - 1
        i += rune > 0xffff ? 2 : 1
      }
      const current = this.#states[state]
      const [states, clearUntil] = [this.#states, this.#clearUntil]
      yield
      // Another search may have been here, and may have forgotten the states.
      this.#clearUntil = clearUntil
      if (current && states !== this.#states) state = this.#enter(current.threads, current.before)
    }
    if (state < CLEAR_STATES) this.#clearUntil = text.length
    const isCandidate = isLast && this.#step(state, NOTHING) === MATCHED
    return { clearUntil: this.#clearUntil, isCandidate }
  }

  /**
   * Follows transitions that are known, which most are: this loop sees nearly every character.
   * Returns where it stopped; the state there is `#reached`.
   */
  #runKnown(text: string, from: number, to: number, first: number): number {
    const next = this.#next
    const isAsciiFirst = this.#program.beginsWithFolded
    let state = first
    let clearUntil = this.#clearUntil
    let i = from
    for (; i < to; i++) {
      if (state < CLEAR_STATES) clearUntil = i
      const code = text.charCodeAt(i)
      if (code < ASCII) {
        const known = next[state * ASCII + code] as number
        if (known <= UNKNOWN) break
        state = known - 1
      } else {
        // Beyond ASCII there are no letters for a word boundary.
        if (!isAsciiFirst || state >= CLEAR_STATES || isSurrogate(code) || isLetter(code)) break
        state = CLEAR_STATES - 1
      }
    }
    this.#clearUntil = clearUntil
    this.#reached = state
    return i
  }

  /** Forgets all states but this one, and returns its new number. */
  #makeRoom(state: number): number {
    const { threads, before } = this.#states[state] ?? { threads: [], before: NOTHING }
    this.#forgetStates()
    return this.#enter(threads, before)
  }

  #forgetStates(): void {
    this.#states = []
    this.#byName.clear()
    this.#beyondAscii.clear()
    this.#next.fill(UNKNOWN)
    for (const before of KINDS_BEFORE) this.#add(`${before}`, { threads: [], before })
  }

  #learn(state: number, rune: number): number {
    const next = this.#step(state, rune)
    this.#next[state * ASCII + rune] = next
    return next
  }

  #findBeyondAscii(state: number, rune: number): number {
    if (state < CLEAR_STATES && !this.#program.canBeginBeyondAscii) return CLEAR_STATES
    const known = this.#beyondAscii.find(state, rune)
    if (known !== NOT_KEPT) return known
    const next = this.#step(state, rune)
    this.#beyondAscii.keep(state, rune, next)
    return next
  }

  /** Reads a character: returns the number of the next state plus one, or `MATCHED`. */
  #step(state: number, rune: number): number {
    const { threads, before } = this.#states[state] ?? { threads: [], before: NOTHING }
    const context = this.#program.needsContext ? computeContext(before, rune) : 0
    const visit = this.#program.startVisit()
    const next: number[] = []
    this.#isMatched = false
    for (const pc of threads) this.#follow(pc, rune, context, visit, next)
    if (this.#isMatched) return MATCHED
    this.#follow(this.#program.start, rune, context, visit, next)
    return this.#enter(next, rune) + 1
  }

  #follow(at: number, rune: number, context: number, visit: number, next: number[]): void {
    const { op, out, arg, visited } = this.#program
    for (let pc = at; visited[pc] !== visit; ) {
      visited[pc] = visit
      this.steps += 1
      const kind = op[pc]
      if (kind === OP.match) this.#isMatched = true
      if (kind === OP.rune && rune !== NOTHING && this.#program.accepts(pc, rune))
        next.push(out[pc] ?? 0)
      if (kind === OP.between ? ((arg[pc] ?? 0) & ~context) !== 0 : !GOES_ON[kind ?? 0]) return
      if (kind === OP.either) this.#follow(arg[pc] ?? 0, rune, context, visit, next)
      pc = out[pc] ?? 0
    }
  }

  #enter(pending: number[], last: number): number {
    if (pending.length === 0) return findClearState(this.#program.needsContext ? last : ANY_KIND)
    // Naming a state costs several times as much as reading its instructions.
    this.steps += NAMING * pending.length
    const threads = [...new Set(pending)].toSorted((a, b) => a - b)
    const before = this.#program.needsContext ? toKind(last) : ANY_KIND
    const name = [before, ...threads].join(' ')
    return this.#byName.get(name) ?? this.#add(name, { threads, before })
  }

  #add(name: string, state: State): number {
    const number = this.#states.push(state) - 1
    this.#byName.set(name, number)
    this.#created += 1
    if (this.#next.length < this.#states.length * ASCII) this.#grow()
    return number
  }

  #grow(): void {
    const next = new Int16Array(Math.max(16 * ASCII, 2 * this.#next.length))
    next.set(this.#next)
    this.#next = next
  }
}

/** Tells whether this is a variant of a letter of ASCII: the long s, the Kelvin sign. */
const isLetter = (code: number): boolean => code === 0x17f || code === 0x212a

const isSurrogate = (code: number): boolean => (code & 0xf800) === 0xd800

/** Finds the state without threads after this character. */
const findClearState = (last: number): number => KINDS_BEFORE.indexOf(toKind(last))
