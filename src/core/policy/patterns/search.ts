import type { Work } from '../../kernel/turns.ts'
import { ASCII, NOTHING } from './instructions.ts'
import { Machine, type OnMatch } from './machine.ts'
import type { Alphabet, Program } from './program.ts'

/** After this many instructions others may have their turn: about a millisecond. */
const MOST_STEPS = 50_000

/** A text that may go on is kept this far back at most: a machine reads what is open longer. */
const MOST_KEPT = 4_096

/** What every match of a program includes, and what may stand before that in a match. */
export interface Anchor {
  regExp: RegExp
  before: Alphabet
}

/**
 * Finds every match of a program in a whole text: those that a machine finds, in the same order.
 * The machine reads only around anchors, or where the automaton says that a match may be. Returns how many instructions ran.
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
  readonly #anchor: Anchor | undefined
  readonly #machine: Machine
  #automatonSteps = 0

  constructor(program: Program, onMatch: OnMatch, anchor?: Anchor) {
    this.#program = program
    this.#anchor = anchor
    this.#machine = new Machine(program, onMatch)
  }

  /** How many instructions ran. */
  get steps(): number {
    return this.#machine.steps + this.#automatonSteps
  }

  /** Reads a window that begins at `base`: the last one, or one that is followed by another. */
  *read(window: string, base: number, isLast: boolean): Work<void> {
    const machine = this.#machine
    let offset = this.position - base
    let yieldAt = machine.steps + MOST_STEPS
    let until = offset
    while (offset < window.length) {
      if (machine.isIdle && offset >= until) {
        const place =
          this.#findAnchor(window, offset) ?? (yield* this.#findCandidate(window, offset, isLast))
        if (place.from === null) {
          this.position = base + place.until
          return
        }
        offset = place.from
        until = place.until
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

  /** Finds where a machine must read on if there is no anchor, or up to where it need not. */
  *#findCandidate(
    window: string,
    from: number,
    isLast: boolean,
  ): Work<{ from: number | null; until: number }> {
    if (this.#anchor && isLast) return { from: null, until: from }
    const { automaton } = this.#program
    const stepsBefore = automaton.steps
    const { clearUntil, isCandidate } = yield* automaton.search(window, from, isLast)
    this.#automatonSteps += automaton.steps - stepsBefore
    const isOpenLong = !isLast && window.length - clearUntil > MOST_KEPT
    return { from: isCandidate || isOpenLong ? clearUntil : null, until: clearUntil }
  }

  /** Finds the next anchor, and where the earliest match that includes it may begin. */
  #findAnchor(window: string, from: number): { from: number; until: number } | null {
    if (!this.#anchor) return null
    const { regExp, before } = this.#anchor
    regExp.lastIndex = from
    const anchor = regExp.exec(window)
    if (!anchor) return null
    let start = anchor.index
    while (start > from && includes(before, window.charCodeAt(start - 1))) start -= 1
    return { from: start, until: anchor.index + 1 }
  }
}

const includes = ({ ascii, beyondAscii }: Alphabet, code: number): boolean =>
  code < ASCII ? ascii[code] === 1 : beyondAscii
