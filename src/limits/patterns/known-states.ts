import { ANY_KIND, ASCII, type Instructions, KINDS_BEFORE, NAMING, toKind } from './instructions.ts'
import { NOT_KEPT, RuneCache } from './rune-cache.ts'
import { NO_MATCH, Threads } from './threads.ts'

/**
 * Threads without the places at which they began: of those only the order counts. The first of a
 * machine's starts has rank 0.
 */
interface KnownState {
  pcs: number[]
  ranks: number[]
  startCount: number
  /** The kind of the character before. */
  before: number
}

/** What a character does to a machine, where that is more than another state. */
export interface Edge {
  to: number
  /** The rank of the start whose match ends before the character. */
  matched: number
  /** The ranks of the starts that go on. One that is not yet a rank begins at the character. */
  starts: number[]
}

/** A state costs 256 bytes and an edge about a hundred. When there are too many, all are dropped. */
const MOST_STATES = 1_024
const MOST_EDGES = 4_096
/** A machine with more threads than this is in the same state but rarely. */
const MOST_THREADS = 128

/** A state without threads: there is one for each kind of character before. */
export const CLEAR_STATES = KINDS_BEFORE.length

/** Says that it is not known yet what a character does in a state. */
export const UNKNOWN = 0

/**
 * Remembers what characters do to the machines of a program: what a machine does next depends on
 * its threads, on the order of their starts and on the character alone. So it runs a few hundred
 * million characters a second where it would run ten million.
 */
export class KnownStates {
  /** What learning has cost, in instructions. */
  steps = 0
  /**
   * What a character of ASCII does, by state and character: the number of the next state plus one,
   * or of an edge as `~index`.
   */
  next = new Int16Array(16 * ASCII)
  readonly edges: Edge[] = []
  readonly #program: Instructions
  readonly #threads: Threads
  readonly #states: KnownState[] = []
  readonly #byName = new Map<string, number>()
  readonly #beyondAscii = new RuneCache()

  constructor(program: Instructions) {
    this.#program = program
    this.#threads = new Threads(program)
    for (const before of KINDS_BEFORE) this.#intern({ pcs: [], ranks: [], startCount: 0, before })
  }

  /** Whether others must take its place before a machine learns more. */
  get isFull(): boolean {
    return this.#states.length >= MOST_STATES || this.edges.length >= MOST_EDGES
  }

  /** Returns the state without threads after this character. */
  findClear(before: number): number {
    return KINDS_BEFORE.indexOf(this.#toKind(before))
  }

  getState(state: number): KnownState {
    return this.#states[state] as KnownState
  }

  /**
   * Finds the state of these threads after this character, and the starts that they have in it.
   * Returns null if they are too many.
   */
  enter(pcs: number[], starts: number[], last: number): { state: number; starts: number[] } | null {
    const known: KnownState = { pcs: [], ranks: [], startCount: 0, before: this.#toKind(last) }
    const ofKnown: number[] = []
    const seen = new Set<number>()
    for (const [i, pc] of pcs.entries()) {
      if (seen.has(pc)) continue
      seen.add(pc)
      const start = starts[i] as number
      if (ofKnown.at(-1) !== start) ofKnown.push(start)
      known.pcs.push(pc)
      known.ranks.push(ofKnown.length - 1)
    }
    if (seen.size > MOST_THREADS) return null
    known.startCount = ofKnown.length
    return { state: this.#intern(known), starts: ofKnown }
  }

  /** Finds what a character does in a state, as `next` has it; UNKNOWN if too much comes of it. */
  learn(state: number, rune: number): number {
    if (rune < ASCII) {
      const next = this.#compute(state, rune)
      this.next[state * ASCII + rune] = next
      return next
    }
    const known = this.#beyondAscii.find(state, rune)
    if (known !== NOT_KEPT) return known
    const next = this.#compute(state, rune)
    this.#beyondAscii.keep(state, rune, next)
    return next
  }

  #compute(state: number, rune: number): number {
    const threads = this.#threads
    const { pcs, ranks, startCount, before } = this.getState(state)
    const stepsBefore = threads.steps
    threads.pcs = [...pcs]
    threads.starts = [...ranks]
    const matched = threads.step(rune, before, startCount)
    const entered = this.enter(threads.pcs, threads.starts, rune)
    this.steps += threads.steps - stepsBefore + NAMING * threads.pcs.length
    if (!entered) return UNKNOWN
    const { state: to, starts } = entered
    const isSame = starts.length === startCount && starts.every((rank, i) => rank === i)
    if (isSame && matched === NO_MATCH) return to + 1
    return ~(this.edges.push({ to, matched, starts }) - 1)
  }

  #intern(state: KnownState): number {
    const name = `${state.before},${state.pcs.join()},${state.ranks.join()}`
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
