import { yieldToEventLoop } from '../../kernel/clock.ts'
import { Machine } from '../patterns/machine.ts'
import type { CompiledDetector, CompiledRule, Match } from './rule.ts'
import { StreamScanner, toMatches } from './stream-scanner.ts'

/** Several rules that search the same texts. */
export class FilterSet {
  /** Whether a text may be changed or blocked. */
  readonly alters: boolean
  readonly rules: CompiledRule[]
  /** How many instructions of patterns ran over whole texts. */
  steps = 0

  constructor(rules: CompiledRule[]) {
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
      await yieldToEventLoop()
    }
  }

  /** Creates a scanner for a text as it streams. `onMatch` is called for each match in it. */
  createScanner(onMatch: (match: Match) => void): StreamScanner {
    return new StreamScanner(this.rules, onMatch)
  }

  *#search(text: string): Generator<undefined, Match[]> {
    const found: Match[] = []
    let steps = 0
    for (const rule of this.rules) {
      for (const { start, end } of rule.find?.(text) ?? []) found.push({ rule, start, end })
      for (const detector of rule.detectors) {
        if (canTestFirst(detector, text) && !detector.program.matchesAnywhere(text)) continue
        for (const spent of followText(text, rule, detector, found)) {
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
const canTestFirst = ({ isBuiltin, program }: CompiledDetector, text: string): boolean =>
  isBuiltin || (program.size <= SMALL_PROGRAM && text.length <= SHORT_TEXT)

const SMALL_PROGRAM = 64
const SHORT_TEXT = 64 * 1024

/** Scans the text in slices, and yields what each has cost. */
function* followText(
  text: string,
  rule: CompiledRule,
  detector: CompiledDetector,
  found: Match[],
): Generator<number, void> {
  const machine = new Machine(detector.program, (start, end) =>
    found.push(...toMatches(rule, detector, start, text.slice(start, end))),
  )
  let spent = 0
  for (let offset = 0; offset < text.length; offset += SLICE) {
    machine.feed(text.slice(offset, offset + SLICE))
    yield machine.steps - spent
    spent = machine.steps
  }
  machine.end()
}

const SLICE = 16 * 1024
/** A few milliseconds of work. */
const STEPS_AT_ONCE = 1_000_000
