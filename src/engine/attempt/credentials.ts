import type { GatewayError } from '../../base/errors.ts'
import type { Kind } from '../../language/work.ts'
import type { AnswerObserver } from '../../network/answer.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { type CredentialFailure, REFUSED_REST } from '../../resources/providers/pool.ts'
import type { PooledCredential } from '../../resources/providers/provider.ts'
import { isEndpointFault, SHORTEST_WAIT } from '../health.ts'
import type { Run, RunningAttempt } from '../run.ts'
import { findSession } from '../traffic.ts'
import type { InferenceWorld } from '../world.ts'

/**
 * Picks one of the credentials of an endpoint's provider that the call has not tried. Undefined if
 * none is left.
 */
export function pickCredential<K extends Kind>(
  { clock, ids }: InferenceWorld,
  run: Run<K>,
  { provider: { pool }, upstreamModel: model }: Endpoint,
  tried: ReadonlySet<PooledCredential> | null,
): PooledCredential | undefined {
  const session = nameSession(run)
  return pool?.pick({ model, session, tried, now: clock.ticks(), random: ids.random })
}

// What a provider has cached of a conversation is its credential's. A first question has nothing
// there that is worth the weights.
function nameSession<K extends Kind>({ actor, kind, call }: Run<K>): string | null {
  const session = findSession(actor, kind, call)
  const isLater = call.kind === 'text' && call.messages.some(({ role }) => role === 'assistant')
  return session && (session.isNamed || isLater) ? session.key : null
}

/** Returns the endpoint as it is asked with a credential: at the address of that, if it has one. */
export function toSentEndpoint(
  endpoint: Endpoint,
  { provider, hasOwnAddress }: PooledCredential,
): Endpoint {
  if (!hasOwnAddress) return { ...endpoint, provider }
  const spoken = provider.alsoSpeaks.find(({ protocol }) => protocol === endpoint.protocol)
  const { base_url: _, ...others } = endpoint
  return { ...others, provider, ...(spoken ? { base_url: spoken.base_url } : {}) }
}

/** Returns what reads of a response how much is left of the limits of its credential. */
export const createLimitsReader =
  (
    { clock }: InferenceWorld,
    { provider: { pool }, upstreamModel }: Endpoint,
    credential: PooledCredential,
  ): NonNullable<AnswerObserver['onHeaders']> =>
  response =>
    pool?.readLimits(credential, upstreamModel, response, clock)

/**
 * Lets the credential of a failed attempt rest, if the failure is its own. Returns the failure as the
 * whole provider's, or null while another of its credentials is awake.
 */
export function restCredential(
  world: InferenceWorld,
  { endpoint, credential }: RunningAttempt,
  error: GatewayError,
): GatewayError | null {
  const { pool, name } = endpoint.provider
  const failure = pool && credential ? judgeFailure(world, credential, error) : null
  if (!pool || !credential || !failure) return error
  const now = world.clock.ticks()
  pool.recordFailure(credential, endpoint.upstreamModel, failure, now)
  const rest = pool.getShortestRest(endpoint.upstreamModel, now)
  if (rest === 0) return null
  if (error.type === 'rate_limit_exceeded')
    return error.with({ retryAfter: Math.ceil(rest / 1000) })
  const count = pool.credentials.length
  return error.trouble
    ? error.with({ message: `None of the ${count} credentials of ${name} works now` })
    : error
}

/** Returns what a failure says of the credential; null if another would fail as well. */
function judgeFailure(
  { config }: InferenceWorld,
  { hasOwnAddress }: PooledCredential,
  error: GatewayError,
): CredentialFailure | null {
  const { type: reason, trouble, retryAfter = 0 } = error
  const asked = retryAfter * 1000
  if (reason === 'rate_limit_exceeded')
    return { rest: asked || SHORTEST_WAIT, isWhole: false, reason }
  if (trouble === 'credential' || trouble === 'balance')
    return { rest: asked || REFUSED_REST, isWhole: true, reason }
  // What an account may not use, others of its models do not show.
  if (trouble === 'account' || (trouble === 'model' && hasOwnAddress))
    return { rest: asked || REFUSED_REST, isWhole: false, reason }
  return hasOwnAddress && isEndpointFault(error)
    ? { rest: asked || config.routing.pause_seconds * 1000, isWhole: true, reason }
    : null
}
