import type { Generation, GenerationStep } from '../../../observability/generations.ts'
import type { SealedValue } from './sealing.ts'

/**
 * The value of every column. Booleans, lists and objects are converted, as SQL lacks them. New ones
 * come last: seals cover the first so many.
 */
const COLUMNS: { [Name in keyof Generation]: (generation: Generation) => SealedValue } = {
  id: generation => generation.id,
  request_id: generation => generation.request_id,
  created_at: generation => generation.created_at,
  workspace_id: generation => generation.workspace_id,
  key_hash: generation => generation.key_hash,
  user_id: generation => generation.user_id,
  api_type: generation => generation.api_type,
  model: generation => generation.model,
  provider_name: generation => generation.provider_name,
  provider_responses: generation => JSON.stringify(generation.provider_responses),
  upstream_id: generation => generation.upstream_id,
  streamed: generation => Number(generation.streamed),
  cancelled: generation => Number(generation.cancelled),
  finish_reason: generation => generation.finish_reason,
  native_finish_reason: generation => generation.native_finish_reason,
  latency: generation => generation.latency,
  generation_time: generation => generation.generation_time,
  native_tokens_prompt: generation => generation.native_tokens_prompt,
  native_tokens_completion: generation => generation.native_tokens_completion,
  native_tokens_reasoning: generation => generation.native_tokens_reasoning,
  native_tokens_cached: generation => generation.native_tokens_cached,
  native_tokens_completion_images: generation => generation.native_tokens_completion_images,
  settled_at: generation => generation.settled_at,
  total_cost: generation => renderAmount(generation.total_cost),
  upstream_inference_cost: generation => renderAmount(generation.upstream_inference_cost),
  usageSource: generation => generation.usageSource,
  is_byok: generation => Number(generation.is_byok),
  service_tier: generation => generation.service_tier,
  session_id: generation => generation.session_id,
  external_user: generation => generation.external_user,
  http_referer: generation => generation.http_referer,
  title: generation => generation.title,
  user_agent: generation => generation.user_agent,
  error_type: generation => generation.error_type,
  preset_id: generation => generation.preset_id,
  data_region: generation => generation.data_region,
  router: generation => generation.router,
  response_cache_source_id: generation => generation.response_cache_source_id,
  batch_id: generation => generation.batch_id,
  contentFilters: generation =>
    generation.contentFilters.length === 0 ? '[]' : JSON.stringify(generation.contentFilters),
  steps: ({ steps }) => (steps.length === 0 ? '[]' : renderSteps(steps)),
}

// JSON has no whole numbers of that size, and a column of them takes the text of one.
const renderAmount = (nanos: bigint | null): string | null =>
  nanos === null ? null : String(nanos)

const renderSteps = (steps: GenerationStep[]): string =>
  JSON.stringify(steps.map(({ cost, ...step }) => ({ ...step, cost: cost?.toString() ?? null })))

/** The columns of a record, in the order in which they are sealed. */
export const NAMES = Object.keys(COLUMNS)

const VALUES = Object.values(COLUMNS)

/** Returns the values of a record's columns, in their order. */
export function toValues(generation: Generation): SealedValue[] {
  const values: SealedValue[] = []
  for (const toValue of VALUES) values.push(toValue(generation))
  return values
}
