import { conflict } from '../../base/errors.ts'
import { PAGE_SIZE } from '../../base/pages.ts'
import type { Actor } from '../../resources/actor.ts'
import { requireDestination } from '../destinations.ts'
import { type DeliveryCounts, NO_COUNTS } from './deliveries/store.ts'
import { getOperatorDestination, OPERATOR_ID } from './operator.ts'
import type { FailureQuery } from './schema.ts'
import type { DestinationWorld } from './world.ts'

/**
 * Lists one page of what a destination has refused, oldest first: which call, why, and when. The
 * operator may name their own collector, too: `telemetry.otlp`. Throws 404.
 */
export async function listFailures(
  world: DestinationWorld,
  actor: Actor,
  id: string,
  { offset = 0, limit = PAGE_SIZE }: FailureQuery,
) {
  checkManaged(world, actor, id)
  const { rows, total } = await world.store.deliveries.listFailed(id, offset, limit)
  const data = rows.map(({ generation_id, reason, status, failed_at, bytes }) => ({
    generation_id,
    reason,
    status,
    failed_at,
    bytes,
  }))
  return { data, total_count: total }
}

/**
 * Lets everything that failed be sent again. Returns how many calls that are. Throws 404, and 409 for
 * the operator's own collector while the config names none: what waited for it would be dropped.
 */
export async function replayFailures(world: DestinationWorld, actor: Actor, id: string) {
  if (id === OPERATOR_ID && getOperatorDestination(world) === null)
    throw conflict(`${OPERATOR_ID}: the config names no collector that takes traces`)
  const count = await countFailures(world, actor, id)
  await world.store.deliveries.replay(id)
  return { data: { replayed: count } }
}

/** Drops everything that failed. Returns how many calls that were. Throws 404. */
export async function dropFailures(world: DestinationWorld, actor: Actor, id: string) {
  const count = await countFailures(world, actor, id)
  await world.store.deliveries.dropFailed(id)
  return { data: { dropped: count } }
}

async function countFailures(world: DestinationWorld, actor: Actor, id: string): Promise<number> {
  checkManaged(world, actor, id)
  return (await world.store.deliveries.listFailed(id, 0, 1)).total
}

// The operator's own collector is in no workspace, so only the operator may manage it.
function checkManaged(world: DestinationWorld, actor: Actor, id: string): void {
  if (id !== OPERATOR_ID || actor.kind !== 'operator') requireDestination(world, actor, id)
}

/** How a destination is doing, with what it has got. */
export type DestinationHealth = Omit<DeliveryCounts, 'destination_id'> & {
  state: 'on' | 'paused' | 'off' | 'workspace off' | 'failing' | 'unreadable'
}

/** Reads how destinations are doing, by their ids. */
export async function readHealth(world: DestinationWorld): Promise<Map<string, DestinationHealth>> {
  const counted = await world.store.deliveries.count()
  const byId = new Map(counted.map(counts => [counts.destination_id, counts]))
  return new Map(
    Array.from(world.memory.destinations.keys(), id => {
      const { destination_id: _, ...counts } = byId.get(id) ?? { ...NO_COUNTS, destination_id: id }
      return [id, { ...counts, state: getState(world, id, counts) }]
    }),
  )
}

function getState(
  { memory: { destinations, workspaces } }: DestinationWorld,
  id: string,
  { last_success_at, last_error_at }: Pick<DeliveryCounts, 'last_success_at' | 'last_error_at'>,
): DestinationHealth['state'] {
  const opened = destinations.get(id)
  if (!opened || opened.config === null) return 'unreadable'
  const { enabled, paused_at, workspace_id } = opened.destination
  if (!enabled) return 'off'
  if (!workspaces.get(workspace_id)?.is_observability_broadcast_enabled) return 'workspace off'
  if (paused_at !== null) return 'paused'
  const isFailing = last_error_at !== null && (last_success_at ?? '') < last_error_at
  return isFailing ? 'failing' : 'on'
}
