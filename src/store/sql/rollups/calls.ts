import type { CallFacts } from '../../../observability/rollups.ts'

/** A record as the roll-ups read it. Money is text: a double would round it. */
export type CallRow = Omit<
  CallFacts,
  'total_cost' | 'upstream_inference_cost' | 'streamed' | 'cancelled' | 'is_byok' | 'isFiltered'
> & {
  total_cost: string | null
  upstream_inference_cost: string | null
  streamed: number
  cancelled: number
  is_byok: number
  isFiltered: number
}

/**
 * Writes the query of calls after a row and up to another, so many at most. `endpointId` is the
 * endpoint that answered, as the engine reads it from `provider_responses`: empty where none did.
 */
export const selectCalls = (endpointId: string) =>
  `select rowid as row, id, settled_at, workspace_id, coalesce(key_hash, '') as key_hash,
  user_id, api_type, model, coalesce(provider_name, '') as provider_name,
  ${endpointId} as endpoint_id,
  streamed, cancelled, finish_reason, latency, generation_time, native_tokens_prompt,
  native_tokens_completion, native_tokens_reasoning, native_tokens_cached,
  cast(total_cost as text) as total_cost,
  cast(upstream_inference_cost as text) as upstream_inference_cost,
  is_byok, session_id, external_user, http_referer, title, error_type, data_region,
  case when "contentFilters" = '[]' then 0 else 1 end as "isFiltered"
  from generations where rowid > ? and rowid <= ? order by rowid limit ?`

// The row is not copied: millions are read.
export function toFacts(row: CallRow): CallFacts {
  return Object.assign(row as unknown as CallFacts, {
    total_cost: row.total_cost === null ? null : BigInt(row.total_cost),
    upstream_inference_cost:
      row.upstream_inference_cost === null ? null : BigInt(row.upstream_inference_cost),
    streamed: row.streamed === 1,
    cancelled: row.cancelled === 1,
    is_byok: row.is_byok === 1,
    isFiltered: row.isFiltered === 1,
  })
}
