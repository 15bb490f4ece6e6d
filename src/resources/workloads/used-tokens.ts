import { postponeExchange, refuseExchange } from './refusal.ts'
import type { Subject } from './subject-token.ts'

/** The most tokens that are remembered as used. */
const MOST = 100_000
const RETRY_SECONDS = 60

/**
 * Remembers which tokens were exchanged, while they live. A process remembers only its own time, so
 * that tokens from before it are refused.
 */
export class UsedTokens {
  readonly #since: number
  /** When each is over, in seconds since 1970. */
  readonly #used = new Map<string, number>()

  constructor(since: Date) {
    this.#since = since.getTime() / 1000
  }

  /**
   * Marks a token as used. Throws 400 `invalid_grant` if it was used, has no id, or is from another
   * time, and 503 where too many are remembered.
   */
  use(policy: string, { jti, issuedAt, expiresAt }: Subject, now: Date): void {
    const seconds = now.getTime() / 1000
    if (jti === null) throw refuseExchange('invalid_grant', 'subject_token: expected a jti')
    if (issuedAt < this.#since || issuedAt > seconds)
      throw refuseExchange('invalid_grant', 'subject_token: expected one issued since the start')
    if (!this.mark([policy, jti], expiresAt, now))
      throw refuseExchange('invalid_grant', 'subject_token: it was exchanged already')
  }

  /**
   * Marks a token as used, by its name and until it is over, in seconds since 1970. Returns false
   * for one that was. Throws 503 where too many are remembered.
   */
  mark(name: string[], expiresAt: number, now: Date): boolean {
    const key = JSON.stringify(name)
    if (this.#used.has(key)) return false
    const seconds = now.getTime() / 1000
    if (this.#used.size >= MOST) this.#forget(seconds)
    if (this.#used.size >= MOST) throw postponeExchange('Too many tokens', RETRY_SECONDS)
    this.#used.set(key, expiresAt)
    return true
  }

  /** Lets a token be used again whose use has failed. */
  unmark(name: string[]): void {
    this.#used.delete(JSON.stringify(name))
  }

  // Tokens are taken for a while after they are over, as clocks differ.
  #forget(now: number): void {
    for (const [name, expiresAt] of this.#used) if (expiresAt + 60 < now) this.#used.delete(name)
  }
}
