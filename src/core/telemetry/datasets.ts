import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { parseDay, renderDay, toDay, toHour } from './rollups/calls.ts'
import type { ReadingWorld } from './rollups/reading.ts'
import { Reading } from './rollups/reading.ts'

/** What datasets need from the gateway. */
export interface DatasetWorld extends ReadingWorld {
  config: ReadingWorld['config'] & { datasets: { minimum_sessions: number } }
  catalog: {
    models: {
      get(slug: string): { input_modalities: string[]; output_modalities: string[] } | undefined
    }
  }
  traffic: { counters: { countReading(actor: Pick<Actor, 'key_hash'>): void } }
}

/** The version of all datasets (specification, Versioning 3). */
export const VERSION = 'v1'

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
 * Opens a reading of a dataset, up to date with the records. Throws 429 where the key, or all keys
 * together, have read as often as the config allows. The operator may read as often as they like.
 */
export async function openDataset(world: DatasetWorld, actor: Actor): Promise<Reading> {
  if (actor.kind !== 'operator') world.traffic.counters.countReading(actor)
  const reading = new Reading(world)
  await reading.rollUp()
  return reading
}

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
export const showDays = ({ clock }: ReadingWorld, { first, last }: Days) => ({
  as_of: clock.now().toISOString(),
  version: VERSION,
  start_date: renderDay(first),
  end_date: renderDay(last),
})
