import type { CallContext } from '../core/dialects/routing.ts'
import { GatewayError } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import type { Explanation } from '../core/inference/explain.ts'
import { infer } from '../core/inference/infer.ts'
import type { Answer } from '../core/language/answer.ts'
import type { TextCall } from '../core/language/call.ts'
import { explained } from './dry-run.ts'
import { errorResponse } from './errors.ts'
import { eventStream, type KeepAlive } from './event-stream.ts'
import { betasOf, originOf, requestIdOf, routingMetadataOf, sessionOf } from './headers.ts'
import type { Refusal } from './operation.ts'

/** The statuses that an inference route may answer with. */
export const STATUSES = [200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 524, 529]

/** Asks to be told how the call was routed, under `gateway_metadata` (wire reference A.10). It has other names too: see `headers.ts`. */
export const METADATA_HEADER = { 'X-Gateway-Metadata': ['disabled', 'enabled'] }

/** What an answer's events say of it before it has begun. */
export type Heading = Pick<Answer<'text'>, 'id' | 'created' | 'model' | 'provider'>

/** A call, and how its answer is told in the dialect that asked for it. */
export interface Understood {
  call: TextCall
  /** The whole answer. Throws when there is none. */
  whole(answer: Answer<'text'>): Promise<unknown>
  /** The events of a streamed answer. */
  events(answer: Answer<'text'>): AsyncIterator<string>
  /** The events of a call that failed after its stream had begun. */
  failure(heading: Heading, error: GatewayError): string
}

/** What would become of a call, for who asks that instead. */
export interface DryRun {
  explanation: Explanation
}

/** What differs between the dialects at the door. */
export interface Door {
  /** Reads and understands the body. Throws what is wrong with it. */
  understand(context: CallContext): Promise<Understood | DryRun>
  /** What is sent while a stream's client waits. */
  keepAlive: string
  /** How a refusal looks, where it is not the usual. */
  refusal?: Refusal
}

/** Answers a request for text, whole or streamed; every failure becomes a response. */
export const respond = (gateway: Gateway, actor: Actor, request: Request, door: Door): Promise<Response> =>
  responding(gateway, request, door.refusal, async (context, headers) => {
    const routingMetadata = routingMetadataOf(request, gateway)
    const understood = await door.understand(routingMetadata === undefined ? context : { ...context, routingMetadata })
    if ('explanation' in understood) return explained(understood.explanation, headers)
    const answer = infer(gateway, actor, 'text', understood.call, request.signal)
    if (understood.call.stream) return await streamed(gateway, understood, answer, keepAliveOf(gateway, door), headers)
    return Response.json(await understood.whole(await answer), { headers })
  })

type Respond = (context: CallContext, headers: Record<string, string>) => Promise<Response>

/** Gives an inference request its ids, which every answer to it carries; every failure becomes a response. */
export async function responding(gateway: Gateway, request: Request, refusal: Refusal | undefined, answer: Respond): Promise<Response> {
  const id = gateway.ids.generation(gateway.clock.now())
  const requestId = requestIdOf(request, id)
  const headers = { 'x-generation-id': id, 'x-request-id': requestId }
  try {
    const origin = originOf(request, requestId, gateway)
    return await answer({ id, origin, session_id: sessionOf(request), betas: betasOf(request) }, headers)
  } catch (thrown) {
    return errorResponse(thrown, requestId, headers, refusal && (error => refusal.envelope(error, id)))
  }
}

/**
 * Waits for the answer to begin, so that a call which fails at once has a plain error and its status. A call that keeps its
 * client waiting longer than one keep-alive is answered with those, and its failure becomes an event.
 */
async function streamed(
  gateway: Gateway,
  { call, events, failure }: Understood,
  answer: Promise<Answer<'text'>>,
  keepAlive: KeepAlive,
  headers: Record<string, string>,
): Promise<Response> {
  const soon = await withinInterval(answer, keepAlive.interval)
  if (soon) return eventStream(events(soon), keepAlive, headers)
  const late = answer.then(events, thrown => oneText(failure(headingOf(gateway, call), GatewayError.from(thrown))))
  return eventStream(late, keepAlive, headers)
}

async function withinInterval(answer: Promise<Answer<'text'>>, milliseconds: number): Promise<Answer<'text'> | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(resolve, milliseconds)
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

const keepAliveOf = ({ config }: Gateway, { keepAlive }: Door): KeepAlive => ({
  text: keepAlive,
  interval: config.timeouts.keep_alive_seconds * 1000,
})

const headingOf = ({ clock }: Gateway, { id, models }: TextCall): Heading => ({
  id,
  created: Math.floor(clock.now().getTime() / 1000),
  model: models[0] ?? '',
  provider: '',
})

async function* oneText(text: string): AsyncGenerator<string> {
  yield text
}
