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

  constructor(matches: Match[]) {
    for (const [rule, ofRule] of Map.groupBy(matches, ({ rule }) => rule))
      this.#byRule.set(rule, sortSpans(ofRule))
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
    let [low, high] = [0, spans.starts.length]
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

function sortSpans(spans: Span[]): SortedSpans {
  const sorted = spans.toSorted(compareSpans)
  let furthest = Number.NEGATIVE_INFINITY
  return {
    starts: sorted.map(({ start }) => start),
    furthestEnds: sorted.map(({ end }) => {
      furthest = Math.max(furthest, end)
      return furthest
    }),
  }
}
