import { yieldToEventLoop } from '../base/clock.ts'
import type { Events } from '../base/events.ts'
import type { App } from './rollups/apps.ts'
import type { CallFacts, CallGroup, CallSums } from './rollups/calls.ts'
import type { CellBounds, SessionCell } from './rollups/sessions.ts'

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
