import { postponeExchange, refuseExchange } from './refusal.ts'
import type { Subject } from './subject-token.ts'

/** What all servers of a store remember: names that are marked for a while. */
export interface Marks {
  /**
   * Marks a name for so many seconds. Of all that do so, at every server, one gets true. Throws 503
   * where the store is away.
   */
  add(name: string, seconds: number): Promise<boolean>
  /** Forgets one. */
  remove(name: string): Promise<void>
  /** Lists those that begin so. */
  list(start: string): Promise<string[]>
}

/** The most tokens that are remembered as used. */
const MOST = 100_000
const RETRY_SECONDS = 60

/** In seconds: how much longer servers remember together than a token lives, as clocks differ. */
const SPARE = 3_600

/**
 * Remembers which tokens were exchanged, while they live. A process remembers only its own time, so
 * that tokens from before it are refused; servers that share a store remember together, for longer.
 */
export class UsedTokens {
  readonly #since: number
  /** When each is over, in seconds since 1970. */
  readonly #used = new Map<string, number>()
  readonly #marks: Marks | undefined

  /** With marks a token is used once at all servers of a store. */
  constructor(since: Date, marks?: Marks) {
    this.#since = since.getTime() / 1000
    this.#marks = marks
  }

  /**
   * Marks a token as used. Throws 400 `invalid_grant` if it was used, has no id, or is from another
   * time, and 503 where too many are remembered.
   */
  async use(policy: string, { jti, issuedAt, expiresAt }: Subject, now: Date): Promise<void> {
    const seconds = now.getTime() / 1000
    if (jti === null) throw refuseExchange('invalid_grant', 'subject_token: expected a jti')
    if ((!this.#marks && issuedAt < this.#since) || issuedAt > seconds)
      throw refuseExchange('invalid_grant', 'subject_token: expected one issued since the start')
    if (!(await this.mark([policy, jti], expiresAt, now)))
      throw refuseExchange('invalid_grant', 'subject_token: it was exchanged already')
  }

  /** Lets a token be used again that nothing was given for. */
  giveBack(policy: string, { jti }: Subject): Promise<void> {
    return this.unmark([policy, jti ?? ''])
  }

  /**
   * Marks a token as used, by its name and until it is over, in seconds since 1970. Returns false
   * for one that was. Throws 503 where too many are remembered, or the store is away.
   */
  async mark(name: string[], expiresAt: number, now: Date): Promise<boolean> {
    const key = JSON.stringify(name)
    if (this.#marks) return this.#marks.add(nameMark(key), expiresAt - now.getTime() / 1000 + SPARE)
    if (this.#used.has(key)) return false
    const seconds = now.getTime() / 1000
    if (this.#used.size >= MOST) this.#forget(seconds)
    if (this.#used.size >= MOST) throw postponeExchange('Too many tokens', RETRY_SECONDS)
    this.#used.set(key, expiresAt)
    return true
  }

  /** Lets a token be used again whose use has failed. */
  async unmark(name: string[]): Promise<void> {
    const key = JSON.stringify(name)
    this.#used.delete(key)
    await this.#marks?.remove(nameMark(key)).catch(() => undefined)
  }

  // Tokens are taken for a while after they are over, as clocks differ.
  #forget(now: number): void {
    for (const [name, expiresAt] of this.#used) if (expiresAt + 60 < now) this.#used.delete(name)
  }
}

const nameMark = (key: string) => `token ${Bun.CryptoHasher.hash('sha256', key, 'hex')}`
