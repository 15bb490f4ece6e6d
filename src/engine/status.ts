import type { Clock } from '../base/clock.ts'
import { invalid, notFound } from '../base/errors.ts'
import { type Actor, assertCanManageAll } from '../resources/actor.ts'
import { createAuditEntry } from '../resources/audit/entry.ts'
import type { Catalog, Endpoint } from '../resources/models/catalog.ts'
import type { Cooldown, CooldownReason } from './health.ts'
import type { InferenceWorld } from './world.ts'

/** The parts of the gateway that its state is read from. */
interface StatusWorld {
  traffic: {
    calls: { size: number; draining: boolean }
    health: { listCooldowns(): Cooldown[] }
  }
  catalog: Pick<Catalog, 'providers'>
  instance: { configStatus: { applied: Date; rejected: boolean } }
  clock: Clock
}

/** The most cooldowns and rests that are listed: an outage may have thousands. */
const MOST = 50

/** Describes what a gateway is doing at this moment. Times in ISO 8601, lengths in seconds. */
export function describeStatus({
  traffic: { calls, health },
  catalog,
  instance,
  clock,
}: StatusWorld) {
  const cooldowns = health.listCooldowns()
  const now = clock.ticks()
  return {
    running_calls: calls.size,
    draining: calls.draining,
    cooldown_count: cooldowns.length,
    cooldowns: cooldowns.slice(0, MOST).map(({ endpoint, reason, until }) => ({
      endpoint,
      reason,
      seconds_left: Math.ceil((until - now) / 1000),
    })),
    resting_credentials: listRestingCredentials(catalog, now),
    config: {
      applied_at: instance.configStatus.applied.toISOString(),
      rejected: instance.configStatus.rejected,
    },
  }
}

// By their names or places: no key is ever told.
const listRestingCredentials = ({ providers }: StatusWorld['catalog'], now: number) =>
  [...providers.values()]
    .flatMap(({ slug, pool }) =>
      (pool?.listRests(now) ?? []).map(({ left, name, ...rest }) => ({
        ...{ provider: slug, credential: name, ...rest },
        seconds_left: Math.ceil(left / 1000),
      })),
    )
    .slice(0, MOST)

/** The longest that an endpoint may rest: a day. What is to be off for longer is a config's. */
const LONGEST_REST = 86_400

/** How an endpoint was left. */
interface HandledEndpoint {
  endpoint: string
  cooldown: { reason: CooldownReason; seconds_left: number } | null
}

/**
 * Lets an endpoint rest for so many seconds: calls ask it last, as in any cooldown. It is audited.
 * Throws 404 for an endpoint that the catalogue does not have, 400 for a name that several have and
 * for a time that is not from 1 to 86400 whole seconds, and 403 for an actor who manages one workspace only.
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

// The records of calls name it without its model, which they name beside it.
function requireEndpoint({ catalog }: InferenceWorld, text: string): Endpoint {
  const named = new Map<string, Endpoint>()
  for (const endpoint of iterateEndpoints(catalog)) {
    if (endpoint.id === text) return endpoint
    if (`${endpoint.provider.slug}/${endpoint.upstreamModel}` === text)
      named.set(endpoint.id, endpoint)
  }
  const [only, ...others] = named.values()
  if (!only)
    throw notFound('Endpoint not found: expected its id, such as author/model provider/name')
  if (others.length === 0) return only
  const shown = [...named.keys()].slice(0, MOST_NAMED).join(', ')
  throw invalid(`endpoint: expected one, found ${named.size}: ${shown}`, 'endpoint')
}

/** The most endpoints that a refusal names. */
const MOST_NAMED = 10

function* iterateEndpoints({ models }: Pick<Catalog, 'models'>): Generator<Endpoint> {
  for (const { endpoints } of models.values()) yield* endpoints
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
