import { type Static, Type } from '@sinclair/typebox'
import { denied, invalid, notFound } from '../base/errors.ts'
import { toUsd } from '../base/money.ts'
import { oneOf, SomeName, Uuid } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import { type Actor, canManage, canManageAll } from '../resources/actor.ts'
import type { IdentityWorld } from '../resources/world.ts'
import { Day } from './datasets.ts'
import { findReadableWorkspace } from './generations/find.ts'
import { Reading, type ReadingWorld } from './rollups/reading.ts'
import {
  addSums,
  type CallSums,
  type Condition,
  createSums,
  parseDay,
  renderDay,
  toDay,
  toHour,
} from './rollups.ts'

/** What activity needs from the gateway. */
export interface ActivityWorld extends IdentityWorld, ReadingWorld {
  store: IdentityWorld['store'] & ReadingWorld['store']
  config: IdentityWorld['config']
}

/** The query of `GET /activity`. */
export const ActivityQuery = Type.Object({
  date: Type.Optional(Day),
  api_key_hash: Type.Optional(
    Type.String({ pattern: '^[0-9a-f]{64}$', maxLength: 64, title: '64 hexadecimal digits' }),
  ),
  user_id: Type.Optional(SomeName),
  group_by: Type.Optional(oneOf('workspace')),
  workspace_id: Type.Optional(Uuid),
})
export type ActivityQuery = Static<typeof ActivityQuery>

const WINDOW_DAYS = 30
const DIMENSIONS = ['model', 'endpoint_id', 'provider_name', 'workspace_id'] as const

/**
 * Shows what was used by day and endpoint in the last 30 days that have ended, in UTC. Calls that
 * reached no endpoint have an empty one. Throws 400 for a date outside, 403 for a member where the
 * actor manages one workspace only, 404 for a workspace or member that is not theirs.
 */
export async function getActivity(world: ActivityWorld, actor: Actor, query: ActivityQuery) {
  const today = toDay(toHour(world.clock.now().getTime()))
  const date = readDate(query.date, today)
  const conditions = await buildConditions(world, actor, query)
  const reading = new Reading(world)
  await reading.rollUp()
  const isSplit = query.group_by === 'workspace'
  const rows = new Map<string, { start: number; values: string[]; sums: CallSums }>()
  for await (const { start, values, sums } of reading.readSums({
    grain: 'day',
    from: date ?? today - WINDOW_DAYS,
    until: date === null ? today : date + 1,
    by: isSplit ? [...DIMENSIONS] : DIMENSIONS.slice(0, 3),
    isByTime: true,
    conditions,
  })) {
    const row = { start: start ?? 0, values, sums: createSums() }
    addSums(row.sums, sums)
    rows.set(JSON.stringify([start, values]), row)
  }
  return { data: [...rows.values()].sort(compareRows).map(row => showRow(row, isSplit)) }
}

interface Row {
  start: number
  values: string[]
  sums: CallSums
}

function readDate(text: string | undefined, today: number): number | null {
  if (text === undefined) return null
  const day = parseDay(text)
  if (day === null || day >= today || day < today - WINDOW_DAYS)
    throw invalid(`date: expected one of the last ${WINDOW_DAYS} days that have ended`, 'date')
  return day
}

async function buildConditions(
  world: ActivityWorld,
  actor: Actor,
  { api_key_hash, user_id, workspace_id }: ActivityQuery,
): Promise<Condition[]> {
  const workspace = resolveWorkspace(world, actor, workspace_id)
  if (user_id !== undefined) await requireMember(world, actor, user_id)
  const given = { key_hash: api_key_hash, user_id, workspace_id: workspace }
  return Object.entries(given).flatMap(([dimension, value]) =>
    value === undefined
      ? []
      : { dimension: dimension as 'key_hash', comparison: 'eq' as const, values: [value] },
  )
}

/** Returns the workspace that the actor may see, or asked for; undefined for all. */
function resolveWorkspace(
  world: ActivityWorld,
  actor: Actor,
  id: string | undefined,
): string | undefined {
  if (id === undefined) return findReadableWorkspace(world, actor) ?? undefined
  if (!world.memory.workspaces.has(id) || !canManage(world, actor, id))
    throw notFound('Workspace not found')
  return id
}

async function requireMember(world: ActivityWorld, actor: Actor, id: string): Promise<void> {
  if (!canManageAll(world, actor))
    throw denied('Only management keys of the default workspace can name a member')
  if ((await world.store.members.byIds([id])).length === 0) throw notFound('Member not found')
}

const compareRows = (a: Row, b: Row): number =>
  b.start - a.start ||
  a.values.map((text, i) => compareTexts(text, b.values[i] ?? '')).find(order => order !== 0) ||
  0

function showRow({ start, values, sums }: Row, isSplit: boolean) {
  const [model = '', endpoint_id = '', provider_name = '', workspace_id = ''] = values
  return {
    date: renderDay(start),
    model,
    model_permaslug: model,
    endpoint_id,
    provider_name,
    usage: toUsd(sums.cost),
    byok_usage_inference: toUsd(sums.byok_cost),
    requests: sums.calls,
    prompt_tokens: sums.prompt_tokens,
    completion_tokens: sums.completion_tokens,
    reasoning_tokens: sums.reasoning_tokens,
    ...(isSplit ? { workspace_id } : {}),
  }
}
