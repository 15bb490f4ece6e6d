import type { Json } from '../../kernel/json.ts'
import type { CacheControl } from '../../language/message.ts'
import type { Family } from './families.data.ts'

/** A request may have this many ("Prompt caching"). */
const MOST_POINTS = 4

/** The point that is set after what is marked, for models that take one. An hour is asked only of those that know it. */
export function cachePoint(mark: CacheControl | undefined, { cache, hour }: Family): Json[] {
  if (!mark || cache === 'nowhere') return []
  return [{ cachePoint: { type: 'default', ...(mark.ttl === '1h' && hour ? { ttl: '1h' } : {}) } }]
}

/** A request's lists of blocks: its tools, its system, the content of each message; in this order, which is that of the cache. */
export type Lists = Json[][]

/** The lists with four points at most. The earliest go: the later ones cover what stands before them. */
export function withinFour(lists: Lists): Lists {
  let surplus = pointsIn(lists) - MOST_POINTS
  if (surplus <= 0) return lists
  return lists.map(list => list.filter(block => !isPoint(block) || surplus-- <= 0))
}

/** Whether one more fits. */
export const hasRoom = (lists: Lists): boolean => pointsIn(lists) < MOST_POINTS

const isPoint = (block: Json): boolean => 'cachePoint' in block

const pointsIn = (lists: Lists): number => lists.flat().filter(isPoint).length
