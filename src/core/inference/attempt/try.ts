import type { Endpoint } from '../../catalog/models.ts'
import { GatewayError } from '../../errors.ts'
import type { Gateway } from '../../gateway.ts'
import type { Cancellation } from '../../kernel/cancellation.ts'
import type { Opened } from '../../kernel/iterate.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import { protocols } from '../../protocols/registry.ts'
import { openAnswer } from '../../upstream/answer.ts'
import { authorize } from '../../upstream/authorize.ts'
import type { AnswerPart, CommonPart, Kind, Work } from '../call.ts'
import { type KindOfWork, kinds } from '../kinds.ts'
import { withMedia } from '../media.ts'
import { withinHold } from '../need.ts'
import { askedOf } from '../plan/wanted.ts'
import type { Attempt, Running } from '../running.ts'

/** An answer that has begun: from here on nobody else may be asked. */
export interface Begun<K extends Kind> extends Opened<AnswerPart<K>[]> {
  endpoint: Endpoint
  /** When its request went out, in steady milliseconds. */
  sent: number
}

/** One try at one endpoint, from its turn on. */
export interface Try extends Attempt {
  /** Whether it has a place among the second tries. */
  isRetry: boolean
  /** What ends it. */
  cancellation: Cancellation
  /** When its request went out, in steady milliseconds; null before. */
  sent: number | null
  /** Told when it does; null where nobody wants to know. */
  onSent: (() => void) | null
}

/** Asks one endpoint, and waits for the first meaningful part of its answer. Throws why there is none. */
export async function tried<K extends Kind>(gateway: Gateway, running: Running<K>, one: Try, echoes: AnswerPart<K>[]): Promise<Begun<K>> {
  const { endpoint, cancellation } = one
  const kind: KindOfWork<K> = kinds[running.kind]
  const protocol: Protocol<K> | undefined = protocols[running.kind][endpoint.protocol]
  if (!protocol) throw new GatewayError('server', 'Internal Server Error')
  const began = gateway.clock.ticks()
  const asked = askedOf(running.plan.models, running.call, endpoint)
  const payable = running.hold && running.isBounded ? withinHold(gateway, running.kind, asked, endpoint, running.hold) : asked
  const fitting = kind.fitted(payable, endpoint)
  const named = protocol.takesNames ? fitting : kind.withoutNames(fitting)
  const ready = withMedia(gateway, running.media, cancellation, kind, named, protocol.takesUrls)
  const call = ready instanceof Promise ? await ready : ready
  const request = protocol.request(call, endpoint)
  if (call.echoUpstreamBody && call.stream) echoes.push(echo(endpoint, request.body))
  running.attempts.push(one)
  try {
    const authorized = authorize(gateway, endpoint.provider, request, cancellation)
    const outgoing = authorized instanceof Promise ? await authorized : authorized
    const sent = gateway.clock.ticks()
    one.sent = sent
    one.onSent?.()
    const opened = await openAnswer(gateway, outgoing, protocol, endpoint, call, cancellation, status => {
      one.status = status
    })
    const { first, rest } = opened.first.some(kind.isMeaningful) ? opened : await untilMeaningful(opened, kind)
    running.firstPart ??= gateway.clock.ticks()
    gateway.health.answered(endpoint, sent, rest !== null)
    return { endpoint, sent, first: echoes.length > 0 ? [...echoes, ...first] : first, rest }
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    one.error = error
    if (!cancellation.reason) gateway.health.failed(endpoint, error)
    throw error
  } finally {
    one.latency = Math.round(gateway.clock.ticks() - began)
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
