import { runAtOnce, runInTurns, type Work } from '../../kernel/turns.ts'
import type { Span } from '../patterns/machine.ts'
import { searchText } from '../patterns/search.ts'
import { MatchIndex } from './match-index.ts'
import { type NormalPart, readNormalParts } from './normal-form.ts'
import type { CompiledDetector, CompiledRule, Match } from './rule.ts'
import { StreamScanner } from './stream-scanner.ts'
import { filterUnread, type GateResult } from './unread.ts'

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

  /** Finds all matches in a whole text, rule by rule. Long texts take `search`. */
  find(text: string): Match[] {
    return runAtOnce(this.scan(text))
  }

  /** Finds the same, and lets others have their turn. */
  search(text: string): Promise<Match[]> {
    return runInTurns(this.scan(text))
  }

  /** Reads and redacts every string of a value that is about to leave and that is not known. */
  filterUnread<V>(value: V, known: Set<string> = new Set()): Work<GateResult<V>> {
    return filterUnread(value, this, known)
  }

  /** Creates a scanner for a text as it streams. `onMatch` is called for each match in it. */
  createScanner(onMatch: (match: Match) => void): StreamScanner {
    return new StreamScanner(this.rules, onMatch)
  }

  /** Finds the same as a work that can be interrupted. */
  *scan(text: string): Work<Match[]> {
    const found: Match[] = []
    for (const rule of this.rules) {
      if (rule.find)
        for (const { start, end } of yield* rule.find(text)) found.push({ rule, start, end })
      yield* this.#scanDetectors(rule, text, found)
    }
    yield* this.#addNormalMatches(text, found)
    return found
  }

  *#scanDetectors(rule: CompiledRule, text: string, found: Match[]): Work<void> {
    for (const detector of rule.detectors)
      this.steps += yield* scanWith(rule, detector, text, found)
  }

  /** Adds the matches that are only seen in the text's normal form. */
  *#addNormalMatches(text: string, found: Match[]): Work<void> {
    let known: MatchIndex | undefined
    for (const part of readNormalParts(text)) {
      if (part) {
        known ??= new MatchIndex(found)
        yield* this.#addPartMatches(part, known, found)
      }
      yield
    }
  }

  *#addPartMatches(part: NormalPart, known: MatchIndex, found: Match[]): Work<void> {
    const matches: Match[] = []
    for (const rule of this.rules) yield* this.#scanDetectors(rule, part.text, matches)
    for (const { rule, ...span } of matches) {
      const { start, end } = part.toOriginal(span)
      const isOwned = start >= part.owned.start && start < part.owned.end
      if (isOwned && !known.includes(rule, { start, end })) found.push({ rule, start, end })
    }
  }
}

/** Adds the matches of one detector. Returns how many instructions ran. */
function* scanWith(
  rule: CompiledRule,
  detector: CompiledDetector,
  text: string,
  found: Match[],
): Work<number> {
  const { program, findSpans } = detector
  if (!findSpans)
    return yield* searchText(program, text, (start, end) => found.push({ rule, start, end }))
  const candidates: Span[] = []
  const steps = yield* searchText(program, text, (start, end) => candidates.push({ start, end }))
  for (const { start, end } of candidates) {
    for (const span of findSpans(text.slice(start, end)))
      if (span) found.push({ rule, start: start + span.start, end: start + span.end })
      else yield
    yield
  }
  return steps
}
