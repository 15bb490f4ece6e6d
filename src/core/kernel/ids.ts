/** Makes identifiers. Handed in, so that a test may count instead of draw. */
export interface Ids {
  /** A UUID that sorts by the time of its making. */
  uuid(): string
  /** `gen-<unix seconds>-<20 alphanumerics>`: the id of one generation (wire reference C.5). */
  generation(now: Date): string
  /** 64 hexadecimal digits that nobody can guess. */
  secret(): string
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Ids from the system's randomness. Those of one process sort by their making, so that an index of them grows at its end. */
export function randomIds(): Ids {
  const random = randomCharacters()
  let count = 0
  return {
    uuid: () => Bun.randomUUIDv7(),
    generation(now) {
      count = (count + 1) % COUNTED
      return `gen-${Math.floor(now.getTime() / 1000)}-${base62(now.getTime() % 1000, 2)}${base62(count, 3)}${random(15)}`
    },
    secret: () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex'),
  }
}

const COUNTED = 62 ** 3

function base62(value: number, digits: number): string {
  let text = ''
  for (let left = value; text.length < digits; left = Math.floor(left / 62)) text = ALPHABET[left % 62] + text
  return text
}

// Drawn in bulk: asking the system for each id costs more than the rest of it. A byte modulo 62 favours the first letters a
// little; an id need only be unique.
function randomCharacters(): (length: number) => string {
  const pool = new Uint8Array(4096)
  let used = pool.length
  return length => {
    if (used + length > pool.length) {
      crypto.getRandomValues(pool)
      used = 0
    }
    let text = ''
    for (const end = used + length; used < end; used++) text += ALPHABET[(pool[used] ?? 0) % 62]
    return text
  }
}
