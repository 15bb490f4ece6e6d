import type { Clock } from '../base/clock.ts'
import type { Catalog } from '../resources/models/catalog.ts'
import type { Cooldown } from './health.ts'

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
