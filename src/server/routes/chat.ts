import { Elysia } from 'elysia'
import {
  ChatRequest,
  CompletionRequest,
  chatEvents,
  chatFailure,
  chatResponse,
  type Shape,
  shapeOf,
  understand,
} from '../../core/dialects/chat.ts'
import { GatewayError } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import type { TextCall } from '../../core/inference/call.ts'
import { infer } from '../../core/inference/infer.ts'
import type { Answer } from '../../core/inference/settle.ts'
import { anyKey } from '../access.ts'
import { readBody } from '../body.ts'
import { errorResponse } from '../errors.ts'
import { eventStream, type KeepAlive } from '../event-stream.ts'
import { betasOf, originOf, requestIdOf, sessionOf } from '../headers.ts'
import { operation } from '../operation.ts'

const STATUSES = [200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 524, 529]

/** Chat completions (specification E9), and text completions under their old path. */
export const chat = (gateway: Gateway) =>
  new Elysia()
    .use(anyKey(gateway))
    .post(
      '/chat/completions',
      ({ actor, request }) => complete(gateway, actor, request, ChatRequest),
      operation({
        id: 'sendChatCompletionRequest',
        tag: 'Chat',
        summary: 'Answer a conversation, whole or streamed',
        body: ChatRequest,
        statuses: STATUSES,
        produces: ['text/event-stream'],
      }),
    )
    .post(
      '/completions',
      ({ actor, request }) => complete(gateway, actor, request, CompletionRequest),
      operation({
        id: 'sendCompletionRequest',
        tag: 'Chat',
        summary: 'Continue a text, whole or streamed',
        body: CompletionRequest,
        statuses: STATUSES,
        produces: ['text/event-stream'],
      }),
    )

async function complete(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  schema: typeof ChatRequest | typeof CompletionRequest,
): Promise<Response> {
  const id = gateway.ids.generation(gateway.clock.now())
  const requestId = requestIdOf(request, id)
  const headers = { 'x-generation-id': id, 'x-request-id': requestId }
  try {
    const body: ChatRequest = await readBody(request, schema)
    const call = understand(gateway, actor, body, {
      id,
      origin: originOf(request, requestId, gateway),
      session_id: sessionOf(request),
      betas: betasOf(request),
    })
    const shape = shapeOf(body.messages === undefined, schema === CompletionRequest, call.params.reasoning?.exclude ?? false)
    const answer = infer(gateway, actor, 'text', call, request.signal)
    if (call.stream) return await streamed(gateway, call, answer, shape, headers)
    return Response.json(await chatResponse(await answer, shape), { headers })
  } catch (thrown) {
    return errorResponse(thrown, requestId, headers)
  }
}

/**
 * Waits for the answer to begin, so that a call which fails at once has a plain error and its status. A call that keeps its
 * client waiting longer than one keep-alive is answered with comments, and its failure becomes an event.
 */
async function streamed(
  gateway: Gateway,
  call: TextCall,
  answer: Promise<Answer<'text'>>,
  shape: Shape,
  headers: Record<string, string>,
): Promise<Response> {
  const keepAlive = keepAliveOf(gateway)
  const soon = await withinInterval(answer, keepAlive.interval)
  if (soon) return eventStream(chatEvents(soon, shape), keepAlive, headers)
  const events = answer.then(
    begun => chatEvents(begun, shape),
    thrown => oneText(failureEvents(gateway, call, thrown, shape)),
  )
  return eventStream(events, keepAlive, headers)
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

const keepAliveOf = ({ config }: Gateway): KeepAlive => ({
  comment: `${config.service_name.toUpperCase()} PROCESSING`,
  interval: config.timeouts.keep_alive_seconds * 1000,
})

function failureEvents(gateway: Gateway, call: TextCall, thrown: unknown, shape: Shape): string {
  const created = Math.floor(gateway.clock.now().getTime() / 1000)
  return chatFailure({ id: call.id, created, model: call.models[0] ?? '', provider: '' }, GatewayError.from(thrown), shape)
}

async function* oneText(text: string): AsyncGenerator<string> {
  yield text
}
