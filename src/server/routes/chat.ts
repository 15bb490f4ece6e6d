import { Elysia } from 'elysia'
import {
  ChatRequest,
  CompletionRequest,
  chatEvents,
  chatFailure,
  chatResponse,
  shapeOf,
  speaksOfFunctions,
  understand,
} from '../../core/dialects/chat.ts'
import type { CallContext } from '../../core/dialects/routing.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { anyKey } from '../access.ts'
import { readBody } from '../body.ts'
import { dryRun, EXPLANATION } from '../dry-run.ts'
import { type Door, type DryRun, METADATA_HEADER, respond, STATUSES, type Understood } from '../inference.ts'
import { operation } from '../operation.ts'

type Schema = typeof ChatRequest | typeof CompletionRequest

/** Chat completions (specification E9), and text completions under their old path. */
export const chat = (gateway: Gateway) =>
  new Elysia()
    .use(anyKey(gateway))
    .post(
      '/chat/completions',
      ({ actor, request }) => respond(gateway, actor, request, doorOf(gateway, actor, request, ChatRequest)),
      operation({
        id: 'sendChatCompletionRequest',
        tag: 'Chat',
        summary: 'Answer a conversation, whole or streamed',
        body: ChatRequest,
        headers: METADATA_HEADER,
        statuses: STATUSES,
        produces: ['text/event-stream'],
        other: EXPLANATION,
      }),
    )
    .post(
      '/completions',
      ({ actor, request }) => respond(gateway, actor, request, doorOf(gateway, actor, request, CompletionRequest)),
      operation({
        id: 'sendCompletionRequest',
        tag: 'Chat',
        summary: 'Continue a text, whole or streamed',
        body: CompletionRequest,
        headers: METADATA_HEADER,
        statuses: STATUSES,
        produces: ['text/event-stream'],
        other: EXPLANATION,
      }),
    )

const doorOf = (gateway: Gateway, actor: Actor, request: Request, schema: Schema): Door => ({
  understand: context => understood(gateway, actor, request, schema, context),
  keepAlive: `: ${gateway.config.service_name.toUpperCase()} PROCESSING\n\n`,
})

async function understood(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  schema: Schema,
  context: CallContext,
): Promise<Understood | DryRun> {
  const body: ChatRequest = await readBody(request, schema)
  const explanation = dryRun(gateway, actor, body, 'text', asker => understand(gateway, asker, body, context))
  if (explanation) return { explanation: await explanation }
  const call = understand(gateway, actor, body, context)
  const shape = shapeOf(
    body.messages === undefined,
    schema === CompletionRequest,
    call.params.reasoning?.exclude ?? false,
    speaksOfFunctions(body),
  )
  return {
    call,
    whole: answer => chatResponse(answer, shape),
    events: answer => chatEvents(answer, shape),
    failure: (heading, error) => chatFailure(heading, error, shape),
  }
}
