import type { Database } from 'bun:sqlite'
import type { CallFacts } from '../../../observability/rollups/calls.ts'

/** A record as the roll-ups read it. Money is text: a double would round it. */
type Row = Omit<
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

/** The endpoint that answered, in SQL. One garbled record keeps no other from being summed. */
export const ENDPOINT_ID = `iif(json_valid(provider_responses),
  coalesce(json_extract(provider_responses, '$[#-1].endpoint_id'), ''), '')`

const SELECT = `select rowid as row, id, settled_at, workspace_id, coalesce(key_hash, '') as key_hash,
  user_id, api_type, model, coalesce(provider_name, '') as provider_name,
  ${ENDPOINT_ID} as endpoint_id,
  streamed, cancelled, finish_reason, latency, generation_time, native_tokens_prompt,
  native_tokens_completion, native_tokens_reasoning, native_tokens_cached,
  cast(total_cost as text) as total_cost,
  cast(upstream_inference_cost as text) as upstream_inference_cost,
  is_byok, session_id, external_user, http_referer, title, error_type, data_region,
  contentFilters <> '[]' as isFiltered
  from generations where rowid > ? and rowid <= ? order by rowid limit ?`

/** Reads calls after a row and up to another, `limit` at most. */
export type CallReader = (after: number, last: number, limit: number) => CallFacts[]

/** Creates the reader of calls. */
export const createCallReader =
  (db: Database): CallReader =>
  (after, last, limit) =>
    db.query<Row, [number, number, number]>(SELECT).all(after, last, limit).map(toFacts)

// The row is not copied: millions are read.
function toFacts(row: Row): CallFacts {
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
