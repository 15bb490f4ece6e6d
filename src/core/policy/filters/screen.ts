import { nextTurn } from '../../kernel/clock.ts'
import { Machine } from '../patterns/machine.ts'
import { Lane, matchesOf } from './lane.ts'
import type { Match, OpenedLooking, OpenedRule } from './rule.ts'

/** Several rules that search the same texts. */
export class Screen {
  /** Whether a text may be changed or blocked. */
  readonly alters: boolean
  readonly rules: OpenedRule[]
  /** How many instructions of patterns ran over whole texts. */
  steps = 0

  constructor(rules: OpenedRule[]) {
    this.rules = rules
    this.alters = rules.some(({ action }) => action !== 'flag')
  }

  /** Finds all matches in a whole text, rule by rule. */
  find(text: string): Match[] {
    const work = this.#search(text)
    for (let step = work.next(); ; step = work.next()) if (step.done) return step.value
  }

  /** Finds the same, yielding to other work when it takes long. */
  async search(text: string): Promise<Match[]> {
    const work = this.#search(text)
    for (let step = work.next(); ; step = work.next()) {
      if (step.done) return step.value
      await nextTurn()
    }
  }

  /** Creates a scanner for a text as it streams. `onMatch` is called for each match in it. */
  lane(matched: (match: Match) => void): Lane {
    return new Lane(this.rules, matched)
  }

  *#search(text: string): Generator<undefined, Match[]> {
    const found: Match[] = []
    let steps = 0
    for (const rule of this.rules) {
      for (const { start, end } of rule.find?.(text) ?? []) found.push({ rule, start, end })
      for (const looking of rule.lookings) {
        if (isPlain(looking, text) && !looking.program.isIn(text)) continue
        for (const spent of followed(text, rule, looking, found)) {
          steps += spent
          this.steps += spent
          if (steps < STEPS_AT_ONCE) continue
          steps = 0
          yield
        }
      }
    }
    return found
  }
}

// RE2's own search is faster where it has few states to build, but it cannot be interrupted: a
// user's pattern must be small, and the text short.
const isPlain = ({ isKnown, program }: OpenedLooking, text: string): boolean =>
  isKnown || (program.size <= SMALL_PROGRAM && text.length <= SHORT_TEXT)

const SMALL_PROGRAM = 64
const SHORT_TEXT = 64 * 1024

/** Scans the text in slices, and yields what each has cost. */
function* followed(
  text: string,
  rule: OpenedRule,
  looking: OpenedLooking,
  found: Match[],
): Generator<number, void> {
  const machine = new Machine(looking.program, (start, end) =>
    found.push(...matchesOf(rule, looking, start, text.slice(start, end))),
  )
  let spent = 0
  for (let at = 0; at < text.length; at += SLICE) {
    machine.feed(text.slice(at, at + SLICE))
    yield machine.steps - spent
    spent = machine.steps
  }
  machine.end()
}

const SLICE = 16 * 1024
/** A few milliseconds of work. */
const STEPS_AT_ONCE = 1_000_000
