import type { Generation } from '../generations/store.ts'

/** What roll-ups and queries read of a finished call. Empty texts stand for none. */
export interface CallFacts
  extends Pick<
    Generation,
    | 'id'
    | 'settled_at'
    | 'workspace_id'
    | 'user_id'
    | 'api_type'
    | 'model'
    | 'streamed'
    | 'cancelled'
    | 'finish_reason'
    | 'latency'
    | 'generation_time'
    | 'native_tokens_prompt'
    | 'native_tokens_completion'
    | 'native_tokens_reasoning'
    | 'native_tokens_cached'
    | 'total_cost'
    | 'upstream_inference_cost'
    | 'is_byok'
    | 'session_id'
    | 'external_user'
    | 'http_referer'
    | 'title'
    | 'error_type'
    | 'data_region'
  > {
  /** Its place among the records: a later call has a larger one. */
  row: number
  key_hash: string
  provider_name: string
  /** The endpoint that was asked last. */
  endpoint_id: string
  /** Whether a content filter found something. */
  isFiltered: boolean
}

/** What the calls of one sum have in common. Empty texts and 0 stand for none. */
export interface CallGroup {
  workspace_id: string
  key_hash: string
  user_id: string
  model: string
  provider_name: string
  endpoint_id: string
  app_id: number
  is_byok: boolean
}

/** The names of sums that count, and of those of money in nano-dollars. */
export const COUNTS = [
  'calls',
  'byok_calls',
  'failed_calls',
  'cancelled_calls',
  'filtered_calls',
  'prompt_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'cached_tokens',
] as const
export const AMOUNTS = ['cost', 'byok_cost', 'upstream_cost'] as const

/** What some calls come to. `byok_cost` was paid at providers, and is not part of `cost`. */
export type CallSums = Record<(typeof COUNTS)[number], number> &
  Record<(typeof AMOUNTS)[number], bigint>

/** Creates the sums of no calls. */
export const createSums = (): CallSums => ({
  calls: 0,
  byok_calls: 0,
  failed_calls: 0,
  cancelled_calls: 0,
  filtered_calls: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  reasoning_tokens: 0,
  cached_tokens: 0,
  cost: 0n,
  byok_cost: 0n,
  upstream_cost: 0n,
})

/** How a record is marked that corrects what calls were charged: it has money, and is no call. */
export const CORRECTION = 'correction'

/** What is counted of a call. */
export type CountedCall = Pick<
  Generation,
  | 'api_type'
  | 'cancelled'
  | 'native_tokens_prompt'
  | 'native_tokens_completion'
  | 'native_tokens_reasoning'
  | 'native_tokens_cached'
  | 'total_cost'
  | 'upstream_inference_cost'
  | 'is_byok'
  | 'error_type'
>

/** Adds one call, or the money of a correction, to sums. */
export function addCall(sums: CallSums, call: CountedCall, isFiltered: boolean): void {
  const calls = call.api_type === CORRECTION ? 0 : 1
  sums.calls += calls
  sums.byok_calls += call.is_byok ? calls : 0
  sums.failed_calls += Number(call.error_type !== null && !call.cancelled)
  sums.cancelled_calls += Number(call.cancelled)
  sums.filtered_calls += Number(isFiltered)
  sums.prompt_tokens += call.native_tokens_prompt
  sums.completion_tokens += call.native_tokens_completion
  sums.reasoning_tokens += call.native_tokens_reasoning
  sums.cached_tokens += call.native_tokens_cached
  sums.cost += call.total_cost ?? 0n
  sums.byok_cost += call.is_byok ? (call.upstream_inference_cost ?? 0n) : 0n
  sums.upstream_cost += call.upstream_inference_cost ?? 0n
}

/** Adds sums to others. */
export function addSums(sums: CallSums, more: CallSums): void {
  for (const name of COUNTS) sums[name] += more[name]
  for (const name of AMOUNTS) sums[name] += more[name]
}

const HOUR = 3_600_000
const DAY = 24

/** Returns the hour of a moment, counted from 1970-01-01 in UTC. */
export const toHour = (moment: number): number => Math.floor(moment / HOUR)
/** Returns the moment at which an hour begins, in milliseconds. */
export const toMoment = (hour: number): number => hour * HOUR
/** Returns the day of an hour. */
export const toDay = (hour: number): number => Math.floor(hour / DAY)

/** 1970-01-01 was a Thursday. */
const MONDAY = 3
const WEEK = 7

/** Returns the week of a day, which begins on Monday. */
export const toWeek = (day: number): number => Math.floor((day + MONDAY) / WEEK)
/** Returns the first day of a week. */
export const toFirstDay = (week: number): number => week * WEEK - MONDAY

/** Renders a day as YYYY-MM-DD. */
export const renderDay = (day: number): string =>
  new Date(toMoment(day * DAY)).toISOString().slice(0, 10)
/** Returns the day that is written as YYYY-MM-DD; null if there is no such day. */
export function parseDay(text: string): number | null {
  const moment = Date.parse(`${text}T00:00:00.000Z`)
  const day = toDay(toHour(moment))
  return Number.isNaN(moment) || renderDay(day) !== text ? null : day
}
