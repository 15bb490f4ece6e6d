import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../base/errors.ts'
import { type Actor, canManageAll } from '../resources/actor.ts'
import type { Model } from '../resources/models/catalog.ts'
import type { IdentityWorld } from '../resources/world.ts'
import type { App } from './rollups/apps.ts'
import type { ReadingWorld } from './rollups/reading.ts'
import { Reading } from './rollups/reading.ts'
import { parseDay, renderDay, toDay, toHour } from './rollups.ts'

/** What datasets need from the gateway. */
export interface DatasetWorld extends ReadingWorld {
  memory: Pick<IdentityWorld['memory'], 'owner'>
  config: ReadingWorld['config'] & {
    service_name: string
    datasets: { enabled: boolean; minimum_sessions: number; minimum_workspaces: number }
  }
  catalog: {
    models: {
      get(
        slug: string,
      ): Pick<Model, 'input_modalities' | 'output_modalities' | 'unlisted'> | undefined
    }
  }
  traffic: { counters: { countReading(actor: Pick<Actor, 'key_hash'>): void | Promise<void> } }
}

/** The version of all datasets (specification, Versioning 3). */
export const VERSION = 'v1'

/** Says of when a dataset is, and who may use it for what (E12). */
export const showSource = ({ clock, config: { service_name } }: DatasetWorld) => ({
  as_of: clock.now().toISOString(),
  version: VERSION,
  license:
    'Licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/): reuse and republish ' +
    `with attribution to ${service_name}.`,
})

/** A day in the query of a dataset. */
export const Day = Type.String({
  pattern: '^\\d{4}-\\d{2}-\\d{2}$',
  maxLength: 10,
  title: 'YYYY-MM-DD',
})

/** The first and last day of a query. */
export const DayRange = Type.Object({
  start_date: Type.Optional(Day),
  end_date: Type.Optional(Day),
})

export type DayRange = Static<typeof DayRange>

/**
 * Opens a reading of a dataset, up to date with the records. Throws 404 where datasets are switched
 * off, and 429 where the key, or all keys together, have read as often as the config allows. The
 * operator may always read, and as often as they like.
 */
export async function openDataset(world: DatasetWorld, actor: Actor): Promise<Reading> {
  if (actor.kind !== 'operator') {
    if (!world.config.datasets.enabled) throw notFound('Datasets are switched off here')
    await world.traffic.counters.countReading(actor)
  }
  const reading = new Reading(world)
  await reading.rollUp()
  return reading
}

/** Whose rows a reader may see. */
export interface Audience {
  /** The workspaces that a row of others has to be of, at least: 0 shows all rows. */
  workspaces: number
  /** The workspace whose own rows they see beside these. */
  workspace_id: string
}

/**
 * Returns whose rows an actor may see: of at least as many workspaces as the config says, and their
 * own. The operator and management keys of the default workspace see all calls elsewhere, too.
 */
export function findAudience(world: DatasetWorld, actor: Actor): Audience {
  const seesAll = actor.kind !== 'inference' && canManageAll(world, actor)
  const { minimum_workspaces } = world.config.datasets
  return { workspaces: seesAll ? 0 : minimum_workspaces, workspace_id: actor.workspace_id }
}

/** What calls used. */
interface Use {
  tokens: number
  calls: number
}

/** What the calls of one row used, by their workspaces. */
export class RowUse {
  readonly #uses = new Map<string, Use>()

  add(workspace_id: string, { tokens, calls }: Use): void {
    const use = this.#uses.get(workspace_id) ?? { tokens: 0, calls: 0 }
    this.#uses.set(workspace_id, use)
    use.tokens += tokens
    use.calls += calls
  }

  /** Sums what an audience may know: of all workspaces, or of its own alone; null for nothing. */
  sumFor({ workspaces, workspace_id }: Audience): (Use & { isOwn: boolean }) | null {
    const isOwn = this.#uses.size < workspaces
    const own = this.#uses.get(workspace_id)
    if (isOwn) return own ? { ...own, isOwn } : null
    const sum = { tokens: 0, calls: 0, isOwn }
    for (const { tokens, calls } of this.#uses.values()) {
      sum.tokens += tokens
      sum.calls += calls
    }
    return sum
  }
}

/**
 * Returns the name that an app is shown by. The title that came with an address first may be that
 * of another workspace, so a row of one's own tells the address.
 */
export const nameApp = ({ identity, name }: App, isOwn: boolean): string =>
  isOwn && identity.startsWith(ADDRESS) ? identity.slice(ADDRESS.length) : name

const ADDRESS = 'address '

/** The first day of the public datasets: earlier ones are read as this one. */
const FIRST_DAY = parseDay('2025-01-01') ?? 0
const USUAL_DAYS = 30

/** Days from one up to another, both included, counted from 1970-01-01. */
export interface Days {
  first: number
  last: number
}

/**
 * Returns the days that a query means: up to yesterday and from 30 days before, where it does not
 * say. Throws 400 for a day that does not exist, an end before 2025, or days in the wrong order.
 */
export function resolveDays({ clock }: ReadingWorld, { start_date, end_date }: DayRange): Days {
  const today = toDay(toHour(clock.now().getTime()))
  const last = readDay('end_date', end_date) ?? today - 1
  if (last < FIRST_DAY) throw invalid('end_date: expected 2025-01-01 or later', 'end_date')
  const first = readDay('start_date', start_date) ?? last - USUAL_DAYS
  if (first > last) throw invalid('start_date: expected no later than end_date', 'start_date')
  // Nothing is known of days to come.
  return { first: Math.max(first, FIRST_DAY), last: Math.max(Math.min(last, today), FIRST_DAY) }
}

function readDay(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const day = parseDay(text)
  if (day === null) throw invalid(`${name}: expected a day that exists`, name)
  return day
}

/** Shows what a dataset of days is about. */
export const showDays = (world: DatasetWorld, { first, last }: Days) => ({
  ...showSource(world),
  start_date: renderDay(first),
  end_date: renderDay(last),
})
