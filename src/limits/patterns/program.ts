import { RE2JS } from 're2js'
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
import { KnownStates } from './known-states.ts'
import { NOT_KEPT, RuneCache } from './rune-cache.ts'
import { StartStates } from './starts.ts'

/** One instruction as RE2 compiles it. */
interface Instruction {
  op: number
  out: number
  arg: number
  runes: ArrayLike<number>
  matchRune(rune: number): boolean
}

/** A set of characters: of ASCII those marked by 1, and all others or none. */
export interface Alphabet {
  ascii: Uint8Array
  beyondAscii: boolean
}

/** A pattern as RE2 compiles it, in a form that a machine reads quickly. */
export class Program implements Instructions {
  readonly start: number
  readonly op: Uint8Array
  readonly out: Int32Array
  readonly arg: Int32Array
  readonly visited: Uint32Array
  readonly needsContext: boolean
  /** Which of the first 128 characters may begin a match, and whether any other may. */
  readonly canBegin = new Uint8Array(ASCII)
  readonly canBeginBeyondAscii: boolean
  readonly beginsWithFolded: boolean
  readonly #instructions: Instruction[]
  readonly #ascii: Uint8Array
  readonly #firstThreads: (number[] | undefined)[] = []
  #visit = 0

  #automaton: Automaton | undefined
  #knownStates: KnownStates | undefined
  #startStates: StartStates | undefined

  constructor(regex: RE2JS) {
    const { inst: instructions, start } = regex.re2().prog as { inst: Instruction[]; start: number }
    this.start = start
    this.#instructions = instructions
    this.op = Uint8Array.from(instructions, ({ op }) => KINDS[op] ?? OP.fail)
    this.out = Int32Array.from(instructions, ({ out }) => out)
    this.arg = Int32Array.from(instructions, ({ arg }) => arg)
    this.visited = new Uint32Array(instructions.length)
    this.needsContext = this.op.includes(OP.between)
    this.#ascii = new Uint8Array(instructions.length * ASCII)
    this.canBeginBeyondAscii = this.#fillCanBegin()
    this.beginsWithFolded = this.#listFirstInstructions().every(pc =>
      isFolded(this.#instructions[pc]),
    )
  }

  get size(): number {
    return this.op.length
  }

  /** Finds where its matches may be. Made on first use. */
  get automaton(): Automaton {
    this.#automaton ??= new Automaton(this)
    return this.#automaton
  }

  /** What its machines remember. Made on first use, and again when it is full. */
  get knownStates(): KnownStates {
    if (!this.#knownStates || this.#knownStates.isFull) this.#knownStates = new KnownStates(this)
    return this.#knownStates
  }

  /** What is remembered of matches that begin at a given place. Made like `knownStates`. */
  get startStates(): StartStates {
    if (!this.#startStates || this.#startStates.isFull) this.#startStates = new StartStates(this)
    return this.#startStates
  }

  /** Finds out which characters its matches may consist of: those of ASCII, and whether others. */
  listAlphabet(): Alphabet {
    const ascii = new Uint8Array(ASCII)
    let beyondAscii = false
    for (const [pc, op] of this.op.entries()) {
      if (op !== OP.rune) continue
      for (let rune = 0; rune < ASCII; rune++) if (this.accepts(pc, rune)) ascii[rune] = 1
      beyondAscii ||= acceptsBeyondAscii(this.#instructions[pc])
    }
    return { ascii, beyondAscii }
  }

  startVisit(): number {
    this.#visit += 1
    if (this.#visit === LARGEST_VISIT) {
      this.visited.fill(0)
      this.#visit = 1
    }
    return this.#visit
  }

  accepts(pc: number, rune: number): boolean {
    return rune < ASCII ? this.#acceptsAscii(pc, rune) : acceptsRune(this.#instructions[pc], rune)
  }

  /** Returns whether a match may begin with this character, in any context. */
  canBeginWith(rune: number): boolean {
    if (rune < ASCII) return this.canBegin[rune] === 1
    return this.#listFirstInstructions().some(pc => this.accepts(pc, rune))
  }

  getFirstThreads(rune: number, context: number): number[] {
    const name = context * ASCII + rune
    const cached = this.#firstThreads[name]
    if (cached) return cached
    const threads: number[] = []
    this.#fillFirstThreads(this.start, rune, context, threads, new Set())
    this.#firstThreads[name] = threads
    return threads
  }

  #fillFirstThreads(
    pc: number,
    rune: number,
    context: number,
    into: number[],
    seen: Set<number>,
  ): void {
    if (seen.has(pc)) return
    seen.add(pc)
    const [op, out, arg] = [this.op[pc], this.out[pc] ?? 0, this.arg[pc] ?? 0]
    if (op === OP.rune && this.accepts(pc, rune)) into.push(out)
    if (op === OP.nothing || op === OP.either || (op === OP.between && (arg & ~context) === 0))
      this.#fillFirstThreads(out, rune, context, into, seen)
    if (op === OP.either) this.#fillFirstThreads(arg, rune, context, into, seen)
  }

  // Computed on first use: most of a large program is never reached.
  #acceptsAscii(pc: number, rune: number): boolean {
    const at = pc * ASCII + rune
    const known = this.#ascii[at]
    if (known !== UNKNOWN) return known === YES
    const is = acceptsRune(this.#instructions[pc], rune)
    this.#ascii[at] = is ? YES : NO
    return is
  }

  #fillCanBegin(): boolean {
    let beyond = false
    for (const pc of this.#listFirstInstructions()) {
      for (let rune = 0; rune < ASCII; rune++) if (this.accepts(pc, rune)) this.canBegin[rune] = 1
      beyond ||= acceptsBeyondAscii(this.#instructions[pc])
    }
    return beyond
  }

  /** Lists the instructions that may accept the first character of a match, in any context. */
  #listFirstInstructions(): number[] {
    const seen = new Set<number>()
    const waiting = [this.start]
    for (let pc = waiting.pop(); pc !== undefined; pc = waiting.pop()) {
      if (seen.has(pc)) continue
      seen.add(pc)
      const op = this.op[pc]
      if (op === OP.either || op === OP.nothing || op === OP.between)
        waiting.push(this.out[pc] ?? 0)
      if (op === OP.either) waiting.push(this.arg[pc] ?? 0)
    }
    return [...seen].filter(pc => this.op[pc] === OP.rune)
  }
}

/** Compiles a pattern in RE2's syntax. Throws what RE2 throws for an invalid one. */
export const compileProgram = (pattern: string): Program => new Program(RE2JS.compile(pattern))

const [UNKNOWN, YES, NO] = [0, 1, 2]
const LARGEST_VISIT = 0xffff_fffe

// RE2's own numbers (Inst in its source): alternative, capture, empty width, fail, match, nop, and
// four kinds of characters.
const KINDS: Record<number, number> = {
  1: OP.either,
  2: OP.either,
  3: OP.nothing,
  4: OP.between,
  5: OP.fail,
  6: OP.match,
  7: OP.nothing,
  8: OP.rune,
  9: OP.rune,
  10: OP.rune,
  11: OP.rune,
}
const ANY = 10
const ANY_BUT_LINE_FEED = 11

function acceptsRune(instruction: Instruction | undefined, rune: number): boolean {
  if (!instruction) return false
  if (instruction.op === ANY) return true
  return instruction.op === ANY_BUT_LINE_FEED ? rune !== 0x0a : instruction.matchRune(rune)
}

// A letter that is accepted in either case may have a variant outside ASCII: the Kelvin sign is a
// k.
function acceptsBeyondAscii(instruction: Instruction | undefined): boolean {
  if (!instruction) return false
  return (instruction.arg & 1) !== 0 || !isFolded(instruction)
}

/** Tells whether an instruction accepts nothing beyond ASCII but variants of ASCII's letters. */
const isFolded = (instruction: Instruction | undefined): boolean =>
  !instruction ||
  (instruction.op < ANY && Array.from(instruction.runes).every(rune => rune < ASCII))

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

const [UNKNOWN_STATE, MATCHED] = [0, -1]
const CLEAR_STATES = KINDS_BEFORE.length

/**
 * Finds where matches may be, but not where they end: several times as fast as a machine, because
 * the states that it meets are kept.
 */
class Automaton {
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
        if (known <= UNKNOWN_STATE) break
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
    this.#next.fill(UNKNOWN_STATE)
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
