import type { Work } from '../../base/turns.ts'
import { NOTHING } from './instructions.ts'
import { Machine, type OnMatch } from './machine.ts'
import type { Program } from './program.ts'
import { type Anchor, StartSearch } from './start-search.ts'

/** After this many instructions others may have their turn: about a millisecond. */
const MOST_STEPS = 50_000

/** A text that may go on is kept this far back at most: a machine reads what is open longer. */
const MOST_KEPT = 4_096

/**
 * Finds every match of a program in a whole text: those that a machine finds, in the same order.
 * The machine reads only around anchors, or where the automaton says that a match may be. Returns
 * how many instructions ran.
 */
export function* searchText(
  program: Program,
  text: string,
  onMatch: OnMatch,
  anchor?: Anchor,
): Work<number> {
  const search = new TextSearch(program, onMatch, anchor)
  yield* search.read(text, 0, true)
  return search.steps
}

/** A search of one text that may come in windows, each of which begins within the one before. */
export class TextSearch {
  /** How far it has decided what matches. The next window begins there or before. */
  position = 0
  readonly #program: Program
  readonly #onMatch: OnMatch
  readonly #starts: StartSearch | null
  /** Made when it is needed: most texts have nowhere that it must read, and cost less than it. */
  #machine: Machine | null = null
  #automatonSteps = 0

  constructor(program: Program, onMatch: OnMatch, anchor?: Anchor) {
    this.#program = program
    this.#onMatch = onMatch
    this.#starts = anchor ? new StartSearch(program, anchor, onMatch) : null
  }

  /** How many instructions ran. */
  get steps(): number {
    return (this.#machine?.steps ?? 0) + this.#automatonSteps + (this.#starts?.steps ?? 0)
  }

  /** Reads a window that begins at `base`: the last one, or one that is followed by another. */
  *read(window: string, base: number, isLast: boolean): Work<void> {
    let machine = this.#machine
    let offset = this.position - base
    let yieldAt = (machine?.steps ?? 0) + MOST_STEPS
    let until = offset
    while (offset < window.length) {
      if (!machine || (machine.isIdle && offset >= until)) {
        const place = yield* this.#findPlace(window, base, offset, isLast)
        if (place.from === null) {
          this.position = base + place.until
          return
        }
        offset = place.from
        until = place.until
        machine ??= this.#machine = new Machine(this.#program, this.#onMatch)
        machine.jumpTo(base + offset, offset === 0 ? NOTHING : window.charCodeAt(offset - 1))
      }
      offset = machine.readUntilIdle(window, offset, window.length, MOST_STEPS)
      if (offset === window.length && isLast) machine.end()
      if (machine.steps < yieldAt) continue
      yield
      yieldAt = machine.steps + MOST_STEPS
    }
    this.position = base + window.length
  }

  /** Finds where a machine must read on, and at least up to where; or up to where it need not. */
  *#findPlace(window: string, base: number, from: number, isLast: boolean): Work<Place> {
    const starts = this.#starts
    if (!starts) return yield* this.#findCandidate(window, from, isLast)
    starts.jumpTo(from)
    while (!starts.run(window, base, isLast)) yield
    const { offset, until } = starts
    if (starts.needsMachine) return { from: offset, until }
    return isLast
      ? { from: null, until: offset }
      : yield* this.#findCandidate(window, offset, isLast)
  }

  *#findCandidate(window: string, from: number, isLast: boolean): Work<Place> {
    const { automaton } = this.#program
    const stepsBefore = automaton.steps
    const { clearUntil, isCandidate } = yield* automaton.search(window, from, isLast)
    this.#automatonSteps += automaton.steps - stepsBefore
    const isOpenLong = !isLast && window.length - clearUntil > MOST_KEPT
    return { from: isCandidate || isOpenLong ? clearUntil : null, until: clearUntil }
  }
}

interface Place {
  from: number | null
  until: number
}
