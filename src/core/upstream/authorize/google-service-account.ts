import { sign } from 'node:crypto'
import type { ServiceAccount } from '../../catalog/providers/credential.ts'
import { GatewayError } from '../../errors.ts'
import { Cancellation } from '../../kernel/cancellation.ts'
import type { Clock } from '../../kernel/clock.ts'
import { count, parseObject } from '../../kernel/json.ts'
import { Secret } from '../../kernel/secret.ts'
import { Deadline } from '../answer.ts'
import type { Outgoing, Send } from '../egress.ts'

/** The access tokens that service accounts have bought, each for as long as it lasts. */
export interface AccessTokens {
  /** A token that is good for another minute. Throws `provider_unavailable` when none can be had. */
  of(account: ServiceAccount): Promise<Secret>
}

/** Tokens bought with the accounts' keys (RFC 7523), through the gateway's own way out. */
export function openAccessTokens(send: Send, clock: Clock): AccessTokens {
  // An account that nobody has any more takes its tokens along.
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

/** The tokens of one account, one after the other. */
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

  /** One exchange serves all who wait for it. One that failed is kept for nobody: whoever comes next asks again. */
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

/** Milliseconds before its end at which a token is no longer used: the call that carries it takes some time. */
const MARGIN = 60_000

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const HOUR = 3600

/** The request that a token is asked for with: a statement about the account that only its key can have signed. */
function exchangeOf(
  { client_email, private_key, private_key_id, token_uri }: ServiceAccount,
  now: Date,
): Outgoing {
  const iat = Math.floor(now.getTime() / 1000)
  const head = { alg: 'RS256', typ: 'JWT', ...(private_key_id ? { kid: private_key_id } : {}) }
  const stated = `${base64url(head)}.${base64url({ iss: client_email, scope: SCOPE, aud: token_uri, iat, exp: iat + HOUR })}`
  const assertion = `${stated}.${sign('sha256', Buffer.from(stated), private_key.reveal()).toString('base64url')}`
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

// Nobody's call carries it, so that no caller who leaves takes it from the others.
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
  // What else stands in a header could end it and begin another.
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw new Error('An answer without a token')
  return { token: new Secret(access_token), seconds: Math.min(count(expires_in) ?? 0, 24 * HOUR) }
}
