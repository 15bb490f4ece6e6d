import type { Dialect } from './dialect.ts'
import { REFUSAL } from './messages/error.ts'
import { messagesPreset } from './messages/preset.ts'
import { understand } from './messages/request.ts'
import { messagesResponse } from './messages/response.ts'
import { MessagesRequest } from './messages/schema.ts'
import { messagesEvents, messagesFailure, PING } from './messages/stream.ts'
import { withPresets } from './presets.ts'

/** The Messages API in Anthropic's format (wire reference M), including its error format. */
export const messages: Dialect<'text', MessagesRequest> = {
  name: 'messages',
  kind: 'text',
  path: '/messages',
  operation: {
    id: 'createMessages',
    tag: 'Messages',
    summary: 'Answer a conversation in Anthropic’s format, whole or streamed',
  },
  body: MessagesRequest,
  refusal: REFUSAL,
  eitherHeader: true,
  showsRouting: true,
  understand: withPresets(understand),
  whole: messagesResponse,
  streaming: {
    keepAlive: () => PING,
    events: messagesEvents,
    failure: ({ id }, error) => messagesFailure(error, id),
  },
  preset: messagesPreset,
}
