import type { Dialect } from './dialect.ts'
import { MESSAGES_ERROR_FORMAT } from './messages/error.ts'
import { messagesPreset } from './messages/preset.ts'
import { toMessagesCall } from './messages/request.ts'
import { collectMessagesResponse } from './messages/response.ts'
import { MessagesRequest } from './messages/schema.ts'
import { PING, renderMessagesFailure, streamMessagesEvents } from './messages/stream.ts'
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
  errorFormat: MESSAGES_ERROR_FORMAT,
  acceptsApiKeyHeader: true,
  showsRouting: true,
  toCall: withPresets(toMessagesCall),
  collectResponse: collectMessagesResponse,
  streaming: {
    renderKeepAlive: () => PING,
    streamEvents: streamMessagesEvents,
    renderFailure: ({ id }, error) => renderMessagesFailure(error, id),
  },
  preset: messagesPreset,
}
