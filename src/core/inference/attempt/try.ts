import type { Endpoint } from '../../catalog/models.ts'
import { GatewayError } from '../../errors.ts'
import type { Cancellation } from '../../kernel/cancellation.ts'
import type { Opened } from '../../kernel/iterate.ts'
import type { CommonPart } from '../../language/part.ts'
import type { AnswerPart, Kind, Work } from '../../language/work.ts'
import type { Protocol, UpstreamRequest } from '../../protocols/protocol.ts'
import { protocols } from '../../protocols/registry.ts'
import { openAnswer } from '../../upstream/answer.ts'
import { authorize } from '../../upstream/authorize.ts'
import { type KindOfWork, kinds, type Understanding } from '../kinds.ts'
import { withMedia } from '../media.ts'
import { withinHold } from '../need.ts'
import { askedOf } from '../plan/wanted.ts'
import type { Attempt, Run, Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'

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
export async function tried<K extends Kind>(gateway: InferenceWorld, step: Step<K>, one: Try, echoes: AnswerPart<K>[]): Promise<Begun<K>> {
  const { endpoint, cancellation } = one
  const { run } = step
  const kind: KindOfWork<K> = kinds[run.kind]
  const protocol = protocolOf(run.kind, endpoint)
  const began = gateway.clock.ticks()
  const ready = withMedia(gateway, run.media, cancellation, kind, callFor(gateway, step, endpoint, protocol), protocol.takesUrls)
  const call = ready instanceof Promise ? await ready : ready
  const request = protocol.request(call, endpoint)
  if (call.echoUpstreamBody && call.stream) echoes.push(echo(endpoint, request.body))
  step.attempts.push(one)
  gateway.events.publish('attempt.started', one)
  try {
    const { first, rest, sent } = await answered(gateway, one, { kind, protocol, call, request })
    if (run.firstPart === null) firstPart(gateway, run)
    gateway.traffic.health.answered(endpoint, sent, rest !== null)
    return { endpoint, sent, first: echoes.length > 0 ? [...echoes, ...first] : first, rest }
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    one.error = error
    if (!cancellation.reason) gateway.traffic.health.failed(endpoint, error)
    throw error
  } finally {
    one.latency = Math.round(gateway.clock.ticks() - began)
  }
}

/** The client can be told something. */
function firstPart(world: InferenceWorld, run: Run): void {
  run.firstPart = world.clock.ticks()
  world.events.publish('first.token', run)
}

function protocolOf<K extends Kind>(kind: K, endpoint: Endpoint): Protocol<K> {
  const protocol: Protocol<K> | undefined = protocols[kind][endpoint.protocol]
  if (!protocol) throw new GatewayError('server', 'Internal Server Error')
  return protocol
}

/** The call as its model is asked, with no more output than was set aside for it, in what the endpoint takes of it. */
function callFor<K extends Kind>(
  gateway: InferenceWorld,
  { run: { kind }, call, plan, hold, isBounded }: Step<K>,
  endpoint: Endpoint,
  { takesNames }: Protocol<K>,
): Work[K]['call'] {
  const { fitToEndpoint, removeNames }: Understanding<K> = kinds[kind].understanding
  const asked = plan ? askedOf(plan.models, call, endpoint) : call
  const payable = hold && isBounded ? withinHold(gateway, kind, asked, endpoint, hold) : asked
  const fitting = fitToEndpoint(payable, endpoint)
  return takesNames ? fitting : removeNames(fitting)
}

/** What goes out, and how it is spoken. */
interface Asking<K extends Kind> {
  kind: KindOfWork<K>
  protocol: Protocol<K>
  call: Work[K]['call']
  request: UpstreamRequest
}

/** The answer from its first meaningful part on, and when its request went out. */
async function answered<K extends Kind>(gateway: InferenceWorld, one: Try, { kind, protocol, call, request }: Asking<K>) {
  const { endpoint, cancellation } = one
  const authorized = authorize(gateway, endpoint.provider, request, cancellation)
  const outgoing = authorized instanceof Promise ? await authorized : authorized
  const sent = gateway.clock.ticks()
  one.sent = sent
  one.onSent?.()
  const opened = await openAnswer(gateway, outgoing, protocol, endpoint, call, cancellation, status => {
    one.status = status
  })
  const { first, rest } = opened.first.some(kind.isMeaningful) ? opened : await untilMeaningful(opened, kind)
  return { first, rest, sent }
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
