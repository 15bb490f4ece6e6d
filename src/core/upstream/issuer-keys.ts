import type { JSONWebKeySet } from 'jose'
import type { IssuerConfig } from '../config/workloads.ts'
import { postponeExchange } from '../identity/workloads/refusal.ts'
import type { IssuerKeys } from '../identity/workloads/subject-token.ts'
import { Cancellation } from '../kernel/cancellation.ts'
import { isObject, type Json, parseObject } from '../kernel/json.ts'
import { Deadline } from './answer.ts'
import { checkUntrustedUrl } from './untrusted-url.ts'
import type { UpstreamWorld } from './world.ts'

const HOUR = 3_600_000
/** In milliseconds: how long keys are used without asking again, and while the issuer is down. */
const FRESH = HOUR
const STALE = 24 * HOUR
/** In milliseconds: the least time from one question to the next. */
const PAUSE = 60_000

const LIMITS = { firstByte: 10_000, idle: 10_000, total: 10_000 }
const LARGEST_ANSWER = 256 * 1024
const MOST_KEYS = 100

/**
 * Opens the keys of issuers, fetched by their discovery documents (OpenID Connect Discovery 1.0)
 * and kept for an hour. An unknown key makes it ask again, at most once a minute; while an issuer
 * is down or lies, what it said before is used for a day.
 */
export function openIssuerKeys(world: UpstreamWorld): IssuerKeys {
  const issuers = new Map<string, KeysOfIssuer>()
  const isConfigured = (name: string) =>
    Object.values(world.config.oauth.issuers).some(rule => nameIssuer(rule) === name)
  return {
    getKeys(rule, kid) {
      const name = nameIssuer(rule)
      const known = issuers.get(name)
      if (known) return known.getKeys(kid)
      for (const other of issuers.keys()) if (!isConfigured(other)) issuers.delete(other)
      const keys = new KeysOfIssuer(world, rule)
      issuers.set(name, keys)
      return keys.getKeys(kid)
    },
  }
}

// Policies with one issuer share its keys, and other changes of the config leave them.
const nameIssuer = ({ issuer, jwks_url }: IssuerConfig): string =>
  JSON.stringify([issuer, jwks_url ?? null])

class KeysOfIssuer {
  readonly #world: UpstreamWorld
  readonly #issuer: IssuerConfig
  #known: { keys: JSONWebKeySet; at: number } | null = null
  #askedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | null = null

  constructor(world: UpstreamWorld, issuer: IssuerConfig) {
    this.#world = world
    this.#issuer = issuer
  }

  /** Returns the keys. Concurrent calls share one question. Throws 503 where there are none. */
  async getKeys(kid: string | undefined): Promise<JSONWebKeySet> {
    const age = this.#getAge()
    if (this.#known && age < FRESH && hasKey(this.#known.keys, kid)) return this.#known.keys
    if (this.#asking || this.#world.clock.ticks() - this.#askedAt >= PAUSE) await this.#ask()
    if (this.#known && this.#getAge() < STALE) return this.#known.keys
    throw postponeExchange('The issuer’s keys are not to be had', PAUSE / 1000)
  }

  #getAge = () => this.#world.clock.ticks() - (this.#known?.at ?? Number.NEGATIVE_INFINITY)

  #ask(): Promise<void> {
    this.#asking ??= this.#renew().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  async #renew(): Promise<void> {
    const at = this.#world.clock.ticks()
    this.#askedAt = at
    try {
      this.#known = { keys: await fetchKeys(this.#world, this.#issuer), at }
    } catch {
      // What was known stays; without it the caller is told.
    }
  }
}

const hasKey = ({ keys }: JSONWebKeySet, kid: string | undefined): boolean =>
  kid === undefined || keys.some(key => key.kid === kid)

async function fetchKeys(
  world: UpstreamWorld,
  { issuer, jwks_url }: IssuerConfig,
): Promise<JSONWebKeySet> {
  const { keys } =
    jwks_url === undefined
      ? await fetchObject(world, await findKeysUrl(world, issuer))
      : await fetchObject(world, { url: jwks_url })
  if (!Array.isArray(keys) || keys.length > MOST_KEYS) throw new Error('An answer without keys')
  return { keys: keys.filter(isObject) as unknown as JSONWebKeySet['keys'] }
}

/** Where to ask: an address, if it was checked already. */
interface Place {
  url: string
  address?: string
}

/**
 * Finds where an issuer's keys are. The operator has named the issuer's host; any other one is held
 * to what holds for URLs of strangers.
 */
async function findKeysUrl(world: UpstreamWorld, issuer: string): Promise<Place> {
  const base = issuer.replace(/\/$/, '')
  const document = await fetchObject(world, { url: `${base}/.well-known/openid-configuration` })
  if (document.issuer !== issuer) throw new Error('A discovery document of another issuer')
  const named = typeof document.jwks_uri === 'string' ? URL.parse(document.jwks_uri) : null
  if (!named) throw new Error('A discovery document without jwks_uri')
  if (named.origin === new URL(issuer).origin) return { url: named.href }
  if (named.protocol !== 'https:') throw new Error('Keys that are not fetched over TLS')
  return checkUntrustedUrl(world, named.href)
}

/** Fetches a JSON object. Throws for any status but 200: a redirect is not followed. */
async function fetchObject(world: UpstreamWorld, { url, address }: Place): Promise<Json> {
  const deadline = new Deadline(new Cancellation(), LIMITS)
  try {
    const incoming = await world.egress.send(
      {
        method: 'GET',
        url,
        headers: { accept: 'application/json', 'user-agent': 'gateway' },
        body: '',
        ...(address === undefined ? {} : { address }),
      },
      deadline.attempt,
    )
    if (incoming.status !== 200) throw new Error(`Status ${incoming.status}`)
    const object = parseObject(await incoming.text(LARGEST_ANSWER, size => deadline.touch(size)))
    if (!object) throw new Error('No JSON object')
    deadline.close()
    return object
  } catch (thrown) {
    deadline.abort()
    throw thrown
  }
}
