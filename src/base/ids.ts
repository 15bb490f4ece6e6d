/** Creates identifiers. Tests pass one that counts instead of drawing at random. */
export interface Ids {
  /** A UUID that sorts by its time of creation. */
  uuid(): string
  /** `gen-<unix seconds>-<20 alphanumerics>`: the id of one generation (wire reference C.5). */
  generation(now: Date): string
  /** 64 hexadecimal digits that cannot be guessed. */
  secret(): string
  /** Returns a random number in [0, 1). Tests replace it. */
  random(): number
}

/**
 * Creates ids from the system's randomness. The ids of one gateway sort by creation, so that an
 * index of them grows at its end, also while the clock is behind where it was before.
 */
export const createRandomIds = (readTime: () => number = Date.now): Ids => {
  let [lastUuid, lastGeneration] = [0, 0]
  return {
    uuid() {
      lastUuid = Math.max(lastUuid, readTime())
      return Bun.randomUUIDv7('hex', lastUuid)
    },
    generation(now) {
      const time = now.getTime()
      lastGeneration = time < lastGeneration ? lastGeneration + 1 : time
      // A version 7 UUID contributes its counter within the millisecond and its 62 random bits.
      const uuid = Bun.randomUUIDv7()
      const rest = uuid.slice(15, 18) + uuid.slice(20, 23) + uuid.slice(24)
      const fraction = (lastGeneration % 1000).toString(36).padStart(2, '0')
      return `gen-${Math.floor(lastGeneration / 1000)}-${fraction}${rest}`
    },
    secret: () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex'),
    random: Math.random,
  }
}
