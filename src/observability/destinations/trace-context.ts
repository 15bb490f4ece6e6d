import { renderTraceparent } from '../../base/traceparent.ts'
import type { CallBase } from '../../language/call.ts'
import { chooseIds } from './build-trace.ts'

type TracedCall = Pick<CallBase, 'id' | 'trace' | 'origin'>

/**
 * Returns what a call says of its trace. Without an id in its body it is part of the trace that its
 * header `traceparent` names.
 */
export function resolveTrace({ trace, origin: { traceContext } }: TracedCall): CallBase['trace'] {
  if (traceContext === null || trace?.trace_id != null) return trace
  return { ...trace, ...traceContext }
}

/** Renders the header `traceparent` for a provider: its spans are children of the call's root. */
export function buildTraceparent(call: TracedCall): string {
  const { traceId, rootId } = chooseIds({ id: call.id, trace: resolveTrace(call) })
  return renderTraceparent({ trace_id: traceId, parent_span_id: rootId })
}
