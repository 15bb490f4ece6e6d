import type { SharedCounts } from '../../limits/counters.ts'
import { Places } from './counts/places.ts'
import { type CountOptions, DatabaseClock, Trips } from './counts/trips.ts'
import { Window } from './counts/windows.ts'

/** What a node counts together with others. */
export interface NodeCounts extends SharedCounts {
  /** How often the database was asked. */
  readonly trips: number
  /** Returns what is in hand. */
  close(): Promise<void>
}

/** In milliseconds, between two looks at what other nodes lack. */
const TICK = 100
/** In milliseconds: how long a node that ends returns what it has, that of days first. */
const LAST = 1_000
/** In milliseconds, between two removals of rows that nobody needs. */
const SWEEP = 60_000

/**
 * Opens what the nodes of one database count together. A node has a part of what is left in hand:
 * it takes that from the database, uses it without asking, and returns it when another has too
 * little. So a limit holds for all nodes together, exactly and at any moment, and nothing of it is
 * lost while they are alive: one that finds nothing waits once until the others have returned what
 * they do not use. A node that dies takes along what it has in hand of the current window: at its
 * last asking that was a quarter of its share of what was left, or what its own calls had asked
 * for. Its places are free as soon as it does not count as serving.
 *
 * Windows are those of the database's clock. While it is away, what is in hand is used, and after
 * that calls are refused with 503. Its crash empties the counts of windows, and each node tells
 * what it knows of them as soon as it is back: until all have, at most as much may be taken once
 * more as the nodes that are late know of, and never more than a limit itself. Places outlive a
 * crash.
 */
export async function openSharedCounts(options: CountOptions): Promise<NodeCounts> {
  const clock = new DatabaseClock(options.ticks)
  const trips = new Trips(options, clock)
  const windows: Window[] = []
  const opened: Places[] = []
  trips.onSilence = () => {
    for (const places of opened) places.distrust()
  }
  await trips.look()
  let sweptAt = clock.ticks()
  let isLooking = false
  const tick = async () => {
    if (isLooking) return
    isLooking = true
    try {
      for (const window of windows) window.forgetOld()
      if (![...windows, ...opened].some(({ isInUse }) => isInUse)) return
      const wanted = await trips.look()
      const isBack = trips.isDoubtful
      trips.isDoubtful = false
      for (const one of [...windows, ...opened]) one.tend(wanted, isBack)
      if (clock.ticks() - sweptAt < SWEEP) return
      sweptAt = clock.ticks()
      await trips.sweep()
    } catch {
      // Looked at again.
    } finally {
      isLooking = false
    }
  }
  const timer = setInterval(() => void tick(), TICK)
  return {
    clock,
    get trips() {
      return trips.made
    },
    openWindow(name, counted) {
      const window = new Window(name, counted, trips, options.pools)
      windows.push(window)
      return window
    },
    openPlaces(counted) {
      const places = new Places(counted, trips)
      opened.push(places)
      return places
    },
    async close() {
      clearInterval(timer)
      const longest = windows.toSorted((a, b) => b.length - a.length)
      const returned = Promise.allSettled(longest.flatMap(window => window.returnAll()))
      await Promise.race([returned, new Promise(resolve => setTimeout(resolve, LAST).unref())])
      await trips.close()
    },
  }
}
