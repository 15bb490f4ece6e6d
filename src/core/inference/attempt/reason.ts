import { type GatewayError, isCallersFault, type ProviderReason } from '../../errors.ts'
import { runInTurns } from '../../kernel/turns.ts'
import type { Filtering } from '../filters/filtering.ts'
import type { Run } from '../run.ts'

/**
 * Applies the filters of the answer to what a provider says of its failure, before anything else
 * reads it: the caller, the record and the log. A blocked message is removed.
 */
export function filterReason(run: Run, error: GatewayError): GatewayError | Promise<GatewayError> {
  const { filtering } = run
  if (!error.reason?.message || !filtering?.filters.outputFilters) return error
  return redactReason(error, error.reason, filtering)
}

async function redactReason(
  error: GatewayError,
  reason: ProviderReason,
  filtering: Filtering,
): Promise<GatewayError> {
  const { outputFilters } = filtering.filters
  if (!outputFilters || reason.message === null) return error
  const { redactSegment } = await import('../../policy/filters/text-segment.ts')
  const segment = { role: 'assistant' as const, pieces: [reason.message], isJson: false }
  const { pieces, matches } = await runInTurns(redactSegment(segment, outputFilters))
  for (const { rule } of matches) filtering.noteMatch(rule, 'output')
  const isBlocked = matches.some(({ rule }) => rule.action === 'block')
  return error.with({ reason: { ...reason, message: isBlocked ? null : pieces.join('') } })
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
