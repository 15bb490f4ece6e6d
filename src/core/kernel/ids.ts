/** Makes identifiers. Handed in, so that a test may count instead of draw. */
export interface Ids {
  /** A UUID that sorts by the time of its making. */
  uuid(): string
  /** `gen-<unix seconds>-<20 alphanumerics>`: the id of one generation (wire reference C.5). */
  generation(now: Date): string
  /** 64 hexadecimal digits that nobody can guess. */
  secret(): string
  /** A number from 0 up to 1. */
  random(): number
}

/** Ids from the system's randomness. Those of one process sort by their making, so that an index of them grows at its end. */
export const randomIds: Ids = {
  uuid: () => Bun.randomUUIDv7(),
  generation(now) {
    const milliseconds = now.getTime()
    // Of a version 7 UUID: its count within the millisecond, and its 62 random bits.
    const uuid = Bun.randomUUIDv7()
    const rest = uuid.slice(15, 18) + uuid.slice(20, 23) + uuid.slice(24)
    return `gen-${Math.floor(milliseconds / 1000)}-${(milliseconds % 1000).toString(36).padStart(2, '0')}${rest}`
  },
  secret: () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex'),
  random: Math.random,
}
