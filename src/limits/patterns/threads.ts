import { ASCII, computeContext, type Instructions, NOTHING, OP } from './instructions.ts'

/** Says that no match ends at a position. */
export const NO_MATCH = -1

/**
 * Everything that may still become a match at a position of a text: the next instruction of each
 * thread, and where it began. In order of preference, so earlier starts come first. Of two that
 * reach the same instruction only the earlier goes on.
 */
export class Threads {
  /** How many instructions ran. */
  steps = 0
  pcs: number[] = []
  starts: number[] = []
  readonly #program: Instructions
  #nextPcs: number[] = []
  #nextStarts: number[] = []
  #position = 0
  /** Starts before this position are inside a match. */
  #cut = 0
  #matched = NO_MATCH

  constructor(program: Instructions) {
    this.#program = program
  }

  /**
   * Advances every thread over this character, which is at this position and follows another, or
   * ends it; and begins new ones. Returns the start of the match that ends before the character.
   */
  step(rune: number, before: number, position: number): number {
    const program = this.#program
    const { pcs, starts } = this
    const context = program.needsContext ? computeContext(before, rune) : 0
    const visit = program.startVisit()
    this.#position = position
    this.#cut = 0
    this.#matched = NO_MATCH
    for (let i = 0; i < pcs.length; i++)
      this.#follow(pcs[i] ?? 0, starts[i] ?? 0, rune, context, visit)
    if (rune >= 0 && rune < ASCII) this.#begin(program.getFirstThreads(rune, context))
    else this.#follow(program.start, position, rune, context, visit)
    this.#swap()
    return this.#matched
  }

  // What a character may begin is cached. A thread that another one has overtaken is dropped in the
  // next step.
  #begin(pcs: number[]): void {
    this.steps += 1 + pcs.length
    for (let i = 0; i < pcs.length; i++) {
      this.#nextPcs.push(pcs[i] ?? 0)
      this.#nextStarts.push(this.#position)
    }
  }

  #swap(): void {
    const { pcs, starts } = this
    this.pcs = this.#nextPcs
    this.starts = this.#nextStarts
    pcs.length = 0
    starts.length = 0
    this.#nextPcs = pcs
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
          if (start < this.#position) this.#endMatch(start)
          return
        case OP.rune:
          if (rune !== NOTHING && this.#program.accepts(pc, rune)) {
            this.#nextPcs.push(out[pc] ?? 0)
            this.#nextStarts.push(start)
          }
          return
        default:
          return
      }
    }
  }

  /** Threads that are less preferred, and those that begin within the match, end with it. */
  #endMatch(start: number): void {
    this.#matched = start
    this.#cut = this.#position
  }
}
