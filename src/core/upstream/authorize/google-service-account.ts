import { sign } from 'node:crypto'
import type { ServiceAccount } from '../../catalog/providers/credential.ts'
import { GatewayError } from '../../errors.ts'
import { Cancellation } from '../../kernel/cancellation.ts'
import type { Clock } from '../../kernel/clock.ts'
import { count, parseObject } from '../../kernel/json.ts'
import { Secret } from '../../kernel/secret.ts'
import { Deadline } from '../answer.ts'
import type { Outgoing, Send } from '../egress.ts'

/** Access tokens of service accounts, each cached while it is valid. */
export interface AccessTokens {
  /** Returns a token that is valid for another minute. Throws `provider_unavailable` if none is. */
  of(account: ServiceAccount): Promise<Secret>
}

/** Opens a cache of tokens, which are exchanged for signed assertions (RFC 7523) through `send`. */
export function openAccessTokens(send: Send, clock: Clock): AccessTokens {
  // Weak, so that the tokens of an account that the config has dropped are collected with it.
  const accounts = new WeakMap<ServiceAccount, AccountTokens>()
  return {
    of(account) {
      const tokens = accounts.get(account) ?? new AccountTokens(account, send, clock)
      accounts.set(account, tokens)
      return tokens.current()
    },
  }
}

interface Bought {
  token: Secret
  /** In the clock's ticks. */
  until: number
}

/** The current token of one account. */
class AccountTokens {
  readonly #account: ServiceAccount
  readonly #send: Send
  readonly #clock: Clock
  #bought: Bought | null = null
  #exchange: Promise<Secret> | null = null

  constructor(account: ServiceAccount, send: Send, clock: Clock) {
    this.#account = account
    this.#send = send
    this.#clock = clock
  }

  /** Returns the token. Concurrent calls share one exchange. After a failure the next retries. */
  async current(): Promise<Secret> {
    if (this.#bought && this.#clock.ticks() < this.#bought.until) return this.#bought.token
    this.#exchange ??= this.#buy().finally(() => {
      this.#exchange = null
    })
    return this.#exchange
  }

  async #buy(): Promise<Secret> {
    const asked = this.#clock.ticks()
    const { token, seconds } = await exchanged(
      this.#send,
      exchangeOf(this.#account, this.#clock.now()),
    )
    this.#bought = { token, until: asked + seconds * 1000 - MARGIN }
    return token
  }
}

/** How many milliseconds before its expiry a token is no longer used, as calls take some time. */
const MARGIN = 60_000

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const HOUR = 3600

/** Builds the request for a token, with an assertion that is signed with the account's key. */
function exchangeOf(
  { client_email, private_key, private_key_id, token_uri }: ServiceAccount,
  now: Date,
): Outgoing {
  const iat = Math.floor(now.getTime() / 1000)
  const head = { alg: 'RS256', typ: 'JWT', ...(private_key_id ? { kid: private_key_id } : {}) }
  const claims = { iss: client_email, scope: SCOPE, aud: token_uri, iat, exp: iat + HOUR }
  const stated = `${base64url(head)}.${base64url(claims)}`
  const signature = sign('sha256', Buffer.from(stated), private_key.reveal())
  const assertion = `${stated}.${signature.toString('base64url')}`
  return {
    url: token_uri,
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'user-agent': 'gateway' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion,
    }).toString(),
  }
}

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

const PATIENCE = { firstByte: 10_000, idle: 10_000, total: 10_000 }
const LARGEST_ANSWER = 64 * 1024

// It has its own cancellation, so that a caller who leaves does not cancel it for the others.
async function exchanged(
  send: Send,
  outgoing: Outgoing,
): Promise<{ token: Secret; seconds: number }> {
  const deadline = new Deadline(new Cancellation(), PATIENCE)
  try {
    const incoming = await send(outgoing, deadline.attempt)
    if (incoming.status !== 200)
      throw new Error(`The token was refused with status ${incoming.status}`)
    const bought = boughtIn(await incoming.text(LARGEST_ANSWER, () => deadline.touched()))
    deadline.close()
    return bought
  } catch (thrown) {
    const cause = deadline.failure(thrown)
    deadline.abort()
    throw new GatewayError('provider_unavailable', 'Provider returned error', { cause })
  }
}

function boughtIn(text: string): { token: Secret; seconds: number } {
  const { access_token, expires_in } = parseObject(text) ?? {}
  // Any other character could end the header and begin another.
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw new Error('An answer without a token')
  return { token: new Secret(access_token), seconds: Math.min(count(expires_in) ?? 0, 24 * HOUR) }
}
