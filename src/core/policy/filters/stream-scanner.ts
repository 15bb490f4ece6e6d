import { runAtOnce, type Work } from '../../kernel/turns.ts'
import { Machine, type Span } from '../patterns/machine.ts'
import type { CompiledDetector, CompiledRule, Match } from './rule.ts'

/**
 * The most of a text that is held back while something in it may still become a match, in UTF-16
 * units. A longer match has already been sent in part when its end arrives: it still blocks and
 * flags, and only its last 4,096 units are redacted.
 */
export const LONGEST_HELD = 4_096

/** How much of a text one pattern reads before others may have their turn. */
const SLICE = 256
/** Redactions that are done are dropped when there are this many. */
const MOST_DONE = 65_536

// A machine reports what it gives up on before it has read the next character.
const WIDEST = 2

/**
 * Scans one text as it streams: how much of it is decided, and what replaces the matches. The
 * output does not depend on how the text is cut.
 */
export class StreamScanner {
  readonly #machines: Machine[]
  readonly #onMatch: (match: Match) => void
  #redactions: Match[] = []
  #nextRedaction = 0
  #text = ''
  #taken = 0
  #hiddenUntil = 0
  #ended = false
  #blockedAt = Number.POSITIVE_INFINITY

  constructor(rules: CompiledRule[], onMatch: (match: Match) => void) {
    this.#onMatch = onMatch
    this.#machines = rules.flatMap(rule =>
      rule.detectors.map(
        detector =>
          new Machine(
            detector.program,
            (start, end) => this.#addMatches(rule, detector, start, end),
            LONGEST_HELD - WIDEST,
          ),
      ),
    )
  }

  /** Whether the output differs from the input. */
  get changed(): boolean {
    return this.#hiddenUntil > 0
  }

  /** How much of the text has arrived. */
  get length(): number {
    return this.#taken + this.#text.length
  }

  /**
   * How much of the output is decided: nothing before it can be part of an unknown match. It stops
   * where a blocking match begins, so that what blocks never goes out.
   */
  get decidedUntil(): number {
    if (this.#ended) return Math.min(this.length, this.#blockedAt)
    const open = this.#machines.reduce(
      (least, machine) => Math.min(least, machine.earliestOpen),
      this.length,
    )
    return Math.min(Math.max(open, this.length - LONGEST_HELD), this.#blockedAt)
  }

  /** Reads more text. Long ones take `read`. */
  feed(text: string): void {
    runAtOnce(this.read(text))
  }

  /** Reads more text, and lets others have their turn. */
  *read(text: string): Work<void> {
    for (let offset = 0; offset < text.length; offset += SLICE) {
      const slice = text.slice(offset, offset + SLICE)
      this.#text += slice
      for (const machine of this.#machines) {
        machine.feed(slice)
        yield
      }
    }
  }

  /** Ends the text: everything is decided. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const machine of this.#machines) machine.end()
  }

  /** Returns the output for the text from the last call's `end` up to this one. */
  take(end: number): string {
    let output = ''
    for (let next = this.#shiftRedaction(end); next; next = this.#shiftRedaction(end)) {
      if (next.start >= this.#hiddenUntil) {
        output += this.#takeVisible(next.start) + next.rule.label
        this.#hiddenUntil = next.end
      } else this.#hiddenUntil = Math.max(this.#hiddenUntil, next.end)
    }
    return output + this.#takeVisible(end)
  }

  // Overlapping matches share one label: that of the match that begins first, and of several the
  // longest.
  #shiftRedaction(to: number): Match | undefined {
    const next = this.#redactions[this.#nextRedaction]
    if (!next || next.start >= to) return undefined
    this.#nextRedaction += 1
    if (this.#nextRedaction === MOST_DONE) this.#dropDone()
    return next
  }

  #dropDone(): void {
    this.#redactions = this.#redactions.slice(this.#nextRedaction)
    this.#nextRedaction = 0
  }

  /** Returns the text up to `to` without what is redacted, and drops it from the buffer. */
  #takeVisible(to: number): string {
    const from = Math.min(Math.max(this.#hiddenUntil, this.#taken), to)
    const visible = this.#text.slice(from - this.#taken, to - this.#taken)
    this.#text = this.#text.slice(to - this.#taken)
    this.#taken = to
    return visible
  }

  #addMatches(rule: CompiledRule, detector: CompiledDetector, start: number, end: number): void {
    const from = Math.max(start, end - LONGEST_HELD, this.#taken)
    for (const match of toMatches(
      rule,
      detector,
      from,
      this.#text.slice(from - this.#taken, end - this.#taken),
    )) {
      if (rule.action === 'redact') insertSorted(this.#redactions, match)
      if (rule.action === 'block') this.#blockedAt = Math.min(this.#blockedAt, match.start)
      this.#onMatch(match)
    }
  }
}

/** Lists the matches within a text that a pattern has found at this offset. */
function toMatches(
  rule: CompiledRule,
  { findSpans }: CompiledDetector,
  offset: number,
  text: string,
): Match[] {
  const spans = findSpans?.(text) ?? [{ start: 0, end: text.length }]
  const matches: Match[] = []
  for (const span of spans)
    if (span) matches.push({ rule, start: offset + span.start, end: offset + span.end })
  return matches
}

/** Compares by start; of two with the same start the longer one is first. */
export const compareSpans = (a: Span, b: Span): number => a.start - b.start || b.end - a.end

function insertSorted(matches: Match[], match: Match): void {
  let at = matches.length
  for (
    let before = matches[at - 1];
    before && compareSpans(before, match) > 0;
    before = matches[at - 1]
  )
    at -= 1
  matches.splice(at, 0, match)
}
