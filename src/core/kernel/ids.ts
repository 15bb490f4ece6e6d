/** Makes identifiers. Handed in, so that a test may count instead of draw. */
export interface Ids {
  /** A UUID that sorts by the time of its making. */
  uuid(): string
  /** `gen-<unix seconds>-<20 alphanumerics>`: the id of one generation (wire reference C.5). */
  generation(now: Date): string
  /** 64 hexadecimal digits that nobody can guess. */
  secret(): string
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

export const randomIds: Ids = {
  uuid: () => Bun.randomUUIDv7(),
  generation: now => `gen-${Math.floor(now.getTime() / 1000)}-${alphanumerics(20)}`,
  secret: () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex'),
}

// A byte modulo 62 favours the first letters a little; an id need only be unique.
function alphanumerics(length: number): string {
  let text = ''
  for (const byte of crypto.getRandomValues(new Uint8Array(length))) text += ALPHABET[byte % 62]
  return text
}
