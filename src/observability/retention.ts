import { type Clock, toDayNumber, yieldToEventLoop } from '../base/clock.ts'
import type { Events } from '../base/events.ts'
import type { Config } from '../config.ts'
import { DAYS_KEPT, type LedgerStore } from '../limits/ledger.ts'
import { findResponseStart } from '../resources/responses.ts'
import type { GenerationStore } from './generations/store.ts'
import type { RefusalStore } from './refusals.ts'
import { type RollupReader, rollUp } from './rollups.ts'
import { findContentStart, MIB, type TranscriptStore, type TranscriptWorld } from './transcripts.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** Rows were removed because they were too old, or because all of them took too much room. */
    'rows.evicted': Eviction
  }
}

/** The kinds of rows that are kept for a while. */
export type EvictedKind = 'generations' | 'content' | 'refusals' | 'batches' | 'responses'

/** How many rows were removed, and why. */
export interface Eviction {
  kind: EvictedKind
  reason: 'age' | 'size'
  rows: number
}

/** What was removed so far, as the store counts it. Times in ISO 8601. */
export interface EvictionCount extends Eviction {
  last_at: string
}

/** Stores the counts of removed rows. What removes rows counts them in the same transaction. */
export interface EvictionStore {
  all(): Promise<EvictionCount[]>
  /**
   * Erases some of what deleted workspaces and destinations have left, as far as a killed process
   * has not. Returns how many rows; 0 when nothing is left.
   */
  eraseDeleted(): Promise<number>
}

/** What is needed to remove rows whose time is over. */
interface RetentionWorld {
  config: Config
  clock: Clock
  events: Events
  store: {
    generations: Pick<GenerationStore, 'evictBefore'>
    rollups: RollupReader['store']['rollups']
    refusals: Pick<RefusalStore, 'removeBefore'>
    transcripts: TranscriptStore
    batches: { removeBefore(time: string, now: string): Promise<number> }
    responses: { removeBefore(time: string, now: string): Promise<number> }
    evictions: Pick<EvictionStore, 'eraseDeleted'>
    ledger: Pick<LedgerStore, 'removeSubaccountDays'>
  }
}

/**
 * Removes the rows whose time is over by `retention`, in small transactions. Sums of calls that are
 * removed stay, so that usage and the checks of the ledger still add up. No entry of the ledger and
 * of the audit trail is ever removed. Of batches only those that
 * have ended are removed. What deleted workspaces have left is erased. Publishes and returns what
 * was removed by age or size.
 */
export async function evictRows(world: RetentionWorld): Promise<Eviction[]> {
  await removeAll(() => world.store.evictions.eraseDeleted())
  const oldest = toDayNumber(world.clock.now()) - DAYS_KEPT
  await removeAll(() => world.store.ledger.removeSubaccountDays(oldest))
  const evictions = [
    await evictGenerations(world),
    ...(await trimTranscripts(world)),
    await evictRefusals(world),
    await evictBatches(world),
    await evictResponses(world),
  ].filter(({ rows }) => rows > 0)
  for (const eviction of evictions) world.events.publish('rows.evicted', eviction)
  return evictions
}

async function evictGenerations(world: RetentionWorld): Promise<Eviction> {
  const { config, clock, store } = world
  const before = findStart(clock, config.retention.generations_days)
  const now = clock.now().toISOString()
  if (before !== null) await rollUp(world)
  const rows =
    before === null ? 0 : await removeAll(() => store.generations.evictBefore(before, now))
  return { kind: 'generations', reason: 'age', rows }
}

async function evictRefusals({ config, clock, store }: RetentionWorld): Promise<Eviction> {
  const before = findStart(clock, config.retention.refusals_days)
  const now = clock.now().toISOString()
  const rows = before === null ? 0 : await removeAll(() => store.refusals.removeBefore(before, now))
  return { kind: 'refusals', reason: 'age', rows }
}

async function evictBatches({ config, clock, store }: RetentionWorld): Promise<Eviction> {
  const before = findStart(clock, config.retention.batches_days)
  const now = clock.now().toISOString()
  const rows = before === null ? 0 : await removeAll(() => store.batches.removeBefore(before, now))
  return { kind: 'batches', reason: 'age', rows }
}

/** To the moment: their time is over for clients too. */
async function evictResponses({ config, clock, store }: RetentionWorld): Promise<Eviction> {
  const now = clock.now()
  const before = findResponseStart(config, now)
  const rows = await removeAll(() => store.responses.removeBefore(before, now.toISOString()))
  return { kind: 'responses', reason: 'age', rows }
}

const DAY = 86_400_000

/** Returns the midnight before which rows are removed; null where they are kept for ever. */
function findStart(clock: Clock, days: number): string | null {
  if (days === 0) return null
  const midnight = Math.floor(clock.now().getTime() / DAY) * DAY
  return new Date(midnight - days * DAY).toISOString()
}

interface TrimWorld extends Pick<TranscriptWorld, 'config' | 'clock'> {
  store: { transcripts: TranscriptStore }
}

/** Removes what exceeds the bounds of all content, and returns how many rows that were. */
export async function trimTranscripts({
  store: { transcripts },
  config: { retention },
  clock,
}: TrimWorld): Promise<Eviction[]> {
  const now = clock.now()
  const start = findContentStart({ retention }, now)
  const old = await removeAll(() => transcripts.removeBefore(start, now.toISOString()))
  const most = retention.content_mib * MIB
  const excess = await removeAll(() => transcripts.trim(most, now.toISOString()))
  return [
    { kind: 'content', reason: 'age', rows: old },
    { kind: 'content', reason: 'size', rows: excess },
  ]
}

/**
 * Repeats the removal of some rows until none is left, in turns of their own. Returns how many that
 * were.
 */
export async function removeAll(removeSome: () => Promise<number>): Promise<number> {
  let removed = 0
  for (let some = await removeSome(); some > 0; some = await removeSome()) {
    removed += some
    await yieldToEventLoop()
  }
  return removed
}
