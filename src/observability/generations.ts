import { Type } from '@sinclair/typebox'
import { type ErrorType, isCallersFault, requireFound, STATUS } from '../base/errors.ts'
import { getOwn, omitUndefined } from '../base/json.ts'
import { toUsd } from '../base/money.ts'
import type { Actor } from '../resources/actor.ts'
import type { GenerationListQuery } from './generations/filter.ts'
import { findGeneration } from './generations/find.ts'
import type { Generation, ProviderResponse } from './generations/store.ts'
import type { TelemetryWorld } from './world.ts'

/** Returns the status that a call ended with: that of its error, or 200. */
export const getCallStatus = ({
  cancelled,
  error_type,
}: Pick<Generation, 'cancelled' | 'error_type'>): number =>
  cancelled
    ? STATUS.cancelled
    : error_type === null
      ? 200
      : (STATUS[error_type as ErrorType] ?? 500)

/**
 * Names how a call failed; null if it did not. The same name stands in its record, in sums, metrics
 * and spans. Older records have other types for calls whose client had left.
 */
export const nameFailure = ({
  cancelled,
  error_type,
}: Pick<Generation, 'cancelled' | 'error_type'>): string | null =>
  cancelled ? 'cancelled' : error_type

/** The query of `GET /generation`. */
export const GenerationQuery = Type.Object({ id: Type.String({ minLength: 1, maxLength: 200 }) })

/**
 * Returns one finished call by its id or the request id that its caller saw, if the actor may see
 * its workspace. Throws 404, also for another workspace's.
 */
export const getGeneration = async (world: TelemetryWorld, actor: Actor, id: string) => ({
  data: showGeneration(await findGeneration(world, actor, id), actor),
})

/**
 * Lists the calls that match, newest first. `next_cursor` asks for the page after; it is null on
 * the last one. Throws 404 for a cursor that is no call.
 */
export async function listGenerations(
  world: TelemetryWorld,
  actor: Actor,
  query: GenerationListQuery,
) {
  const { limit = 20, since, until, cursor } = query
  const { generations } = world.store
  if (cursor !== undefined) requireFound(await generations.byId(cursor), 'The call of the cursor')
  // In the format of the records: `00Z` is not before `00.500Z` as a text.
  const times = omitUndefined({
    since: since && new Date(since).toISOString(),
    until: until && new Date(until).toISOString(),
  })
  const found = await generations.list({ ...query, ...times }, limit + 1)
  const page = found.slice(0, limit)
  return {
    data: page.map(generation => showGeneration(generation, actor)),
    next_cursor: found.length > limit ? (page.at(-1)?.id ?? null) : null,
  }
}

/** The public names of API types that the public API has no name for (wire reference B.4). */
const PUBLIC_API_TYPES: Record<string, string> = {
  responses: 'completions',
  correction: 'completions',
}

/**
 * Shows a call. The operator sees why each attempt failed in the provider's words, as they may be
 * about the account there; others see those that are about the call. A key sees only its own hash.
 */
function showGeneration(generation: Generation, { kind, key_hash }: Actor) {
  const isOperator = kind === 'operator'
  const {
    key_hash: caller,
    provider_responses,
    user_id: __,
    settled_at: ___,
    api_type,
    title,
    total_cost,
    upstream_inference_cost,
    steps,
    usageSource: usage_source,
    contentFilters: content_filters,
    ...shown
  } = generation
  const cost = toUsd(total_cost ?? 0n)
  return {
    ...shown,
    usage_source,
    content_filters,
    ignored: listIgnored(provider_responses),
    api_type: isOperator ? api_type : (getOwn(PUBLIC_API_TYPES, api_type) ?? api_type),
    key_hash: isOperator || kind === 'management' || caller === key_hash ? caller : null,
    provider_responses: provider_responses.map(isOperator ? hideTaken : hideReason),
    steps: steps.map(({ cost, ...step }) => ({
      ...step,
      cost: cost === null ? null : toUsd(cost),
    })),
    tree: {
      requests: provider_responses.length,
      tokens: generation.native_tokens_prompt + generation.native_tokens_completion,
      usd: cost,
      ended_by: steps.at(-1)?.ended_by ?? null,
    },
    app_id: null,
    cache_discount: null,
    moderation_latency: null,
    num_fetches: null,
    num_input_audio_prompt: null,
    num_media_completion: null,
    num_media_prompt: null,
    num_search_results: null,
    origin: generation.http_referer ?? title ?? '',
    tokens_prompt: generation.native_tokens_prompt,
    tokens_completion: generation.native_tokens_completion,
    total_cost: cost,
    usage: cost,
    // Our own field: the public ones have no word for a cost that is not known.
    is_priced: total_cost !== null,
    upstream_inference_cost:
      upstream_inference_cost === null ? null : toUsd(upstream_inference_cost),
    web_search_engine: null,
  }
}

/** Lists what was left out for the endpoints that answered: each name once. */
export function listIgnored(responses: ProviderResponse[]): string[] {
  const names = new Set<string>()
  for (const { error, ignored } of responses)
    if (!error && ignored) for (const name of ignored) names.add(name)
  return [...names]
}

const hideTaken = ({ taken: _, ...response }: ProviderResponse): ProviderResponse => response

const hideReason = ({ error, taken: _, ...response }: ProviderResponse): ProviderResponse => ({
  ...response,
  error: error && { ...error, message: isCallersFault(error.type) ? error.message : null },
})
