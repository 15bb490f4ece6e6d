import type { JWTPayload } from 'jose'
import { isObject } from '../../base/json.ts'
import { endProviderSessions, type SignInWorld } from '../sign-ins.ts'
import { refuseExchange } from '../workloads/refusal.ts'
import { LONGEST_LIFE, TOLERANCE } from '../workloads/subject-token.ts'
import { readProviderSession, requireProvider, verifyProviderToken } from './oidc.ts'

const LOGOUT = 'http://schemas.openid.net/event/backchannel-logout'

/**
 * Ends the sessions that a provider says are over (OpenID Connect Back-Channel Logout 1.0, 2.6 and
 * 2.7): those of one session of its own, or all of a user. Keys that apps were given stay. Throws
 * 400 for a token that is no logout or was used, 403 for one of another, and 503 where the
 * provider's keys are not to be had.
 */
export async function takeLogout(world: SignInWorld, token: string): Promise<void> {
  const provider = requireProvider(world)
  const { payload, protectedHeader } = await verifyProviderToken(world, provider, token)
  checkType(protectedHeader.typ)
  const now = world.clock.now()
  const { jti, iat, exp } = readLogout(payload, now.getTime() / 1000)
  const over = readProviderSession(provider, payload)
  if (over.subject === null && over.sid === null) throw refuse('expected sub or sid')
  const { used } = world.workloads
  const name = ['logout', provider.issuer, jti]
  if (!(await used.mark(name, exp, now))) throw refuse('it was used already')
  // A token that somebody keeps ends nothing that begins after it.
  const until = new Date((iat + TOLERANCE) * 1000).toISOString()
  await endProviderSessions(world, { ...over, at: iat }, until).catch(async thrown => {
    await used.unmark(name)
    throw thrown
  })
}

const refuse = (why: string) => refuseExchange('invalid_request', `logout_token: ${why}`)

// A token without a type is taken (2.4), and one of another type never.
function checkType(type = 'logout+jwt'): void {
  const name = type.toLowerCase().replace(/^application\//, '')
  if (name !== 'logout+jwt' && name !== 'jwt') throw refuse('expected the type logout+jwt')
}

function readLogout(payload: JWTPayload, now: number) {
  const { events, jti, iat = 0, exp = 0 } = payload
  if (!isObject(events) || !isObject(events[LOGOUT])) throw refuse('expected the event of a logout')
  if ('nonce' in payload) throw refuse('expected no nonce')
  if (typeof jti !== 'string' || jti === '') throw refuse('expected a jti')
  if (iat > now + TOLERANCE) throw refuse('it is not yet valid')
  if (exp - iat > LONGEST_LIFE) throw refuse('it lives longer than a day')
  return { jti, iat, exp }
}
