import type { JSONWebKeySet } from 'jose'
import { Cancellation } from '../base/cancellation.ts'
import { denied } from '../base/errors.ts'
import { isObject, type Json, parseObject } from '../base/json.ts'
import type { SignInConfig } from '../config/sign-in.ts'
import { postponeExchange } from '../resources/workloads/refusal.ts'
import type { IssuerKeys, IssuerName } from '../resources/workloads/subject-token.ts'
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
  const isConfigured = (name: string) => {
    const { issuers: rules, sign_in } = world.config.oauth
    return [...Object.values(rules), ...(sign_in ? [sign_in] : [])].some(
      rule => nameIssuer(rule) === name,
    )
  }
  const find = (rule: IssuerName): KeysOfIssuer => {
    const name = nameIssuer(rule)
    const known = issuers.get(name)
    if (known) return known
    for (const other of issuers.keys()) if (!isConfigured(other)) issuers.delete(other)
    const keys = new KeysOfIssuer(world, rule)
    issuers.set(name, keys)
    return keys
  }
  return {
    getKeys: (rule, kid) => find(rule).getKeys(kid),
    getEndpoints: async rule => readEndpoints(rule, await find(rule).getDocument()),
    exchangeCode: async (provider, form) =>
      exchangeCode(world, provider, await find(provider).getDocument(), form),
  }
}

// Policies with one issuer share its keys, and other changes of the config leave them.
const nameIssuer = ({ issuer, jwks_url }: IssuerName): string =>
  JSON.stringify([issuer, jwks_url ?? null])

class KeysOfIssuer {
  readonly #world: UpstreamWorld
  readonly #issuer: IssuerName
  #known: (Discovered & { at: number }) | null = null
  #askedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | null = null

  constructor(world: UpstreamWorld, issuer: IssuerName) {
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

  /** Returns the discovery document. Throws 503 where there is none. */
  async getDocument(): Promise<Json> {
    await this.getKeys(undefined)
    return this.#known?.document ?? {}
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
      this.#known = { ...(await discover(this.#world, this.#issuer)), at }
    } catch {
      // What was known stays; without it the caller is told.
    }
  }
}

const hasKey = ({ keys }: JSONWebKeySet, kid: string | undefined): boolean =>
  kid === undefined || keys.some(key => key.kid === kid)

/** What an issuer says of itself. */
interface Discovered {
  keys: JSONWebKeySet
  document: Json
}

async function discover(
  world: UpstreamWorld,
  { issuer, jwks_url }: IssuerName,
): Promise<Discovered> {
  if (jwks_url !== undefined)
    return { keys: await fetchKeys(world, { url: jwks_url }), document: {} }
  const base = issuer.replace(/\/$/, '')
  const document = await fetchObject(world, { url: `${base}/.well-known/openid-configuration` })
  if (document.issuer !== issuer) throw new Error('A discovery document of another issuer')
  const place = await checkPlace(world, issuer, document.jwks_uri)
  return { keys: await fetchKeys(world, place), document }
}

async function fetchKeys(world: UpstreamWorld, place: Place): Promise<JSONWebKeySet> {
  const { keys } = await fetchObject(world, place)
  if (!Array.isArray(keys) || keys.length > MOST_KEYS) throw new Error('An answer without keys')
  return { keys: keys.filter(isObject) as unknown as JSONWebKeySet['keys'] }
}

/** Where to ask: an address, if it was checked already. */
interface Place {
  url: string
  address?: string
}

/**
 * Checks an address that an issuer names. The operator has named the issuer's host; any other one is
 * held to what holds for URLs of strangers.
 */
async function checkPlace(world: UpstreamWorld, issuer: string, named: unknown): Promise<Place> {
  const url = parseNamed(issuer, named)
  return url.origin === new URL(issuer).origin
    ? { url: url.href }
    : checkUntrustedUrl(world, url.href)
}

function parseNamed(issuer: string, named: unknown): URL {
  const url = typeof named === 'string' ? URL.parse(named) : null
  if (!url) throw new Error('A discovery document without an address')
  if (url.origin !== new URL(issuer).origin && url.protocol !== 'https:')
    throw new Error('An address without TLS')
  return url
}

function readEndpoints({ issuer }: IssuerName, document: Json) {
  try {
    return { authorization_endpoint: parseNamed(issuer, document.authorization_endpoint).href }
  } catch (cause) {
    throw postponeExchange('The provider does not say where it signs in', PAUSE / 1000, cause)
  }
}

/** Exchanges a code for an ID token (OpenID Connect Core 1.0, 3.1.3). */
async function exchangeCode(
  world: UpstreamWorld,
  { issuer, client_id, client_secret }: SignInConfig,
  document: Json,
  form: Record<string, string>,
): Promise<string> {
  // RFC 6749, 2.3.1: both are encoded before they are joined.
  const [id, secret] = [client_id, client_secret].map(encodeURIComponent)
  const answer = await checkPlace(world, issuer, document.token_endpoint)
    .then(place =>
      fetchObject(world, place, {
        authorization: `Basic ${btoa(`${id}:${secret}`)}`,
        body: new URLSearchParams({ grant_type: 'authorization_code', ...form }).toString(),
      }),
    )
    .catch(() => ({ id_token: undefined }))
  if (typeof answer.id_token !== 'string' || answer.id_token.length > LARGEST_ANSWER)
    throw denied('The provider did not take the sign-in: begin again')
  return answer.id_token
}

/** Fetches a JSON object. Throws for any status but 200: a redirect is not followed. */
async function fetchObject(
  world: UpstreamWorld,
  { url, address }: Place,
  form?: { authorization: string; body: string },
): Promise<Json> {
  const deadline = new Deadline(new Cancellation(), LIMITS)
  try {
    const incoming = await world.egress.send(
      {
        method: form ? 'POST' : 'GET',
        url,
        headers: {
          accept: 'application/json',
          'user-agent': 'gateway',
          ...(form
            ? {
                authorization: form.authorization,
                'content-type': 'application/x-www-form-urlencoded',
              }
            : {}),
        },
        body: form?.body ?? '',
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
