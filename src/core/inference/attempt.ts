import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Opened } from '../kernel/iterate.ts'
import type { Protocol } from '../protocols/protocol.ts'
import { protocols } from '../protocols/registry.ts'
import { openAnswer } from '../upstream/answer.ts'
import { authorize } from '../upstream/authorize.ts'
import type { AnswerPart, CommonPart, Kind, Work } from './call.ts'
import { type KindOfWork, kinds } from './kinds.ts'
import { withMedia } from './media.ts'
import { withinHold } from './need.ts'
import type { Running } from './running.ts'

/** An answer that has begun: from here on nobody else may be asked. */
export interface Begun<K extends Kind> extends Opened<AnswerPart<K>[]> {
  endpoint: Endpoint
  /** When its request went out, in steady milliseconds. */
  sent: number
}

/** At most this many endpoints are tried for one call, so that an outage does not multiply traffic. */
const MOST_ATTEMPTS = 3

interface Failure {
  endpoint: Endpoint
  error: GatewayError
}

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, silence, a refused connection
 * or a broken stream before that moves on to the next endpoint; what one provider of a model refuses as invalid the others
 * would refuse too, so that moves on to the next model. A second try goes to none that rests, and only while few calls are on
 * theirs. Throws the last failure, with the attempts in `metadata.previous_errors`.
 */
export async function attemptInOrder<K extends Kind>(gateway: Gateway, running: Running<K>): Promise<Begun<K>> {
  const echoes: AnswerPart<K>[] = []
  const failures: Failure[] = []
  const refusing: string[] = []
  for (const endpoint of running.plan.endpoints) {
    const isRetry = failures.length > 0
    if (failures.length === MOST_ATTEMPTS) break
    if (refusing.includes(endpoint.model) || (isRetry && gateway.health.restsUntil(endpoint) > 0)) continue
    if (isRetry && !gateway.retries.take()) break
    try {
      return await attempt(gateway, running, endpoint, echoes)
    } catch (thrown) {
      const error = GatewayError.from(thrown)
      failures.push({ endpoint, error })
      gateway.events.publish('attempt.failed', { endpoint, error })
      if (error.type === 'server' || running.cancellation.reason) break
      if (!isWorthFallback(error)) refusing.push(endpoint.model)
    } finally {
      if (isRetry) gateway.retries.leave()
    }
  }
  throw summaryOf(failures)
}

/** Whether the failure is the upstream's own, so that another endpoint may do better. Our own bug is not: it would only be hidden. */
export const isWorthFallback = (error: GatewayError): boolean => error.type !== 'server' && (error.status >= 500 || error.status === 429)

/** The last failure, with what came before it, and the shortest wait that any provider asked for. */
function summaryOf(failures: Failure[]): GatewayError {
  const last = failures.at(-1)
  if (!last) return new GatewayError('server', 'Internal Server Error')
  const { error, endpoint } = last
  if (error.type === 'server') return error
  const previous_errors = failures.slice(0, -1).map(one => ({ provider: one.endpoint.provider.name, code: one.error.status }))
  const byok = endpoint.is_byok ? { is_byok: true } : {}
  const waits = failures.flatMap(one => one.error.retryAfter ?? [])
  return new GatewayError(error.type, error.message, {
    metadata: {
      ...error.metadata,
      provider_name: endpoint.provider.name,
      ...byok,
      ...(previous_errors.length > 0 ? { previous_errors } : {}),
    },
    cause: error,
    status: error.status,
    ...(waits.length > 0 ? { retryAfter: Math.min(...waits) } : {}),
  })
}

async function attempt<K extends Kind>(
  gateway: Gateway,
  running: Running<K>,
  endpoint: Endpoint,
  echoes: AnswerPart<K>[],
): Promise<Begun<K>> {
  const kind: KindOfWork<K> = kinds[running.kind]
  const protocol: Protocol<K> | undefined = protocols[running.kind][endpoint.protocol]
  if (!protocol) throw new GatewayError('server', 'Internal Server Error')
  const began = gateway.clock.ticks()
  const payable = running.hold && running.isBounded ? withinHold(gateway, running.kind, running.call, endpoint, running.hold) : running.call
  const fitting = kind.fitted(payable, endpoint)
  const named = protocol.takesNames ? fitting : kind.withoutNames(fitting)
  const ready = withMedia(gateway, running, kind, named, protocol.takesUrls)
  const call = ready instanceof Promise ? await ready : ready
  const request = protocol.request(call, endpoint)
  if (call.echoUpstreamBody && call.stream) echoes.push(echo(endpoint, request.body))
  let status: number | null = null
  let failed: GatewayError | null = null
  const answered = (code: number) => {
    status = code
  }
  try {
    const authorized = authorize(gateway, endpoint.provider, request, running.cancellation)
    const outgoing = authorized instanceof Promise ? await authorized : authorized
    const sent = gateway.clock.ticks()
    gateway.health.started(endpoint)
    const opened = await openAnswer(gateway, outgoing, protocol, endpoint, call, running.cancellation, answered)
    const { first, rest } = opened.first.some(kind.isMeaningful) ? opened : await untilMeaningful(opened, kind)
    running.firstPart ??= gateway.clock.ticks()
    gateway.health.answered(endpoint, sent, rest !== null)
    return { endpoint, sent, first: echoes.length > 0 ? [...echoes, ...first] : first, rest }
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    failed = error
    if (!running.cancellation.reason) gateway.health.failed(endpoint, error)
    throw error
  } finally {
    running.attempts.push({ endpoint, latency: Math.round(gateway.clock.ticks() - began), status, error: failed })
  }
}

/** Waits for the first part that a caller can use. */
async function untilMeaningful<K extends Kind>(
  { first, rest }: Opened<Work[K]['part'][]>,
  kind: KindOfWork<K>,
): Promise<Opened<Work[K]['part'][]>> {
  for (let step = await rest?.next(); step && !step.done; step = await rest?.next()) {
    first.push(...step.value)
    if (step.value.some(kind.isMeaningful)) return { first, rest }
  }
  // Whole, and nothing in it: a provider that has failed without saying so.
  throw new GatewayError('provider_unavailable', 'Provider returned error')
}

// Pictures and files would fill the debug chunk with noise, and whose they are is nobody's business there.
function echo({ provider, model }: Endpoint, body: unknown): CommonPart {
  return { type: 'echo', provider: provider.name, model, body: JSON.parse(JSON.stringify(body, (_, value) => shortened(value))) }
}

const shortened = (value: unknown) => (typeof value === 'string' && /^data:[^,]{0,100};base64,/.test(value) ? '[data]' : value)
