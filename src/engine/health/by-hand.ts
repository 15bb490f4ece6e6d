import { invalid, notFound } from '../../base/errors.ts'
import { type Actor, assertCanManageAll } from '../../resources/actor.ts'
import { createAuditEntry } from '../../resources/audit/entry.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { CooldownReason } from '../health.ts'
import type { InferenceWorld } from '../world.ts'

/** The longest that an endpoint may rest: a day. What is to be off for longer is a config's. */
const LONGEST_REST = 86_400

/** How an endpoint was left. */
interface HandledEndpoint {
  endpoint: string
  cooldown: { reason: CooldownReason; seconds_left: number } | null
}

/**
 * Lets an endpoint rest for so many seconds: calls ask it last, as in any cooldown. It is audited.
 * Throws 404 for an endpoint that the catalogue does not have, 400 for a time that is not from 1 to
 * 86400 whole seconds, and 403 for an actor who manages one workspace only.
 */
export function restEndpoint(
  world: InferenceWorld,
  actor: Actor,
  id: string,
  seconds: number,
): Promise<{ data: HandledEndpoint }> {
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > LONGEST_REST)
    throw invalid(`seconds: expected an integer from 1 to ${LONGEST_REST}`, 'seconds')
  return handle(world, actor, 'endpoints.rest', id, endpoint =>
    world.traffic.health.rest(endpoint, seconds * 1000),
  )
}

/**
 * Ends every cooldown of an endpoint, and forgets its failures. It is audited. Throws as
 * `restEndpoint` does.
 */
export const wakeEndpoint = (
  world: InferenceWorld,
  actor: Actor,
  id: string,
): Promise<{ data: HandledEndpoint }> =>
  handle(world, actor, 'endpoints.wake', id, endpoint => world.traffic.health.wake(endpoint))

async function handle(
  world: InferenceWorld,
  actor: Actor,
  action: string,
  id: string,
  change: (endpoint: Endpoint) => void,
): Promise<{ data: HandledEndpoint }> {
  assertCanManageAll(world, actor)
  const endpoint = requireEndpoint(world, id)
  const before = describe(world, endpoint)
  change(endpoint)
  const after = describe(world, endpoint)
  const target = { id, workspace_id: null }
  await world.store.audit.append(createAuditEntry(world, actor, action, target, before, after))
  return { data: after }
}

function requireEndpoint({ catalog }: InferenceWorld, id: string): Endpoint {
  for (const { endpoints } of catalog.models.values()) {
    const found = endpoints.find(endpoint => endpoint.id === id)
    if (found) return found
  }
  throw notFound('Endpoint not found')
}

function describe({ traffic: { health }, clock }: InferenceWorld, endpoint: Endpoint) {
  const cooldown = health.findCooldown(endpoint)
  return {
    endpoint: endpoint.id,
    cooldown: cooldown && {
      reason: cooldown.reason,
      seconds_left: Math.ceil((cooldown.until - clock.ticks()) / 1000),
    },
  }
}
