import { type AnyElysia, Elysia } from 'elysia'
import type { CallContext, Dialect, DialectBody, Streaming } from '../../core/dialects/dialect.ts'
import { dialects } from '../../core/dialects/registry.ts'
import { GatewayError } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { Explanation, explain } from '../../core/inference/explain.ts'
import { infer } from '../../core/inference/infer.ts'
import type { Answer } from '../../core/language/answer.ts'
import type { Kind, Work } from '../../core/language/work.ts'
import { anyKey, anyKeyInEitherHeader } from '../access.ts'
import { readBody } from '../body.ts'
import { errorResponse } from '../errors.ts'
import { eventStream } from '../event-stream.ts'
import { betasOf, originOf, requestIdOf, routingMetadataOf, sessionOf } from '../headers.ts'
import { type Operation, operation } from '../operation.ts'

/** Creates the routes of every dialect in the registry. */
export const inference = (gateway: Gateway): AnyElysia =>
  dialects.reduce<AnyElysia>((app, dialect) => app.use(makeRoute(gateway, dialect)), new Elysia())

function makeRoute(gateway: Gateway, dialect: Dialect) {
  const described = operation(describe(dialect))
  return new Elysia()
    .use(dialect.eitherHeader ? anyKeyInEitherHeader(gateway) : anyKey(gateway))
    .post(
      dialect.path,
      ({ actor, request }) => respond({ gateway, dialect, actor, request }),
      described,
    )
}

const STATUSES = [200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 524, 529]

/** Requests routing metadata (wire reference A.10). `headers.ts` has its other names. */
const METADATA_HEADER = { 'X-Gateway-Metadata': ['disabled', 'enabled'] }

const describe = ({ operation, body, refusal, ...dialect }: Dialect): Operation => ({
  ...operation,
  body,
  statuses: STATUSES,
  other: {
    name: 'Explanation',
    schema: Explanation,
    when: 'with `debug.dry_run`, by management keys',
  },
  ...(dialect.showsRouting ? { headers: METADATA_HEADER } : {}),
  ...(dialect.streaming ? { produces: ['text/event-stream'] } : {}),
  ...(dialect.eitherHeader ? { eitherHeader: true } : {}),
  ...(refusal ? { refusal } : {}),
})

/** One request to a dialect's route. */
interface Visit {
  gateway: Gateway
  dialect: Dialect
  actor: Actor
  request: Request
}

/**
 * Answers a request, whole or streamed. Every answer carries the ids of the request and of its
 * generation. Every failure becomes a response in the dialect's form.
 */
async function respond(visit: Visit): Promise<Response> {
  const { gateway, dialect, actor, request } = visit
  const { refusal, streaming } = dialect
  const id = gateway.ids.generation(gateway.clock.now())
  const requestId = requestIdOf(request, id)
  const headers = { 'x-generation-id': id, 'x-request-id': requestId }
  try {
    const context = readContext(visit, id, requestId)
    const body = (await readBody(request, dialect.body)) as DialectBody
    if (body.debug?.dry_run) return await explainCall(visit, body, context)
    const call = dialect.understand(gateway, actor, body, context)
    const answer = infer(gateway, actor, dialect.kind, call, request.signal)
    if (call.stream && streaming) {
      const asked = { call, body, answer }
      return await stream(gateway, streaming, asked, headers)
    }
    return Response.json(await dialect.whole(await answer, call, body), { headers })
  } catch (thrown) {
    const envelope = refusal && ((error: GatewayError) => refusal.envelope(error, id))
    return errorResponse(thrown, requestId, headers, envelope)
  }
}

function readContext(visit: Visit, id: string, requestId: string): CallContext {
  const { gateway, dialect, request } = visit
  const origin = originOf(request, requestId, gateway)
  const context = { id, origin, session_id: sessionOf(request), betas: betasOf(request) }
  const routingMetadata = dialect.showsRouting ? routingMetadataOf(request, gateway) : undefined
  return routingMetadata === undefined ? context : { ...context, routingMetadata }
}

/** Answers a dry run. The answer has the request's id, and no generation's, as there is none. */
async function explainCall(visit: Visit, body: DialectBody, context: CallContext) {
  const { gateway, dialect, actor } = visit
  const understand = (as: Actor) => dialect.understand(gateway, as, body, context)
  const key = body.debug?.key ?? undefined
  const explanation = await explain(gateway, actor, { key }, dialect.kind, understand)
  return Response.json(explanation, { headers: { 'x-request-id': context.origin.request_id } })
}

/** A running call, with the body that requested it. */
interface Asked {
  call: Work[Kind]['call']
  body: DialectBody
  answer: Promise<Answer<Kind>>
}

/**
 * Waits for the answer to begin, so that a call which fails at once has a plain error and its
 * status. After one keep-alive interval the response starts with keep-alives, and a later failure
 * becomes an event.
 */
async function stream(
  gateway: Gateway,
  streaming: Streaming,
  { call, body, answer }: Asked,
  headers: Record<string, string>,
): Promise<Response> {
  const { service_name, timeouts } = gateway.config
  const interval = timeouts.keep_alive_seconds * 1000
  const keepAlive = { text: streaming.keepAlive(service_name), interval }
  const soon = await waitAtMost(answer, interval)
  if (soon) return eventStream(streaming.events(soon, call, body), keepAlive, headers)
  const late = answer.then(
    begun => streaming.events(begun, call, body),
    thrown => {
      const error = GatewayError.from(thrown)
      return yieldOnce(streaming.failure(makeHeading(gateway, call), error, call, body))
    },
  )
  return eventStream(late, keepAlive, headers)
}

/** Waits for a promise. Returns undefined if it is still pending after so many milliseconds. */
async function waitAtMost<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(resolve, milliseconds)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

const makeHeading = ({ clock }: Gateway, { id, models }: Work[Kind]['call']) => ({
  id,
  created: Math.floor(clock.now().getTime() / 1000),
  model: models[0] ?? '',
  provider: '',
})

async function* yieldOnce(text: string): AsyncGenerator<string> {
  yield text
}
