import type { Clock } from '../base/clock.ts'
import type { Cooldown } from './health.ts'

/** The parts of the gateway that its state is read from. */
interface StatusWorld {
  traffic: {
    calls: { size: number; draining: boolean }
    health: { listCooldowns(): Cooldown[] }
  }
  instance: { configStatus: { applied: Date; rejected: boolean } }
  clock: Clock
}

/** The most cooldowns that are listed: an outage may have thousands. */
const MOST = 50

/** Describes what a gateway is doing at this moment. Times in ISO 8601, lengths in seconds. */
export function describeStatus({ traffic: { calls, health }, instance, clock }: StatusWorld) {
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
    config: {
      applied_at: instance.configStatus.applied.toISOString(),
      rejected: instance.configStatus.rejected,
    },
  }
}
