import type { Span } from '../patterns/machine.ts'
import type { Program } from '../patterns/program.ts'

/** What is done about what was found, the strictest first. */
export const ACTIONS = ['block', 'redact', 'flag'] as const
export type Action = (typeof ACTIONS)[number]

/** A filter rule, opened. Rules of several guardrails that look for the same thing are one: the strictest. */
export interface OpenedRule {
  guardrail_id: string
  scope: 'workspace' | 'member' | 'key'
  /** What the record calls it: the builtin's slug, or the pattern's label. Never the pattern, which may be the very word that nobody shall read. */
  filter: string
  action: Action
  /** What stands in the place of what is redacted. */
  label: string
  /** What it is called where something is blocked, or the whole message for it. */
  name: string
  blocked?: string
  /** What finds it as the text comes. */
  lookings: OpenedLooking[]
  /** What finds it in a whole text only. */
  find?: (text: string) => Span[]
}

export interface OpenedLooking {
  program: Program
  /** Whether it is a builtin's: its states are few, so a text without it is known at once. */
  isKnown: boolean
  spans?: (found: string) => Span[]
}

/** Where a rule has found something. */
export interface Match extends Span {
  rule: OpenedRule
  /** What was found, where it does not stand so in the text that was looked at. */
  found?: string
}
