import { type Static, Type } from '@sinclair/typebox'
import { oneOf } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import type { DatasetWorld } from './datasets.ts'
import { renderDay, toDay, toHour } from './rollups/calls.ts'

/** The query of `GET /classifications/task`. */
export const TaskQuery = Type.Object({ window: Type.Optional(oneOf('7d')) })
export type TaskQuery = Static<typeof TaskQuery>

const WINDOW_DAYS = 7

/**
 * Shows which tasks calls were about. This gateway does not classify what its callers write, so it
 * knows none. Throws 429.
 */
export async function getTaskClassifications(world: DatasetWorld, actor: Actor, _query: TaskQuery) {
  if (actor.kind !== 'operator') await world.traffic.counters.countReading(actor)
  const yesterday = toDay(toHour(world.clock.now().getTime())) - 1
  return {
    data: {
      window_days: WINDOW_DAYS,
      as_of: renderDay(yesterday),
      classifications: [],
      macro_categories: [],
    },
  }
}
