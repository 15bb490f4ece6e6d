import type { Role } from '../language/message.ts'
import type { BuiltinSlug } from './filters/builtins.ts'
import type { Action } from './filters/rule.ts'
import type { Screen } from './filters/screen.ts'

/** So many patterns may one guardrail have, and so many builtins. */
export const MOST_PATTERNS = 100

/** One entry of a guardrail's `content_filter_builtins` (with a `slug`) or `content_filters` (with a `pattern`), as it applies to somebody's calls. */
export interface FilterRule {
  guardrail_id: string
  /** Through whom the guardrail applies. */
  scope: 'workspace' | 'member' | 'key'
  slug?: BuiltinSlug
  pattern?: string
  action: Action
  /** What stands in the place of what is redacted, of a pattern; builtins have their own. */
  label?: string | null
  /** Whose words are looked at: of prompt injection only. Everybody's, when it does not say. */
  scan_scope?: 'user_only' | 'all_messages'
  /** Whether what models say is looked at too: the guardrail's `filterOutput`. */
  output?: boolean
}

/** The content filters of a policy, ready to run. */
export interface Filters {
  /** What looks at the words of this role; null when nothing does. */
  asked(role: Role): Screen | null
  /** What looks at the answer; null when nothing does. */
  answered: Screen | null
}

/**
 * The filters of these rules. Everything that they need (the engine, the builtins' lists) is loaded when the first rule asks for it:
 * a gateway without content filters never does. Throws 400 for a pattern that cannot be.
 */
export function openFilters(rules: FilterRule[]): Promise<Filters> {
  const opened = import('./filters/open.ts').then(({ open }) => open(rules))
  // Who awaits it hears of it. Nobody may: a policy can be dropped before a call is made under it.
  opened.catch(() => undefined)
  return opened
}

/**
 * Whether a pattern can be a filter. Throws 400 with `metadata` `{ field, code: 'invalid_regex_pattern' }`, and a sentence, for
 * look-around, back-references, more than 1,000 characters, counted repetitions that come to too much, and what is no regular expression.
 */
export async function checkPattern(pattern: string, field = 'content_filters'): Promise<void> {
  const { patternProgram } = await import('./patterns.ts')
  patternProgram(pattern, field)
}
