import { createECDH } from 'node:crypto'
import type { JWK, JWTPayload } from 'jose'
import { hashSecret } from '../../base/credential.ts'

/** In milliseconds: how long one key signs. */
const DAY = 86_400_000

/** A key as it is published (RFC 7517), of the one curve and algorithm that we sign with. */
interface PublicKey {
  kty: 'EC'
  crv: 'P-256'
  alg: 'ES256'
  use: 'sig'
  kid: string
  x: string
  y: string
}

/** A key of one day, with its secret half. */
interface SigningKey {
  kid: string
  secret: JWK
  shown: PublicKey
}

/**
 * The keys that access tokens are signed with: one for each day (UTC), derived from the secret of
 * the data directory, so that none is ever stored.
 */
class SigningKeys {
  readonly #derive: (purpose: string, size: number) => Uint8Array
  readonly #byDay = new Map<number, SigningKey>()

  constructor(derive: (purpose: string, size: number) => Uint8Array) {
    this.#derive = derive
  }

  /** Returns the key that signs now. */
  getCurrent(now: Date): SigningKey {
    return this.#getKey(toDay(now))
  }

  /**
   * Lists the keys of yesterday, today and tomorrow: what was signed before midnight is still
   * valid, and those who keep a copy of the list need the next one in time.
   */
  listPublic(now: Date): PublicKey[] {
    const today = toDay(now)
    for (const day of this.#byDay.keys()) if (day < today - 1) this.#byDay.delete(day)
    return [today, today - 1, today + 1].map(day => this.#getKey(day).shown)
  }

  #getKey(day: number): SigningKey {
    const known = this.#byDay.get(day)
    if (known) return known
    const key = buildKey(this.#derive(`access tokens of day ${day}`, SCALAR_SIZE))
    this.#byDay.set(day, key)
    return key
  }
}

const toDay = (now: Date): number => Math.floor(now.getTime() / DAY)

/** The order of P-256 (FIPS 186-5, SP 800-186). */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
// 128 bits more than the order has, so that no scalar is likelier than another (FIPS 186-5, A.2.1).
const SCALAR_SIZE = 48

function buildKey(bytes: Uint8Array): SigningKey {
  const scalar = (BigInt(`0x${Buffer.from(bytes).toString('hex')}`) % (ORDER - 1n)) + 1n
  const secret = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
  const curve = createECDH('prime256v1')
  curve.setPrivateKey(secret)
  const point = curve.getPublicKey()
  const x = point.subarray(1, 33).toString('base64url')
  const y = point.subarray(33).toString('base64url')
  const common = { kty: 'EC', crv: 'P-256', x, y } as const
  // RFC 7638: the members that make a key, in the order of their names.
  const thumbprint = JSON.stringify({ crv: 'P-256', kty: 'EC', x, y })
  const kid = Buffer.from(Bun.CryptoHasher.hash('sha256', thumbprint)).toString('base64url')
  return {
    kid,
    secret: { ...common, d: secret.toString('base64url') },
    shown: { ...common, alg: 'ES256', use: 'sig', kid },
  }
}

/** What an access token says: for whom it was issued, and which key it stands for. */
export interface Grant {
  /** The name of the policy under `oauth.issuers`. */
  policy: string
  issuer: string
  subject: string
  key_hash: string
}

interface KnownGrant extends Grant {
  /** In milliseconds since 1970. */
  expiresAt: number
}

/** The parts that signing and verifying need. */
interface TokenWorld {
  instance: { siteUrl: string }
  clock: { now(): Date }
}

/** The type in the header of our tokens (RFC 9068, 2.1): no other kind of JWT is taken for one. */
const TYPE = 'at+jwt'

/** The most verified tokens that are kept. Others are verified again. */
const MOST_KNOWN = 10_000

/** Signs access tokens, verifies them, and remembers those that are verified. */
export class AccessTokens {
  readonly keys: SigningKeys
  readonly #known = new Map<string, KnownGrant>()

  constructor(derive: (purpose: string, size: number) => Uint8Array) {
    this.keys = new SigningKeys(derive)
  }

  /** Signs a token (RFC 9068) that expires after these seconds. */
  async sign(world: TokenWorld, grant: Grant, seconds: number, id: string): Promise<string> {
    const { importJWK, SignJWT } = await import('jose')
    const now = world.clock.now()
    const key = this.keys.getCurrent(now)
    const iat = Math.floor(now.getTime() / 1000)
    const { policy, issuer, subject, key_hash } = grant
    return new SignJWT({ client_id: policy, scope: 'inference', act_iss: issuer, key: key_hash })
      .setProtectedHeader({ alg: 'ES256', kid: key.kid, typ: TYPE })
      .setIssuer(getIssuer(world))
      .setAudience(getAudience(world))
      .setSubject(subject)
      .setJti(id)
      .setIssuedAt(iat)
      .setExpirationTime(iat + seconds)
      .sign(await importJWK(key.secret, 'ES256'))
  }

  /** Returns what a token says that was verified before and is not over, by its hash. */
  find(hash: string, now: Date): Grant | undefined {
    const known = this.#known.get(hash)
    if (!known || known.expiresAt > now.getTime()) return known
    this.#known.delete(hash)
    return undefined
  }

  /** Verifies a token, so that `find` finds it. Returns whether it is one of ours and not over. */
  async verify(world: TokenWorld, token: string): Promise<boolean> {
    if (!looksSigned(token)) return false
    const { createLocalJWKSet, jwtVerify } = await import('jose')
    const now = world.clock.now()
    const keys = createLocalJWKSet({ keys: this.keys.listPublic(now) })
    const { payload } = await jwtVerify(token, keys, {
      ...{ algorithms: ['ES256'], typ: TYPE, currentDate: now },
      ...{ issuer: getIssuer(world), audience: getAudience(world) },
      requiredClaims: ['exp', 'sub'],
    }).catch(() => ({ payload: null }))
    const grant = payload && readGrant(payload)
    if (grant) this.#remember(hashSecret(token), grant, now)
    return grant !== null
  }

  #remember(hash: string, grant: KnownGrant, now: Date): void {
    if (this.#known.size >= MOST_KNOWN) this.#forget(now)
    this.#known.set(hash, grant)
  }

  #forget(now: Date): void {
    for (const [hash, { expiresAt }] of this.#known)
      if (expiresAt <= now.getTime()) this.#known.delete(hash)
    const [oldest] = this.#known.keys()
    if (this.#known.size >= MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest)
  }
}

/** The most characters of a token of ours, with the longest subject and policy. */
const LONGEST = 8_192

const looksSigned = (token: string): boolean =>
  token.startsWith('eyJ') && token.length <= LONGEST && token.split('.').length === 3

const getIssuer = ({ instance }: TokenWorld): string => instance.siteUrl.replace(/\/$/, '')
const getAudience = (world: TokenWorld): string => `${getIssuer(world)}/api/v1`

function readGrant({ client_id, act_iss, sub, key, exp }: JWTPayload): KnownGrant | null {
  const texts = [client_id, act_iss, sub, key]
  if (!texts.every(text => typeof text === 'string') || exp === undefined) return null
  const [policy, issuer, subject, key_hash] = texts as [string, string, string, string]
  return { policy, issuer, subject, key_hash, expiresAt: exp * 1000 }
}
