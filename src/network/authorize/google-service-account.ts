import { sign } from 'node:crypto'
import { Cancellation } from '../../base/cancellation.ts'
import type { Clock } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { parseCount, parseObject } from '../../base/json.ts'
import { Secret } from '../../base/secret.ts'
import type { ServiceAccount } from '../../resources/providers/provider.ts'
import { Deadline } from '../answer.ts'
import type { OutgoingRequest, Send } from '../egress.ts'
import type { AccessTokens } from '../world.ts'

/** Opens a cache of tokens, which are exchanged for signed assertions (RFC 7523) through `send`. */
export function openAccessTokens(send: Send, clock: Clock): AccessTokens {
  // Weak, so that the tokens of an account that the config has dropped are collected with it.
  const accounts = new WeakMap<ServiceAccount, AccountTokens>()
  return {
    getToken(account) {
      const tokens = accounts.get(account) ?? new AccountTokens(account, send, clock)
      accounts.set(account, tokens)
      return tokens.getToken()
    },
  }
}

interface CachedToken {
  token: Secret
  /** In the clock's ticks. */
  expiresAt: number
}

/** The current token of one account. */
class AccountTokens {
  readonly #account: ServiceAccount
  readonly #send: Send
  readonly #clock: Clock
  #cached: CachedToken | null = null
  #exchange: Promise<Secret> | null = null

  constructor(account: ServiceAccount, send: Send, clock: Clock) {
    this.#account = account
    this.#send = send
    this.#clock = clock
  }

  /** Returns the token. Concurrent calls share one exchange. After a failure the next retries. */
  async getToken(): Promise<Secret> {
    if (this.#cached && this.#clock.ticks() < this.#cached.expiresAt) return this.#cached.token
    this.#exchange ??= this.#renew().finally(() => {
      this.#exchange = null
    })
    return this.#exchange
  }

  async #renew(): Promise<Secret> {
    const requestedAt = this.#clock.ticks()
    const { token, seconds } = await requestToken(
      this.#send,
      buildTokenRequest(this.#account, this.#clock.now()),
    )
    this.#cached = { token, expiresAt: requestedAt + seconds * 1000 - MARGIN }
    return token
  }
}

/** How many milliseconds before its expiry a token is no longer used, as calls take some time. */
const MARGIN = 60_000

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

const HOUR = 3600

/** Builds the request for a token, with an assertion that is signed with the account's key. */
function buildTokenRequest(
  { client_email, private_key, private_key_id, token_uri }: ServiceAccount,
  now: Date,
): OutgoingRequest {
  const iat = Math.floor(now.getTime() / 1000)
  const head = { alg: 'RS256', typ: 'JWT', ...(private_key_id ? { kid: private_key_id } : {}) }
  const claims = { iss: client_email, scope: SCOPE, aud: token_uri, iat, exp: iat + HOUR }
  const signingInput = `${encodeBase64Url(head)}.${encodeBase64Url(claims)}`
  const signature = sign('sha256', Buffer.from(signingInput), private_key.reveal())
  const assertion = `${signingInput}.${signature.toString('base64url')}`
  return {
    url: token_uri,
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'user-agent': 'gateway' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion,
    }).toString(),
  }
}

const encodeBase64Url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

const LIMITS = { firstByte: 10_000, idle: 10_000, total: 10_000 }

const LARGEST_ANSWER = 64 * 1024

// It has its own cancellation, so that a caller who leaves does not cancel it for the others.
async function requestToken(
  send: Send,
  outgoing: OutgoingRequest,
): Promise<{ token: Secret; seconds: number }> {
  const deadline = new Deadline(new Cancellation(), LIMITS)
  try {
    const incoming = await send(outgoing, deadline.attempt)
    if (incoming.status !== 200)
      throw new Error(`The token was refused with status ${incoming.status}`)
    const token = parseToken(await incoming.text(LARGEST_ANSWER, size => deadline.touch(size)))
    deadline.close()
    return token
  } catch (thrown) {
    const cause = deadline.toGatewayError(thrown)
    deadline.abort()
    throw new GatewayError('provider_unavailable', 'Provider returned error', { cause })
  }
}

function parseToken(text: string): { token: Secret; seconds: number } {
  const { access_token, expires_in } = parseObject(text) ?? {}
  // Any other character could end the header and begin another.
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw new Error('An answer without a token')
  return {
    token: new Secret(access_token),
    seconds: Math.min(parseCount(expires_in) ?? 0, 24 * HOUR),
  }
}
