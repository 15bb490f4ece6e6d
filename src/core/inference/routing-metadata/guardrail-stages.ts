import type { GatewayError } from '../../errors.ts'
import type { Finding } from '../../telemetry/generations.ts'
import type { Filtering } from '../filters/filtering.ts'
import type { PipelineStage } from '../routing-metadata.ts'

/**
 * Builds the entries of content filters (wire reference H.6). They count what was found and never
 * quote it, except the phrases that blocked a call: its error shows them anyway.
 */
export const buildGuardrailStages = (
  filtering: Filtering | null,
  error: GatewayError | null,
): PipelineStage[] =>
  filtering?.findings.map((finding, i) => ({
    ...(finding.filter === INJECTION
      ? renderInjectionStage(finding, error)
      : renderContentStage(finding)),
    guardrail_id: finding.guardrail_id,
    guardrail_scope: SCOPES[filtering.rules[i]?.scope ?? 'key'],
  })) ?? []

const INJECTION = 'regex-prompt-injection'
const SCOPES = { workspace: 'workspace', member: 'member', key: 'api-key' } as const
const DONE = { block: 'blocked', redact: 'redacted', flag: 'flagged' } as const

function renderInjectionStage(finding: Finding, error: GatewayError | null): PipelineStage {
  const phrases = finding.action === 'block' ? error?.metadata.patterns : undefined
  const summary = renderSummary(
    finding,
    'prompt injection',
    `${renderCount(finding, 'pattern')} matched`,
  )
  return {
    type: 'guardrail',
    name: 'regex_pi_detection',
    summary,
    data: renderData(finding, phrases),
  }
}

const renderContentStage = (finding: Finding): PipelineStage => ({
  type: 'guardrail',
  name: 'content-filter',
  summary: renderSummary(finding, finding.filter, `found ${renderCount(finding, 'time')}`),
  data: renderData(finding, undefined),
})

function renderSummary({ action }: Finding, subject: string, detail: string): string {
  const done = DONE[action]
  return `${done.slice(0, 1).toUpperCase()}${done.slice(1)}: ${subject} detected (${detail})`
}

const renderCount = ({ count }: Finding, word: string) =>
  `${count} ${word}${count === 1 ? '' : 's'}`

const renderData = ({ filter, action, where, count }: Finding, patterns: unknown = [filter]) => ({
  action: DONE[action],
  detected: true,
  engines: ['regex'],
  patterns,
  where,
  count,
})
