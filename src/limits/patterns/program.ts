import { RE2JS } from 're2js'
import { Automaton } from './automaton.ts'
import { ASCII, type Instructions, OP } from './instructions.ts'
import { KnownStates } from './known-states.ts'
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
