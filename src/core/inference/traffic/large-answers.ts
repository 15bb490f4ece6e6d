import { Room } from '../../kernel/room.ts'

/** How many pictures are read, checked and passed on at once: each takes several times its size. */
const PLACES = 4

/** In milliseconds: a provider that sends its picture slowly keeps no other out for longer. */
const LONGEST_WAIT = 30_000

/** Opens the room in which answers are read that take much memory. */
export const openLargeAnswers = (): Room => new Room(PLACES, LONGEST_WAIT)

/**
 * Resolves once there is a place for a large answer. Returns what gives it back. The memory of those
 * before it is collected now: the collector does not see how much the texts of pictures take, and
 * would let them grow to several times that.
 */
export async function enterLargeAnswers(room: Room): Promise<() => void> {
  const leave = await room.enter()
  Bun.gc(true)
  return leave
}
