import type { RateLimits, SharedCount, WindowCounts } from '../policy/rate-limits.ts'
import type { Channel } from './channel.ts'

/** The part of the gateway that counts calls. */
interface CountingWorld {
  traffic: { rateLimits: RateLimits }
}

/** What a server has counted until it is left. */
interface Counts {
  windows: WindowCounts[]
  running: Map<string, number>
}

/**
 * Tells the server that has taken over what was counted here, and each later count. Returns what
 * takes its counts: limits hold for the calls of both.
 */
export function giveCounts({ traffic: { rateLimits } }: CountingWorld, channel: Channel) {
  const counts = { windows: rateLimits.exportCounts(), running: rateLimits.exportRunning() }
  channel.tell('counts', counts)
  rateLimits.share(count => channel.tell('counted', count))
  void channel.closed.then(() => stopSharing(rateLimits))
  return { counted: (count: SharedCount) => rateLimits.takeCount(count) }
}

/** Returns what takes the counts of the server before this one, and tells it those of this one. */
export function takeCounts({ traffic: { rateLimits } }: CountingWorld, channel: Channel) {
  return {
    counts({ windows, running }: Counts) {
      rateLimits.importCounts(windows)
      rateLimits.importRunning(running)
      rateLimits.share(count => channel.tell('counted', count))
      void channel.closed.then(() => stopSharing(rateLimits))
    },
    counted: (count: SharedCount) => rateLimits.takeCount(count),
  }
}

function stopSharing(rateLimits: RateLimits): void {
  rateLimits.share(null)
  rateLimits.importRunning(new Map())
}
