import type { GatewayError } from '../../errors.ts'
import type { Finding } from '../../telemetry/generations.ts'
import type { Filtering } from '../filters/filtering.ts'
import type { Stage } from '../routing-metadata.ts'

/**
 * Builds the entries of content filters (wire reference H.6). They count what was found and never
 * quote it, except the phrases that blocked a call: its error shows them anyway.
 */
export const guardrailStages = (filtering: Filtering | null, error: GatewayError | null): Stage[] =>
  filtering?.findings.map((finding, i) => ({
    ...(finding.filter === INJECTION ? injection(finding, error) : content(finding)),
    guardrail_id: finding.guardrail_id,
    guardrail_scope: SCOPES[filtering.rules[i]?.scope ?? 'key'],
  })) ?? []

const INJECTION = 'regex-prompt-injection'
const SCOPES = { workspace: 'workspace', member: 'member', key: 'api-key' } as const
const DONE = { block: 'blocked', redact: 'redacted', flag: 'flagged' } as const

function injection(finding: Finding, error: GatewayError | null): Stage {
  const phrases = finding.action === 'block' ? error?.metadata.patterns : undefined
  const summary = summaryOf(finding, 'prompt injection', `${times(finding, 'pattern')} matched`)
  return { type: 'guardrail', name: 'regex_pi_detection', summary, data: dataOf(finding, phrases) }
}

const content = (finding: Finding): Stage => ({
  type: 'guardrail',
  name: 'content-filter',
  summary: summaryOf(finding, finding.filter, `found ${times(finding, 'time')}`),
  data: dataOf(finding, undefined),
})

function summaryOf({ action }: Finding, what: string, how: string): string {
  const done = DONE[action]
  return `${done.slice(0, 1).toUpperCase()}${done.slice(1)}: ${what} detected (${how})`
}

const times = ({ count }: Finding, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`

const dataOf = ({ filter, action, where, count }: Finding, patterns: unknown = [filter]) => ({
  action: DONE[action],
  detected: true,
  engines: ['regex'],
  patterns,
  where,
  count,
})
