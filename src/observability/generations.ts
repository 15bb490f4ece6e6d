import { Type } from '@sinclair/typebox'
import { type ErrorType, isCallersFault, requireFound, STATUS } from '../base/errors.ts'
import { getOwn, omitUndefined } from '../base/json.ts'
import { toUsd } from '../base/money.ts'
import type { Region } from '../language/region.ts'
import type { Actor } from '../resources/actor.ts'
import type { GenerationListQuery } from './generations/filter.ts'
import { findGeneration } from './generations/find.ts'
import type { WrittenMessages } from './outbox.ts'
import type { RecorderEntry } from './recorder.ts'
import type { TelemetryWorld } from './world.ts'

/**
 * One attempt at one endpoint, as the record has it. Latency in milliseconds; a null status means
 * that no answer came.
 */
export interface ProviderResponse {
  provider_name: string
  model_permaslug: string
  endpoint_id: string
  is_byok: boolean
  latency: number
  status: number | null
  /** The provider's own id of the request; null if it sent none. */
  request_id: string | null
  /** That a provider has taken the prompt, and has not failed by itself: it is paid. Absent if not. */
  taken?: true
  /** Why it failed, in the provider's own words if it had any; null if it answered. */
  error: AttemptError | null
  /** The parameters and tools that were left out, as the endpoint has none of them. */
  ignored?: string[]
}

/** Why an attempt failed: our type for it, and what the provider says. */
export interface AttemptError {
  type: ErrorType
  code: string | null
  message: string | null
}

/**
 * What one content filter found in a call or in its answer: how often, and what was done. Never the
 * matched text.
 */
export interface Finding {
  guardrail_id: string
  /** The builtin's slug, or the label of the pattern; `pattern` where it has none. */
  filter: string
  action: 'block' | 'redact' | 'flag'
  where: 'input' | 'output'
  count: number
}

/**
 * One turn of a model, or one use of a tool of the gateway, within a call that had several. Money in
 * nano-dollars, times in milliseconds.
 */
export interface GenerationStep {
  type: 'model' | 'tool'
  /** The model, or the tool as the client named it. */
  name: string
  /** The function of the tool that the model called. */
  function: string | null
  /** How many uses of tools it is inside; absent for 0. */
  depth?: number
  provider_name: string | null
  native_tokens_prompt: number
  native_tokens_completion: number
  /** Null if the model has no known price. */
  cost: bigint | null
  latency: number
  finish_reason: string | null
  /** Whether it failed, and the type of the error if there was one. */
  is_error: boolean
  error_type: string | null
  /** At the last one: the bound that left nothing for a turn or a use. Absent if none did. */
  ended_by?: string
}

/**
 * The record of a finished call, in the order of its columns: the public one field by field (wire
 * reference B.4), and whose it was and how its cost is known. Money in nano-dollars, times in
 * milliseconds.
 */
export interface Generation {
  id: string
  request_id: string
  created_at: string
  workspace_id: string
  key_hash: string | null
  user_id: string
  api_type: string
  model: string
  provider_name: string | null
  provider_responses: ProviderResponse[]
  upstream_id: string | null
  streamed: boolean
  cancelled: boolean
  finish_reason: string | null
  native_finish_reason: string | null
  latency: number | null
  generation_time: number | null
  native_tokens_prompt: number
  native_tokens_completion: number
  native_tokens_reasoning: number
  native_tokens_cached: number
  native_tokens_completion_images: number
  /** When its cost was counted, which decides its window. */
  settled_at: string
  total_cost: bigint | null
  upstream_inference_cost: bigint | null
  usageSource: 'exact' | 'estimated' | 'none'
  is_byok: boolean
  service_tier: string | null
  session_id: string | null
  external_user: string | null
  http_referer: string | null
  title: string | null
  user_agent: string | null
  error_type: string | null
  preset_id: string | null
  /** The region of the gateway that it came in through. */
  data_region: Region
  /** The router that chose the model, under the name that was requested. */
  router: string | null
  /** The call whose answer was given again; null for an answer of its own. */
  response_cache_source_id: string | null
  /** The batch that it is a line of. */
  batch_id: string | null
  /** What content filters found. */
  contentFilters: Finding[]
  /** What it did, in order; empty for a call of one turn. */
  steps: GenerationStep[]
}

/**
 * Stores generations. `record` is one transaction for the rows, those of the ledger, the days'
 * spending and the outbox. It throws 409 for what can never be stored: a generation that is on
 * record, a step that is already charged, an amount or a value that no column can hold.
 */
export interface GenerationStore {
  /** Writes a batch, and returns what destinations are told with it. */
  record(batch: RecorderEntry[]): Promise<WrittenMessages[]>
  /**
   * Keeps those of a batch that `record` did not take where the next start finds them, and returns
   * them: none where nothing outlives the process but what is recorded. They are still to be recorded.
   */
  keep(batch: RecorderEntry[]): Promise<RecorderEntry[]>
  /** Writes what `record` has put aside: every process that reads the store sees it then. */
  flush(): Promise<void>
  byId(id: string): Promise<Generation | undefined>
  /**
   * Removes some of the calls that were settled before this midnight, with what was asked, answered
   * and said about them. Adds them to the sums of removed calls. Returns how many; 0 at the end.
   */
  evictBefore(midnight: string, now: string): Promise<number>
  /**
   * Lists at most `limit` calls that match, newest first, and only those before `cursor`: the id of
   * a call. Times have milliseconds, as in the records.
   */
  list(query: GenerationListQuery, limit: number): Promise<Generation[]>
  /** Lists at most `limit` ids that begin with a text. */
  listIds(beginning: string, limit: number): Promise<string[]>
  /** Returns those of these ids, however many, that have a record. */
  filterRecorded(ids: string[]): Promise<Set<string>>
  /** Counts the calls of free models that began at `moment` or later. */
  countFreeCalls(moment: Date): Promise<number>
}

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
