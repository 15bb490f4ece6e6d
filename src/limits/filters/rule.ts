import type { Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'
import type { Program } from '../patterns/program.ts'
import type { Anchor } from '../patterns/start-search.ts'

/** What is done about a match, strictest first. */
export const ACTIONS = ['block', 'redact', 'flag'] as const
export type Action = (typeof ACTIONS)[number]

/**
 * A compiled filter rule. Rules of several guardrails that look for the same thing become one: the
 * strictest.
 */
export interface CompiledRule {
  guardrail_id: string
  scope: 'workspace' | 'member' | 'key'
  /**
   * Its name in the record: the builtin's slug, or the pattern's label. Never the pattern, which
   * may be the very word that must stay secret.
   */
  filter: string
  action: Action
  /** Its place among the rules, which decides between matches of the same characters. */
  order: number
  /** The text that replaces a match. */
  label: string
  /** Its name in the error of a blocked call; `blockedMessage` is the whole message instead. */
  name: string
  blockedMessage?: string
  /** The patterns that find it in a text as it streams. */
  detectors: CompiledDetector[]
  /** Finds it in a whole text only. */
  find?: (text: string) => Work<Span[]>
}

export interface CompiledDetector {
  program: Program
  anchor?: Anchor
  /** Tells whether a part of a text that the program matches counts. */
  accepts?: (text: string, start: number, end: number) => boolean
  findSpans?: (text: string) => Iterable<Span | null>
}

/** Where a rule matched. */
export interface Match extends Span {
  rule: CompiledRule
  /** The matched text, where it does not appear literally in the text that was searched. */
  matchedText?: string
}

/** Lists the parts of a match of a detector's program that count. */
export const listSpans = (
  { accepts, findSpans }: CompiledDetector,
  text: string,
  length = text.length,
): Iterable<Span | null> => {
  if (accepts && !accepts(text, 0, length)) return []
  return findSpans?.(text) ?? [{ start: 0, end: length }]
}
