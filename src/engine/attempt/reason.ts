import { type GatewayError, isCallersFault, type ProviderReason } from '../../base/errors.ts'
import { runInTurns } from '../../base/turns.ts'
import { type Filtering, filterFailure } from '../filtering.ts'
import type { Run } from '../run.ts'

/**
 * Applies the filters of the answer to what a provider says of its failure, before anything else
 * reads it: the caller, the record and the log. Of a blocked message nothing is left.
 */
export function filterReason(run: Run, error: GatewayError): GatewayError | Promise<GatewayError> {
  const { filtering } = run
  if (!filtering?.filters.outputFilters) return error
  const filtered = filterFailure(filtering, error)
  return filtered.reason ? redactReason(filtered, filtered.reason, filtering) : filtered
}

async function redactReason(
  error: GatewayError,
  reason: ProviderReason,
  filtering: Filtering,
): Promise<GatewayError> {
  const { outputFilters } = filtering.filters
  if (!outputFilters) return error
  const { redactSegment } = await import('../../limits/filters/text-segment.ts')
  const texts = { code: reason.code, message: reason.message }
  for (const name of ['code', 'message'] as const) {
    const segment = { role: 'assistant' as const, pieces: [texts[name] ?? ''], isJson: false }
    const { pieces, matches } = await runInTurns(redactSegment(segment, outputFilters))
    for (const { rule } of matches) filtering.noteMatch(rule, 'output')
    if (matches.some(({ rule }) => rule.action === 'block')) texts[name] = null
    else if (matches.length > 0) texts[name] = pieces.join('')
  }
  return error.with({ reason: { ...reason, ...texts } })
}

/**
 * Returns the error as its caller sees it: with the provider's words where the caller can mend what
 * is wrong. What a provider says of our account with it, or of its own state, stays with us.
 */
export function exposeReason(error: GatewayError): GatewayError {
  const raw = error.reason?.message
  if (!raw || !isCallersFault(error.type) || error.metadata.raw === raw) return error
  return error.with({
    message: `${error.message}: ${raw}`,
    metadata: { ...error.metadata, raw },
  })
}
