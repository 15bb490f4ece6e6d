import { Elysia } from 'elysia'
import {
  MessagesRequest,
  messagesError,
  messagesEvents,
  messagesFailure,
  messagesResponse,
  PING,
  understand,
} from '../../core/dialects/messages.ts'
import type { CallContext } from '../../core/dialects/routing.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { anyKeyInEitherHeader } from '../access.ts'
import { readBody } from '../body.ts'
import { dryRun, EXPLANATION } from '../dry-run.ts'
import { type DryRun, METADATA_HEADER, respond, STATUSES, type Understood } from '../inference.ts'
import { operation, type Refusal } from '../operation.ts'

const REFUSAL: Refusal = {
  name: 'AnthropicError',
  schema: {
    type: 'object',
    required: ['type', 'error', 'request_id'],
    properties: {
      type: { type: 'string', const: 'error' },
      error: {
        type: 'object',
        required: ['type', 'message'],
        properties: { type: { type: 'string' }, message: { type: 'string' }, error_type: { type: 'string' } },
      },
      request_id: { type: ['string', 'null'] },
      metadata: { type: 'object' },
    },
  },
  envelope: messagesError,
}

/** The Messages API in Anthropic's format (wire reference M). Every refusal is in that format, of an unknown key too. */
export const messages = (gateway: Gateway) =>
  new Elysia().use(anyKeyInEitherHeader(gateway)).post(
    '/messages',
    ({ actor, request }) =>
      respond(gateway, actor, request, {
        understand: context => understood(gateway, actor, request, context),
        keepAlive: PING,
        refusal: REFUSAL,
      }),
    operation({
      id: 'createMessages',
      tag: 'Messages',
      summary: 'Answer a conversation in Anthropic’s format, whole or streamed',
      body: MessagesRequest,
      headers: METADATA_HEADER,
      statuses: STATUSES,
      produces: ['text/event-stream'],
      other: EXPLANATION,
      refusal: REFUSAL,
      eitherHeader: true,
    }),
  )

async function understood(gateway: Gateway, actor: Actor, request: Request, context: CallContext): Promise<Understood | DryRun> {
  const body = await readBody(request, MessagesRequest)
  const explanation = dryRun(gateway, actor, body, 'text', asker => understand(gateway, asker, body, context))
  if (explanation) return { explanation: await explanation }
  const call = understand(gateway, actor, body, context)
  return {
    call,
    whole: answer => messagesResponse(answer, call),
    events: answer => messagesEvents(answer, call),
    failure: ({ id }, error) => messagesFailure(error, id),
  }
}
