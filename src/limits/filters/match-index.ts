import { ITEMS_AT_ONCE, sortInTurns, type Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'
import type { CompiledRule, Match } from './rule.ts'

/** Spans by their start, and the furthest end among those up to each of them. */
interface SortedSpans {
  starts: number[]
  furthestEnds: number[]
}

/** Answers where rules have matched without reading all matches for each question. */
export class MatchIndex {
  readonly #byRule = new Map<CompiledRule, SortedSpans>()

  private constructor() {}

  /** Creates an index of these matches. */
  static *create(matches: Match[]): Work<MatchIndex> {
    const index = new MatchIndex()
    for (const [rule, ofRule] of yield* groupByRule(matches))
      index.#byRule.set(rule, yield* sortSpans(ofRule))
    return index
  }

  /** Tells whether a match of the rule includes this span. */
  includes(rule: CompiledRule, { start, end }: Span): boolean {
    return this.#findFurthestEnd(rule, start) >= end
  }

  /** Tells whether a match of the rule has a part of this span. */
  overlaps(rule: CompiledRule, { start, end }: Span): boolean {
    return this.#findFurthestEnd(rule, end - 1) > start
  }

  /** Finds the furthest end of the matches that begin at or before this offset. */
  #findFurthestEnd(rule: CompiledRule, offset: number): number {
    const spans = this.#byRule.get(rule)
    if (!spans) return Number.NEGATIVE_INFINITY
    let low = 0
    let high = spans.starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((spans.starts[middle] ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    return spans.furthestEnds[low - 1] ?? Number.NEGATIVE_INFINITY
  }
}

/** Compares by start; of two with the same start the longer one is first. */
const compareSpans = (a: Span, b: Span): number => a.start - b.start || b.end - a.end

/** Compares by span, and then by the order of the rules. */
export const compareMatches = (a: Match, b: Match): number =>
  compareSpans(a, b) || a.rule.order - b.rule.order

function* groupByRule(matches: Match[]): Work<Map<CompiledRule, Span[]>> {
  const groups = new Map<CompiledRule, Span[]>()
  let count = 0
  for (const match of matches) {
    const group = groups.get(match.rule)
    if (group) group.push(match)
    else groups.set(match.rule, [match])
    if (++count % ITEMS_AT_ONCE === 0) yield
  }
  return groups
}

function* sortSpans(spans: Span[]): Work<SortedSpans> {
  const starts: number[] = []
  const furthestEnds: number[] = []
  let furthest = Number.NEGATIVE_INFINITY
  for (const { start, end } of yield* sortInTurns(spans, compareSpans)) {
    furthest = Math.max(furthest, end)
    starts.push(start)
    if (furthestEnds.push(furthest) % ITEMS_AT_ONCE === 0) yield
  }
  return { starts, furthestEnds }
}
