import { type Static, Type } from '@sinclair/typebox'
import { oneOf, SomeName } from '../../base/schema-builders.ts'
import { compareTexts } from '../../base/sorting.ts'
import type { Actor } from '../../resources/actor.ts'
import { type DatasetWorld, findAudience, nameApp, openDataset, showSource } from '../datasets.ts'
import { type SessionCell, TURN_RANGES } from '../rollups/sessions.ts'
import { renderDay, toDay, toFirstDay, toHour, toWeek } from '../rollups.ts'

/** The query of `GET /datasets/session-cost` (specification, E12). */
export const SessionCostQuery = Type.Object({
  app_slug: Type.Optional(SomeName),
  model: Type.Optional(SomeName),
  turn_range: Type.Optional(oneOf(...TURN_RANGES)),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500 })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 5_000 })),
})
export type SessionCostQuery = Static<typeof SessionCostQuery>

const WINDOW_DAYS = 7

/**
 * Shows what sessions cost in the last week that has ended, Monday through Sunday: the median of
 * each app, model and range of turns. Sessions of two apps are never together, and a cell has as
 * many sessions of as many workspaces as the config asks for, so that it is about no one; cells of
 * fewer workspaces are of the asker's own sessions alone. Throws 404 and 429.
 */
export async function getSessionCost(world: DatasetWorld, actor: Actor, query: SessionCostQuery) {
  await openDataset(world, actor)
  const now = world.clock.now()
  const week = toWeek(toDay(toHour(now.getTime()))) - 1
  const cells = await listCells(world, actor, week)
  const { limit = 100, offset = 0 } = query
  const isPublished = cells.length > 0
  return {
    data: cells
      .filter(cell => isMeant(cell, query))
      .slice(offset, offset + limit)
      .map(showCell),
    meta: {
      ...showSource(world),
      window_days: isPublished ? WINDOW_DAYS : null,
      window_end_date: isPublished ? renderDay(toFirstDay(week + 1) - 1) : null,
    },
  }
}

interface Cell extends SessionCell {
  isOwn: boolean
}

/** Lists the cells that the actor may see, in the order of slugs, models and turns. */
async function listCells(world: DatasetWorld, actor: Actor, week: number): Promise<Cell[]> {
  const { rollups } = world.store
  const { workspaces, workspace_id } = findAudience(world, actor)
  const sessions = world.config.datasets.minimum_sessions
  const all = await rollups.listSessionCells(week, { sessions, workspaces, workspace_id: null })
  const published = all.map(cell => ({ ...cell, isOwn: false }))
  if (workspaces === 0) return published
  const own = await rollups.listSessionCells(week, { sessions, workspaces: 0, workspace_id })
  const names = new Set(published.map(nameCell))
  const others = own.filter(cell => !names.has(nameCell(cell)))
  return [...published, ...others.map(cell => ({ ...cell, isOwn: true }))].sort(compareCells)
}

const nameCell = ({ app, model, turn_range }: SessionCell): string =>
  JSON.stringify([app.id, model, turn_range])

const compareCells = (a: SessionCell, b: SessionCell): number =>
  compareTexts(a.app.slug, b.app.slug) ||
  compareTexts(a.model, b.model) ||
  TURN_RANGES.indexOf(a.turn_range) - TURN_RANGES.indexOf(b.turn_range)

const isMeant = (cell: SessionCell, { app_slug, model, turn_range }: SessionCostQuery): boolean =>
  (app_slug === undefined || cell.app.slug === app_slug) &&
  (model === undefined || cell.model === model) &&
  (turn_range === undefined || cell.turn_range === turn_range)

const NANOS_PER_USD = 1e9

const showCell = ({ app, model, turn_range, median, isOwn }: Cell) => ({
  app_name: nameApp(app, isOwn),
  app_slug: app.slug,
  turn_range,
  model_permaslug: model,
  median_session_cost_usd: median / NANOS_PER_USD,
})
