import type { Role } from '../language/message.ts'
import type { BuiltinSlug } from './filters/builtins.ts'
import type { FilterSet } from './filters/filter-set.ts'
import type { Action } from './filters/rule.ts'

/** The most patterns, and the most builtins, of one guardrail. */
export const MAX_PATTERNS = 100

/**
 * One entry of a guardrail's `content_filter_builtins` (with a `slug`) or `content_filters` (with a
 * `pattern`), as it applies to an actor's calls.
 */
export interface FilterRule {
  guardrail_id: string
  /** What the guardrail is assigned to, so that it applies. */
  scope: 'workspace' | 'member' | 'key'
  slug?: BuiltinSlug
  pattern?: string
  action: Action
  /** The text that replaces a pattern's matches; builtins have their own. */
  label?: string | null
  /**
   * Which messages are scanned for prompt injection: all, unless set. Other rules do not read it.
   */
  scan_scope?: 'user_only' | 'all_messages'
  /** Whether answers are scanned too: the guardrail's `filter_output`. */
  output?: boolean
}

/** The content filters of a policy, compiled. */
export interface Filters {
  /** Returns the filters for messages of this role; null when there are none. */
  getInputFilters(role: Role): FilterSet | null
  /** The filters for the answer; null when there are none. */
  outputFilters: FilterSet | null
}

/**
 * Compiles the filters of these rules. The engine and the lists of the builtins are loaded when the
 * first rule needs them, so a gateway without content filters never loads them. Rejects with 400
 * for an invalid pattern.
 */
export function openFilters(rules: FilterRule[]): Promise<Filters> {
  const opened = import('./filters/compile.ts').then(({ compileFilters }) => compileFilters(rules))
  // Callers that await the promise get the error. A policy that is dropped before its first call
  // has none, and must not cause an unhandled rejection.
  opened.catch(() => undefined)
  return opened
}

/**
 * Checks that a pattern can be a filter. Throws 400 with `metadata` `{ field, code:
 * 'invalid_regex_pattern' }` for look-around, back-references, more than 1,000 characters, counted
 * repetitions that are too large, and what is no regular expression.
 */
export async function checkPattern(pattern: string, field = 'content_filters'): Promise<void> {
  const { getPatternProgram } = await import('./patterns.ts')
  getPatternProgram(pattern, field)
}
