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

/** What may follow a place at which a match has begun: instructions in order of preference. */
interface State {
  pcs: number[]
  before: number
  /** Whether nothing has been read: a match that ends here would be empty. */
  isFirst: boolean
}

/** A state costs 256 bytes. When there are too many, others take their place. */
const MOST_STATES = 1_024

/** Says that it is not known yet what a character does in a state. */
export const UNKNOWN = 0
/** The state in which no longer match can come. */
export const DEAD = 1

/**
 * Remembers what characters do to a match that begins at one given place. That is less than what a
 * machine must know, which follows all places at the same time: a state is a number, and a character
 * takes one look-up.
 */
export class StartStates {
  /** What learning has cost, in instructions. */
  steps = 0
  /**
   * What a character of ASCII does, by state and character: the number of the next state, which is
   * negative where a match ends before the character.
   */
  next = new Int16Array(16 * ASCII)
  readonly #program: Instructions
  readonly #states: State[] = []
  readonly #byName = new Map<string, number>()
  readonly #ends: (boolean | undefined)[] = []
  /** The state at the beginning of a match, by the character of ASCII before it. */
  readonly firsts: Int16Array
  readonly #firsts: number[]
  readonly #beyondAscii = new RuneCache()
  #isMatched = false

  constructor(program: Instructions) {
    this.#program = program
    const none = { pcs: [], before: ANY_KIND, isFirst: false }
    this.#states.push(none, none)
    this.#firsts = KINDS_BEFORE.map(before =>
      this.#intern({ pcs: [program.start], before, isFirst: true }),
    )
    this.firsts = Int16Array.from({ length: ASCII }, (_, code) => this.findFirst(code))
  }

  /** Whether others must take its place before more is learnt. */
  get isFull(): boolean {
    return this.#states.length >= MOST_STATES
  }

  /** Returns the state at the beginning of a match, after this character. */
  findFirst(before: number): number {
    return this.#firsts[KINDS_BEFORE.indexOf(this.#toKind(before))] as number
  }

  /** Finds what a character does in a state, as `next` has it. */
  learn(state: number, rune: number): number {
    if (rune >= ASCII) return this.#findBeyondAscii(state, rune)
    const next = this.#compute(state, rune)
    this.next[state * ASCII + rune] = next
    return next
  }

  /** Tells whether a match ends in this state where the text does. */
  endsText(state: number): boolean {
    this.#ends[state] ??= this.#compute(state, NOTHING) < 0
    return this.#ends[state] === true
  }

  #findBeyondAscii(state: number, rune: number): number {
    const known = this.#beyondAscii.find(state, rune)
    if (known !== NOT_KEPT) return known
    const next = this.#compute(state, rune)
    this.#beyondAscii.keep(state, rune, next)
    return next
  }

  #compute(state: number, rune: number): number {
    const { pcs, before, isFirst } = this.#states[state] as State
    const context = this.#program.needsContext ? computeContext(before, rune) : 0
    const visit = this.#program.startVisit()
    const next: number[] = []
    this.#isMatched = false
    for (const pc of pcs) this.#follow(pc, rune, context, visit, next, isFirst)
    const to = this.#enter(next, rune)
    return this.#isMatched ? -to : to
  }

  // What is less preferred than a match ends with it.
  #follow(
    at: number,
    rune: number,
    context: number,
    visit: number,
    next: number[],
    isFirst: boolean,
  ): void {
    const { op, out, arg, visited } = this.#program
    for (let pc = at; !this.#isMatched && visited[pc] !== visit; ) {
      visited[pc] = visit
      this.steps += 1
      const kind = op[pc]
      if (kind === OP.match && !isFirst) this.#isMatched = true
      if (kind === OP.rune && rune !== NOTHING && this.#program.accepts(pc, rune))
        next.push(out[pc] ?? 0)
      if (kind === OP.between ? ((arg[pc] ?? 0) & ~context) !== 0 : !GOES_ON[kind ?? 0]) return
      if (kind === OP.either) {
        this.#follow(out[pc] ?? 0, rune, context, visit, next, isFirst)
        pc = arg[pc] ?? 0
      } else pc = out[pc] ?? 0
    }
  }

  #enter(pcs: number[], last: number): number {
    if (pcs.length === 0) return DEAD
    this.steps += NAMING * pcs.length
    return this.#intern({ pcs: [...new Set(pcs)], before: this.#toKind(last), isFirst: false })
  }

  #intern(state: State): number {
    const name = `${state.isFirst},${state.before},${state.pcs.join()}`
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const number = this.#states.push(state) - 1
    this.#byName.set(name, number)
    if (this.next.length < this.#states.length * ASCII) this.#grow()
    return number
  }

  #grow(): void {
    const next = new Int16Array(2 * this.next.length)
    next.set(this.next)
    this.next = next
  }

  #toKind(rune: number): number {
    return this.#program.needsContext ? toKind(rune) : ANY_KIND
  }
}
