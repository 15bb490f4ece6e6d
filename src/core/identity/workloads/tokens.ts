import type { JWTPayload } from 'jose'
import { hashSecret } from '../keys/secret.ts'
import { SigningKeys } from './signing-keys.ts'

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
