import { nameFailure } from '../generations.ts'
import { findContextBucket } from '../rollups/context-buckets.ts'
import type { CallFacts, SumDimension } from '../rollups.ts'

/** Something that a query can group and filter by. */
export interface Dimension {
  name: string
  label: string
  /** Its name among the roll-ups; null if only the records have it. */
  sum: SumDimension | null
  /** Reads it of a call. Apps are by their ids in the roll-ups only, so they are looked up. */
  read(call: CallFacts, findApp: (call: CallFacts) => string): string
  /** The value of calls that have none, where they can be asked for. */
  unset?: string
}

const summed = (
  name: string,
  label: string,
  sum: SumDimension,
  read: Dimension['read'],
  unset?: string,
): Dimension => ({ name, label, sum, read, ...(unset === undefined ? {} : { unset }) })

const recorded = (name: string, label: string, read: Dimension['read']): Dimension => ({
  name,
  label,
  sum: null,
  read,
})

/** Returns the variant of a model: what follows its colon. */
function findVariant(model: string): string {
  const colon = model.indexOf(':')
  return colon === -1 ? 'standard' : model.slice(colon + 1)
}

// Older records say `error` where the client had left.
const readEnd = ({ cancelled, finish_reason }: CallFacts): string =>
  cancelled && finish_reason === 'error' ? 'cancelled' : (finish_reason ?? '')

const ALL: Dimension[] = [
  summed('model', 'Model', 'model', ({ model }) => model),
  summed('variant', 'Variant', 'variant', ({ model }) => findVariant(model)),
  summed('provider', 'Provider', 'provider_name', ({ provider_name }) => provider_name),
  summed('endpoint', 'Endpoint', 'endpoint_id', ({ endpoint_id }) => endpoint_id),
  summed('api_key_id', 'API key', 'key_hash', ({ key_hash }) => key_hash, ''),
  summed('user', 'Member', 'user_id', ({ user_id }) => user_id, ''),
  summed('workspace', 'Workspace', 'workspace_id', ({ workspace_id }) => workspace_id),
  summed('app', 'App', 'app_id', (call, findApp) => findApp(call), '0'),
  recorded('generation_id', 'Generation', ({ id }) => id),
  recorded('origin', 'Origin', ({ http_referer, title }) => http_referer ?? title ?? ''),
  recorded('data_region', 'Data region', ({ data_region }) => data_region),
  recorded('skin', 'API', ({ api_type }) => api_type),
  recorded('finish_reason', 'Finish reason', readEnd),
  recorded('error_type', 'Error', call => nameFailure(call) ?? ''),
  recorded('external_user', 'End user', ({ external_user }) => external_user ?? ''),
  recorded('context_length_bucket', 'Context length', ({ native_tokens_prompt }) =>
    findContextBucket(native_tokens_prompt),
  ),
  recorded('session_id', 'Session', ({ session_id }) => session_id ?? 'none'),
  recorded('streamed', 'Streamed', ({ streamed }) => String(streamed)),
]

/** Every dimension, by its name in queries. */
export const DIMENSIONS: ReadonlyMap<string, Dimension> = new Map(
  ALL.map(dimension => [dimension.name, dimension]),
)
