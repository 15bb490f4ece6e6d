import { yieldToEventLoop } from '../base/clock.ts'
import type { Events } from '../base/events.ts'
import type { Generation } from './generations/store.ts'
import type { App } from './rollups/apps.ts'
import {
  addSessionCall,
  type CellBounds,
  type SessionCell,
  type SessionSums,
} from './rollups/sessions.ts'

/** What sums can be grouped and filtered by. `variant` is what follows the colon of a model. */
export const SUM_DIMENSIONS = [
  'workspace_id',
  'key_hash',
  'user_id',
  'model',
  'variant',
  'provider_name',
  'endpoint_id',
  'app_id',
  'is_byok',
] as const satisfies (keyof CallGroup | 'variant')[]
export type SumDimension = (typeof SUM_DIMENSIONS)[number]

export type Comparison = 'eq' | 'neq' | 'in' | 'not_in' | 'gt' | 'gte' | 'lt' | 'lte'

/** A condition on the text of a dimension. Scalar comparisons have one value. */
export interface Condition<Name extends string = SumDimension> {
  dimension: Name
  comparison: Comparison
  values: string[]
}

/** Which sums are asked for. */
export interface SumQuery {
  /** Sums by the hour or by the day. */
  grain: 'hour' | 'day'
  /** The first hour or day, and the one after the last, counted from 1970-01-01. */
  from: number
  until: number
  by: SumDimension[]
  /** Whether each hour or day has its own sums. */
  isByTime: boolean
  conditions: Condition[]
}

/** One of the sums. `values` are those of the dimensions, in their order. */
export interface SumRow {
  start: number | null
  values: string[]
  sums: CallSums
}

/**
 * Stores sums of the calls on record. They are as of a cursor among the records; `advance` moves it
 * on and adds what it passes in one transaction, so that a killed process counts nothing twice.
 */
export interface RollupStore {
  /**
   * Adds the next calls, and returns how many there were: fewer than `limit` when all are added. Of
   * those that have to be read it adds `limit` at most.
   */
  advance(limit: number): Promise<number>
  /**
   * Forgets all sums, so that `advance` begins with the first record. Ids and slugs of apps stay.
   * Throws 409 where calls that were counted are no longer on record.
   */
  reset(): Promise<void>
  /** Lists sums, in no order. */
  sum(query: SumQuery): Promise<SumRow[]>
  /** Finds the first and the last hour that calls were settled in; null for no calls. */
  findHours(): Promise<{ first: number; last: number } | null>
  /** Finds the hour from which on every call is still on record; 0 where none was removed. */
  findComplete(): Promise<number>
  /** Finds the rows that calls of these hours are among; null for none. `until` is excluded. */
  findRows(from: number, until: number): Promise<{ first: number; last: number } | null>
  /** Lists calls after a row and up to another, in their order. */
  listCalls(after: number, last: number, limit: number): Promise<CallFacts[]>
  /** Lists all apps. */
  listApps(): Promise<App[]>
  /**
   * Lists the cells of a week within bounds, of sessions without those that had no answer or a call
   * of unknown price. In the order of slugs, models and turns.
   */
  listSessionCells(week: number, bounds: CellBounds): Promise<SessionCell[]>
  /** Compares the sums with the records that they were made of, and describes differences. */
  verify(): Promise<string[]>
}

/** The services that roll-ups use. */
export interface RollupReader {
  store: { rollups: RollupStore }
}

/** How many calls are added in one transaction: others get their turn after each. */
const AT_ONCE = 400

/**
 * Adds all calls on record to the roll-ups. `check` runs after each slice, and ends it by throwing.
 */
export async function rollUp(
  { store: { rollups } }: RollupReader,
  check: () => void = () => undefined,
): Promise<void> {
  while ((await rollups.advance(AT_ONCE)) >= AT_ONCE) {
    await yieldToEventLoop()
    check()
  }
}

/** Computes all roll-ups again from the records. Throws 409 as `RollupStore.reset` does. */
export async function recomputeRollups(world: RollupReader): Promise<{ data: { state: 'done' } }> {
  await world.store.rollups.reset()
  await rollUp(world)
  return { data: { state: 'done' } }
}

/** Keeps the roll-ups of a process near its records. */
export interface RollupKeeper {
  /** Begins a run in the background, unless one runs. */
  start(): void
  /** Ends the run at its next slice, and waits for it. */
  close(): Promise<void>
}

/** After so many calls they are added: a query adds what is left. */
const ADDED_AFTER = 500

/** Rolls up in the background, after every five hundred calls. A call only counts. */
export function openRollupKeeper(world: RollupReader & { events: Events }): RollupKeeper {
  let left = 0
  let isClosed = false
  let running: Promise<void> | undefined
  const check = () => {
    if (isClosed) throw new Error('The gateway is closed')
  }
  const start = () => {
    left = 0
    // What fails is tried again after the next calls, or by a query, which says what failed.
    running ??= rollUp(world, check)
      .catch(() => undefined)
      .finally(() => {
        running = undefined
      })
  }
  world.events.on('generation.finished', () => {
    left += 1
    if (left >= ADDED_AFTER) start()
  })
  return {
    start,
    async close() {
      isClosed = true
      await running
    },
  }
}

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

/** What sums read of a call: of its record, or of what was read of that. */
export type SummedCall = CountedCall &
  Pick<
    Generation,
    | 'settled_at'
    | 'workspace_id'
    | 'key_hash'
    | 'user_id'
    | 'model'
    | 'provider_name'
    | 'http_referer'
    | 'title'
    | 'session_id'
  >

/** What the calls of one hour come to that share all that sums are grouped by. */
export interface HourSums {
  hour: number
  /** One of the calls: what they share is read from it. */
  call: SummedCall
  endpoint_id: string
  sums: CallSums
}

/** What a session did in a week with one model. */
interface SessionWeek extends SessionSums {
  week: number
  /** One of its calls. */
  call: SummedCall
}

/** Whether a call has in common with those of sums what these are kept by. */
const isOfSums = (
  { hour, call, endpoint_id }: HourSums,
  other: Pick<HourSums, 'hour' | 'call' | 'endpoint_id'>,
): boolean =>
  hour === other.hour &&
  endpoint_id === other.endpoint_id &&
  call.workspace_id === other.call.workspace_id &&
  call.key_hash === other.call.key_hash &&
  call.user_id === other.call.user_id &&
  call.model === other.call.model &&
  call.provider_name === other.call.provider_name &&
  call.is_byok === other.call.is_byok &&
  call.http_referer === other.call.http_referer &&
  call.title === other.call.title

/** Consecutive calls as sums, by what they share. */
export class Slice {
  /** The rows of its first and last call; 0 without calls. */
  first = 0
  last = 0
  count = 0
  readonly hours = new Map<string, HourSums>()
  /** Which rows the calls of an hour are among. */
  readonly rows = new Map<number, { first: number; last: number }>()
  readonly sessions = new Map<string, SessionWeek>()
  /** The sums that the last call was added to: often those of the next one, too. */
  #lastSums: HourSums | null = null

  /** Adds the call that follows the last one, with its row and what a record lists. */
  add(
    call: SummedCall,
    { row, endpoint_id, isFiltered }: Pick<CallFacts, 'row' | 'endpoint_id' | 'isFiltered'>,
  ): void {
    const hour = toHour(Date.parse(call.settled_at))
    if (this.count === 0) this.first = row
    this.last = row
    this.count += 1
    const added = { hour, call, endpoint_id }
    if (!this.#lastSums || !isOfSums(this.#lastSums, added)) this.#lastSums = this.#openSums(added)
    addCall(this.#lastSums.sums, call, isFiltered)
    const rows = this.rows.get(hour)
    if (rows) rows.last = row
    else this.rows.set(hour, { first: row, last: row })
    if (call.session_id !== null) this.#addToSession(toWeek(toDay(hour)), call)
  }

  #openSums({ hour, call, endpoint_id }: Omit<HourSums, 'sums'>): HourSums {
    const { workspace_id, key_hash, user_id, model, provider_name, http_referer, title } = call
    const payer = [workspace_id, key_hash, user_id, call.is_byok]
    const server = [model, provider_name, endpoint_id]
    const name = JSON.stringify([hour, payer, server, http_referer, title])
    const found = this.hours.get(name) ?? { hour, call, endpoint_id, sums: createSums() }
    this.hours.set(name, found)
    return found
  }

  #addToSession(week: number, call: SummedCall): void {
    const { http_referer, title, model, key_hash, session_id } = call
    const name = JSON.stringify([week, http_referer, title, model, key_hash, session_id])
    const found = this.sessions.get(name) ?? { week, call, turns: 0, cost: 0n, unpriced_calls: 0 }
    this.sessions.set(name, found)
    addSessionCall(found, call)
  }
}

/** How many calls may wait in memory. A process that never adds them to the roll-ups forgets them. */
const MOST = 1_000

/**
 * The sums of the calls that this process recorded last, so that they need not be read again. They
 * are a part of the records without a gap: what does not follow on the last call begins anew.
 */
export class FreshCalls {
  slice = new Slice()

  /** Adds a call that is on record now, at this row. */
  note(generation: Generation, row: number): void {
    if (row !== this.slice.last + 1 || this.slice.count >= MOST) this.clear()
    this.slice.add(generation, {
      row,
      endpoint_id: generation.provider_responses.at(-1)?.endpoint_id ?? '',
      isFiltered: generation.contentFilters.length > 0,
    })
  }

  /** Forgets them: they are in the roll-ups now, or are read again. */
  clear(): void {
    this.slice = new Slice()
  }
}
