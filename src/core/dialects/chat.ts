import type { TextCall } from '../language/call.ts'
import { chatPreset } from './chat/preset.ts'
import { toChatCall } from './chat/request.ts'
import { type ChatShape, collectChatResponse, readChatShape } from './chat/response.ts'
import { ChatRequest, CompletionRequest } from './chat/schema.ts'
import { renderChatFailure, streamChatEvents } from './chat/stream.ts'
import type { Dialect } from './dialect.ts'
import { withPresets } from './presets.ts'

/** Clients of the public service look for this comment, word for word (wire reference C.6). */
const KEEP_ALIVE = ': OPENROUTER PROCESSING\n\n'

type Chat = Dialect<'text', ChatRequest>

/** The chat API (specification E9, wire reference C). */
export const chat: Chat = {
  ...buildSharedMembers('chat.completion'),
  name: 'chat',
  path: '/chat/completions',
  operation: {
    id: 'sendChatCompletionRequest',
    tag: 'Chat',
    summary: 'Answer a conversation, whole or streamed',
  },
  body: ChatRequest,
  preset: chatPreset,
}

/** Text completions, under their path from before the chat API. */
export const completions: Chat = {
  ...buildSharedMembers('text_completion'),
  name: 'completions',
  path: '/completions',
  operation: {
    id: 'sendCompletionRequest',
    tag: 'Chat',
    summary: 'Continue a text, whole or streamed',
  },
  body: CompletionRequest,
}

type SharedMembers = Omit<Chat, 'name' | 'path' | 'operation' | 'body' | 'preset'>

function buildSharedMembers(object: ChatShape['object']): SharedMembers {
  const toShape = (call: TextCall, body: ChatRequest) => readChatShape(object, call, body)
  return {
    kind: 'text',
    showsRouting: true,
    toCall: withPresets(toChatCall),
    collectResponse: (answer, call, body) => collectChatResponse(answer, toShape(call, body)),
    streaming: {
      renderKeepAlive: () => KEEP_ALIVE,
      streamEvents: (answer, call, body) => streamChatEvents(answer, toShape(call, body)),
      renderFailure: (heading, error, call, body) =>
        renderChatFailure(heading, error, toShape(call, body)),
    },
  }
}
