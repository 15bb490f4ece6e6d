import type { Counters, SharedCount, WindowCounts } from '../../limits/counters.ts'
import type { Channel } from './channel.ts'

/** The part of the gateway that counts calls. */
interface CountingWorld {
  traffic: { counters: Counters }
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
export function giveCounts({ traffic: { counters } }: CountingWorld, channel: Channel) {
  const counts = { windows: counters.exportCounts(), running: counters.exportRunning() }
  channel.tell('counts', counts)
  counters.share(count => channel.tell('counted', count))
  void channel.closed.then(() => stopSharing(counters))
  return { counted: (count: SharedCount) => counters.takeCount(count) }
}

/** Returns what takes the counts of the server before this one, and tells it those of this one. */
export function takeCounts({ traffic: { counters } }: CountingWorld, channel: Channel) {
  return {
    counts({ windows, running }: Counts) {
      counters.importCounts(windows)
      counters.importRunning(running)
      counters.share(count => channel.tell('counted', count))
      void channel.closed.then(() => stopSharing(counters))
    },
    counted: (count: SharedCount) => counters.takeCount(count),
  }
}

function stopSharing(counters: Counters): void {
  counters.share(null)
  counters.importRunning(new Map())
}
