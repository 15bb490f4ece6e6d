import { GatewayError } from '../../errors.ts'
import type { FilterAction } from '../guardrails.ts'

/** One content filter of a guardrail, as it applies to somebody's calls. */
export interface FilterRule {
  guardrail_id: string
  /** Through whom the guardrail applies. */
  scope: 'workspace' | 'member' | 'key'
  slug?: string
  pattern?: string
  action: FilterAction
  label?: string | null
  scan_scope?: 'user_only' | 'all_messages'
  /** Whether what models say is looked at too. */
  output?: boolean
}

/** Throws 400 for a pattern that cannot be scanned with in time that grows with the text alone. */
export async function checkPattern(pattern: string, field: string): Promise<void> {
  const { RE2JS } = await import('re2js')
  try {
    RE2JS.compile(pattern)
  } catch {
    const metadata = { field, code: 'invalid_regex_pattern' }
    throw new GatewayError('invalid_request', `${field}: expected a pattern without look-around and back-references`, { metadata })
  }
}
