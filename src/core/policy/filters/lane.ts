import { Machine, type Span } from '../patterns/machine.ts'
import type { Match, OpenedLooking, OpenedRule } from './rule.ts'

/**
 * So much of a text is held back at most, in UTF-16 units, while something in it may still become a match. Of a longer match the
 * beginning has gone when its end comes: it still blocks and flags, and what is redacted of it are its last 4,096 units.
 */
export const LONGEST_HELD = 4_096

// A machine tells what it gives up on before it has gone over the next character.
const WIDEST = 2

/** One text as it comes: what of it is decided, and what stands in the place of what was found. However it is cut, the same comes out. */
export class Lane {
  readonly #machines: Machine[]
  readonly #matched: (match: Match) => void
  readonly #redactions: Match[] = []
  #text = ''
  #taken = 0
  #hiddenUntil = 0
  #ended = false
  #blockedAt = Number.POSITIVE_INFINITY

  constructor(rules: OpenedRule[], matched: (match: Match) => void) {
    this.#matched = matched
    this.#machines = rules.flatMap(rule =>
      rule.lookings.map(
        looking =>
          new Machine(
            looking.program,
            (start, end) => this.#found(rule, looking, start, end),
            LONGEST_HELD - WIDEST,
          ),
      ),
    )
  }

  /** Whether other words have come out than went in. */
  get changed(): boolean {
    return this.#hiddenUntil > 0
  }

  /** How much has come. */
  get length(): number {
    return this.#taken + this.#text.length
  }

  /** Up to where it is decided what comes out: nothing before that can be part of a match that is not known. What blocks never comes out. */
  get clear(): number {
    if (this.#ended) return Math.min(this.length, this.#blockedAt)
    const open = this.#machines.reduce(
      (least, machine) => Math.min(least, machine.open),
      this.length,
    )
    return Math.min(Math.max(open, this.length - LONGEST_HELD), this.#blockedAt)
  }

  feed(text: string): void {
    this.#text += text
    for (const machine of this.#machines) machine.feed(text)
  }

  /** There is no more: everything is decided. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const machine of this.#machines) machine.end()
  }

  /** What comes out for the text up to there, from where was taken last. */
  take(to: number): string {
    let taken = ''
    for (let next = this.#nextRedaction(to); next; next = this.#nextRedaction(to)) {
      if (next.start >= this.#hiddenUntil) {
        taken += this.#visible(next.start) + next.rule.label
        this.#hiddenUntil = next.end
      } else this.#hiddenUntil = Math.max(this.#hiddenUntil, next.end)
    }
    return taken + this.#visible(to)
  }

  // The one that begins first, and of several the longest, gives its label to all that overlaps it.
  #nextRedaction(to: number): Match | undefined {
    const next = this.#redactions[0]
    return next && next.start < to ? this.#redactions.shift() : undefined
  }

  /** The text up to there without what is hidden of it. */
  #visible(to: number): string {
    const from = Math.min(Math.max(this.#hiddenUntil, this.#taken), to)
    const visible = this.#text.slice(from - this.#taken, to - this.#taken)
    this.#text = this.#text.slice(to - this.#taken)
    this.#taken = to
    return visible
  }

  #found(rule: OpenedRule, looking: OpenedLooking, start: number, end: number): void {
    const from = Math.max(start, end - LONGEST_HELD, this.#taken)
    for (const match of matchesOf(
      rule,
      looking,
      from,
      this.#text.slice(from - this.#taken, end - this.#taken),
    )) {
      if (rule.action === 'redact') insert(this.#redactions, match)
      if (rule.action === 'block') this.#blockedAt = Math.min(this.#blockedAt, match.start)
      this.#matched(match)
    }
  }
}

/** The matches in what a pattern has found at this place. */
export function matchesOf(
  rule: OpenedRule,
  { spans }: OpenedLooking,
  at: number,
  found: string,
): Match[] {
  const pieces: Span[] = spans ? spans(found) : [{ start: 0, end: found.length }]
  return pieces.map(({ start, end }) => ({ rule, start: at + start, end: at + end }))
}

/** In the order of their beginnings, the longer one first. */
export const byPlace = (a: Span, b: Span): number => a.start - b.start || b.end - a.end

function insert(matches: Match[], match: Match): void {
  let at = matches.length
  for (let before = matches[at - 1]; before && byPlace(before, match) > 0; before = matches[at - 1])
    at -= 1
  matches.splice(at, 0, match)
}
