import type { JSONWebKeySet, JWTPayload } from 'jose'
import { GatewayError } from '../../base/errors.ts'
import type { SignInConfig } from '../../config/sign-in.ts'
import type { IssuerConfig } from '../../config/workloads.ts'
import { refuseExchange } from './refusal.ts'

/** What an issuer says of a workload. */
export interface Subject {
  /** What it is counted by. */
  name: string
  /** In seconds since 1970. */
  issuedAt: number
  expiresAt: number
  /** The token's own id; null if it has none. */
  jti: string | null
}

/** Which issuer is asked, and where its keys are if it does not say so. */
export type IssuerName = Pick<IssuerConfig, 'issuer' | 'jwks_url'>

/** Asks issuers, and remembers what they say. Throws 503 for what cannot be had. */
export interface IssuerKeys {
  /** Returns the keys of an issuer, and asks it again for an unknown one. */
  getKeys(issuer: IssuerName, kid: string | undefined): Promise<JSONWebKeySet>
  /** Returns where a provider of sign-in is. */
  getEndpoints(provider: IssuerName): Promise<{ authorization_endpoint: string }>
  /** Exchanges a code for an ID token. Throws 403 for a code that the provider does not take. */
  exchangeCode(provider: SignInConfig, form: Record<string, string>): Promise<string>
}

// Only signatures whose key has two halves: with HS256 the public one would sign, too.
export const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]

/** In seconds: what the clocks of an issuer and of this host may differ by. */
export const TOLERANCE = 60
/** In seconds: the longest life of a token that is taken. */
export const LONGEST_LIFE = 86_400
const LONGEST_SUBJECT = 500

/**
 * Verifies the token of a workload against the keys and the rules of its issuer. Throws 400
 * `invalid_grant`, and 503 where the issuer's keys are not to be had.
 */
export async function verifySubjectToken(
  world: { workloads: { issuerKeys: IssuerKeys }; clock: { now(): Date } },
  rule: IssuerConfig,
  token: string,
): Promise<Subject> {
  const { createLocalJWKSet, jwtVerify } = await import('jose')
  const now = world.clock.now()
  const payload = await jwtVerify(
    token,
    async (header, input) =>
      createLocalJWKSet(await world.workloads.issuerKeys.getKeys(rule, header.kid))(header, input),
    {
      ...{ algorithms: ALGORITHMS, issuer: rule.issuer, audience: rule.audiences },
      ...{ clockTolerance: TOLERANCE, currentDate: now },
      requiredClaims: ['exp', 'iat'],
    },
  ).then(({ payload }) => payload, refuseToken)
  return readSubject(rule, payload, Math.floor(now.getTime() / 1000))
}

// What jose says of a token names claims and never their values.
function refuseToken(thrown: unknown): never {
  if (thrown instanceof GatewayError) throw thrown
  const reason = REASONS[(thrown as { code?: string }).code ?? '']
  const claim = (thrown as { claim?: string }).claim
  const why = reason ?? 'it cannot be verified'
  throw refuseExchange(
    'invalid_grant',
    `subject_token: ${why}${reason && claim && claim !== 'unspecified' ? ` (${claim})` : ''}`,
  )
}

const REASONS: Record<string, string> = {
  ERR_JWT_EXPIRED: 'it is over',
  ERR_JWT_CLAIM_VALIDATION_FAILED: 'a claim is not as the policy expects it',
  ERR_JOSE_ALG_NOT_ALLOWED: 'its algorithm is not allowed',
  ERR_JWKS_NO_MATCHING_KEY: 'its issuer has no such key',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'its signature is wrong',
  ERR_JWS_INVALID: 'it is not a signed JWT',
  ERR_JWT_INVALID: 'it is not a signed JWT',
}

function readSubject(rule: IssuerConfig, payload: JWTPayload, now: number): Subject {
  const { iat = 0, exp = 0, jti } = payload
  if (iat > now + TOLERANCE) throw refuseExchange('invalid_grant', 'subject_token: not yet valid')
  if (exp - iat > LONGEST_LIFE)
    throw refuseExchange('invalid_grant', 'subject_token: it lives longer than a day')
  const broken = findBrokenRule(payload, rule.claims)
  if (broken !== undefined)
    throw refuseExchange('invalid_grant', `subject_token: not what the policy expects (${broken})`)
  const { subject = 'sub' } = rule
  return {
    name: readName(payload[subject], subject),
    issuedAt: iat,
    expiresAt: exp,
    jti: typeof jti === 'string' && jti.length > 0 ? jti : null,
  }
}

/** Finds a claim that is not as its rule expects it; undefined if all are. */
export const findBrokenRule = (
  payload: JWTPayload,
  claims: IssuerConfig['claims'],
): string | undefined =>
  Object.entries(claims).find(([claim, values]) => !matchesAny(payload[claim], values))?.[0]

/** Whether a claim, or one of its values, is one of those that a rule has. */
function matchesAny(claim: unknown, values: string[]): boolean {
  if (Array.isArray(claim)) return claim.some(one => !Array.isArray(one) && matchesAny(one, values))
  if (typeof claim !== 'string' && typeof claim !== 'boolean' && typeof claim !== 'number')
    return false
  const text = String(claim)
  return values.some(value =>
    value.endsWith('*') ? text.startsWith(value.slice(0, -1)) : text === value,
  )
}

function readName(claim: unknown, name: string): string {
  const text = typeof claim === 'number' ? String(claim) : claim
  const isName = typeof text === 'string' && /^[^\p{Cc}]+$/u.test(text)
  if (!isName || text.length > LONGEST_SUBJECT)
    throw refuseExchange('invalid_grant', `subject_token: no subject to count by (${name})`)
  return text
}
