import { ASCII, NOTHING } from './instructions.ts'
import type { OnMatch } from './machine.ts'
import type { Alphabet, Program } from './program.ts'
import { DEAD, type StartStates, UNKNOWN } from './starts.ts'

/** What every match of a program includes, and what may stand before that in a match. */
export interface Anchor {
  /** Finds the first one that begins at `from` or after it, and before `to`; -1 if there is none. */
  find(text: string, from: number, to: number): number
  before: Alphabet
}

/** Others may have their turn after so many steps: a match costs more than a character. */
const MOST_STEPS = 50_000
const MATCH_STEPS = 64
/** An anchor is sought in so much of a text at once, which takes as long as a quarter of so many steps. */
export const SOUGHT = 65_536
const SOUGHT_SHIFT = 2

/** What tries that find nothing may cost: so much at most, and so much for each unit of the text. */
const MOST_CREDIT = 4_096
const CREDIT = 8

const NOT_TRYING = -1

/**
 * Finds matches around anchors, by trying each place at which one may begin: the leftmost first, and
 * on after its end. That is several times as fast as a machine, which follows all places at once.
 * Where many tries in turn find nothing, which would take quadratic time, a machine must go on.
 */
export class StartSearch {
  /** How many characters were looked up, and what learning has cost. */
  steps = 0
  /** How far it is decided what matches: no match begins before and ends after it. */
  offset = 0
  /** Whether a machine must read on from the offset: at least up to `until`. */
  needsMachine = false
  /** The next match begins before this offset, if any does before the next anchor. */
  until = 0
  readonly #mostSteps: number
  readonly #program: Program
  readonly #anchor: Anchor
  readonly #onMatch: OnMatch
  #states: StartStates
  #credit = MOST_CREDIT
  /** Where the next anchor is sought, or from where its beginning is: that may be before it. */
  #sought = 0
  #back = NOT_TRYING
  /** The try at hand: how far it has read, what it has come to, and where it has matched. */
  #at = NOT_TRYING
  #state = DEAD
  #end = NOT_TRYING

  /** Others may have their turn after `mostSteps`. */
  constructor(program: Program, anchor: Anchor, onMatch: OnMatch, mostSteps = MOST_STEPS) {
    this.#mostSteps = mostSteps
    this.#program = program
    this.#anchor = anchor
    this.#onMatch = onMatch
    this.#states = program.startStates
  }

  /** Moves to another offset, from which it seeks the next anchor. */
  jumpTo(offset: number): void {
    const progress = Math.max(0, offset - this.offset)
    this.#credit = Math.min(MOST_CREDIT, this.#credit + CREDIT * progress)
    this.offset = offset
    this.until = offset
    this.#sought = offset
    this.needsMachine = false
  }

  /**
   * Reads on in a window that begins at `base`, for some time. Returns whether it has come to the
   * window's end or needs a machine. All of it is one function over local variables: a text may have
   * an anchor every four characters. Each variable is declared by itself: taken from a list, it may
   * be anything to the engine, and a search is three times as slow where short texts came first.
   */
  run(window: string, base: number, isLast: boolean): boolean {
    const anchor = this.#anchor
    const { ascii, beyondAscii } = anchor.before
    const { canBegin, canBeginBeyondAscii } = this.#program
    const { length } = window
    const readable = isLast ? length : findWholeEnd(window)
    if (this.#states.isFull && this.#at === NOT_TRYING) this.#states = this.#program.startStates
    const states = this.#states
    const { firsts } = states
    let { next } = states
    let { offset, until } = this
    let sought = this.#sought
    let back = this.#back
    let at = this.#at
    let state = this.#state
    let end = this.#end
    let credit = this.#credit
    let budget = this.#mostSteps
    let isOver = false
    let needsMachine = false
    while (budget > 0) {
      if (offset >= until) {
        // Seek the next anchor, and walk back to where a match that includes it may begin.
        if (back === NOT_TRYING) {
          if (sought >= length) {
            isOver = true
            break
          }
          const to = Math.min(length, sought + SOUGHT)
          const found = anchor.find(window, sought, to)
          const reached = found === -1 ? to : found
          budget -= 1 + ((reached - sought) >> SOUGHT_SHIFT)
          sought = reached
          if (found === -1) continue
          back = found
        }
        const from = back
        const least = Math.max(offset, back - Math.max(budget, 1))
        for (; back > least; back--) {
          const code = window.charCodeAt(back - 1)
          if (code < ASCII ? ascii[code] !== 1 : !beyondAscii) break
        }
        budget -= from - back + 1
        if (back === least && least > offset) continue
        credit = Math.min(MOST_CREDIT, credit + CREDIT * (back - offset))
        offset = back
        until = sought + 1
        back = NOT_TRYING
      }
      if (at === NOT_TRYING) {
        // Begin a try at the next place at which a match may begin.
        const to = Math.min(until, offset + budget)
        let i = offset
        let before = i === 0 ? NOTHING : window.charCodeAt(i - 1)
        for (; i < to; i++) {
          const code = window.charCodeAt(i)
          if (code < ASCII ? canBegin[code] === 1 : canBeginBeyondAscii) {
            const isAscii = before >= 0 && before < ASCII
            state = isAscii ? (firsts[before] as number) : states.findFirst(before)
            if (code >= ASCII || next[state * ASCII + code] !== DEAD) break
          }
          before = code
        }
        budget -= i - offset + 1
        credit = Math.min(MOST_CREDIT, credit + CREDIT * (i - offset))
        offset = i
        if (sought < offset) sought = offset
        if (i >= to) continue
        if (credit < 0) {
          needsMachine = true
          break
        }
        at = i
        end = NOT_TRYING
      }
      // Read until no longer match can come. The end of the preferred one is kept.
      const from = at
      const to = Math.min(readable, from + budget)
      for (; at < to; at++) {
        const code = window.charCodeAt(at)
        let known = code < ASCII ? (next[state * ASCII + code] as number) : UNKNOWN
        if (known > DEAD) {
          state = known
          continue
        }
        if (known === UNKNOWN) {
          if (states.isFull) break
          const stepsBefore = states.steps
          known = states.learn(state, window.codePointAt(at) as number)
          budget -= states.steps - stepsBefore
          next = states.next
        }
        if (known < 0) {
          end = at
          known = -known
        }
        state = known
        if (state === DEAD) break
        if (isHigh(code) && (window.codePointAt(at) as number) > 0xffff) at += 1
      }
      budget -= at - from + 1
      if (state !== DEAD) {
        if (at < readable && !states.isFull) continue
        // What may go on, and what needs more states than are kept, is left to a machine.
        needsMachine = !isLast || at < readable
        if (needsMachine) break
        if (states.endsText(state)) end = at
      }
      // What a try has read beyond its match is read again.
      const start = offset
      offset = end > start ? end : start + 1
      credit = Math.min(MOST_CREDIT, credit - (at - Math.max(end, start)))
      credit += CREDIT * (offset - start)
      if (sought < offset) sought = offset
      at = NOT_TRYING
      if (end <= start) continue
      budget -= MATCH_STEPS
      this.#onMatch(base + start, base + end)
    }
    this.offset = offset
    this.until = until
    this.needsMachine = needsMachine
    this.#sought = sought
    this.#back = back
    this.#at = needsMachine ? NOT_TRYING : at
    this.#state = state
    this.#end = end
    this.#credit = credit
    this.steps += this.#mostSteps - budget
    return isOver || needsMachine
  }
}

const isHigh = (code: number): boolean => (code & 0xfc00) === 0xd800

/** Finds where a text ends, without the first half of a character. */
const findWholeEnd = (text: string): number =>
  isHigh(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length
