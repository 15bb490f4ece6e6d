import { createECDH } from 'node:crypto'
import type { JWK } from 'jose'

/** In milliseconds: how long one key signs. */
const DAY = 86_400_000

/** A key as it is published (RFC 7517), of the one curve and algorithm that we sign with. */
export interface PublicKey {
  kty: 'EC'
  crv: 'P-256'
  alg: 'ES256'
  use: 'sig'
  kid: string
  x: string
  y: string
}

/** A key of one day, with its secret half. */
export interface SigningKey {
  kid: string
  secret: JWK
  shown: PublicKey
}

/**
 * The keys that access tokens are signed with: one for each day (UTC), derived from the secret of
 * the data directory, so that none is ever stored.
 */
export class SigningKeys {
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
