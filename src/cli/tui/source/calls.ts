import { getCallStatus } from '../../../core/telemetry/generations.ts'
import { createCall, type LiveCall } from '../live.ts'
import type { CallRecord } from '../source.ts'

/** Shows a record as the feed would have told the call. */
export const toLiveCall = (call: CallRecord, key: string): LiveCall => ({
  ...createCall(call.id, call.created_at),
  state: 'done',
  status: getCallStatus(call),
  error: call.error_type,
  model: call.model,
  provider: call.provider_name ?? '',
  latency: call.latency,
  time: call.generation_time,
  tokens: call.native_tokens_completion,
  cost: call.total_cost,
  key,
  app: call.origin,
  attempts: call.provider_responses.map(attempt => ({
    endpoint: attempt.endpoint_id,
    provider: attempt.provider_name,
    model: attempt.model_permaslug,
    at: call.created_at,
    outcome: attempt.error ? 'failed' : 'answered',
    status: attempt.status,
    error_type: attempt.error?.type ?? null,
    message: attempt.error?.message ?? null,
    latency: attempt.latency,
  })),
})
