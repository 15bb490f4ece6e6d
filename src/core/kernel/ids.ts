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
 * Creates ids from the system's randomness. The ids of one process sort by creation, so that an
 * index of them grows at its end.
 */
export const randomIds: Ids = {
  uuid: () => Bun.randomUUIDv7(),
  generation(now) {
    const milliseconds = now.getTime()
    // A version 7 UUID contributes its counter within the millisecond and its 62 random bits.
    const uuid = Bun.randomUUIDv7()
    const rest = uuid.slice(15, 18) + uuid.slice(20, 23) + uuid.slice(24)
    const fraction = (milliseconds % 1000).toString(36).padStart(2, '0')
    return `gen-${Math.floor(milliseconds / 1000)}-${fraction}${rest}`
  },
  secret: () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex'),
  random: Math.random,
}
