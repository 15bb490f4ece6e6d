import type { TextCall } from '../language/call.ts'
import { chatPreset } from './chat/preset.ts'
import { understand } from './chat/request.ts'
import { chatResponse, readShape, type Shape } from './chat/response.ts'
import { ChatRequest, CompletionRequest } from './chat/schema.ts'
import { chatEvents, chatFailure } from './chat/stream.ts'
import type { Dialect } from './dialect.ts'
import { withPresets } from './presets.ts'

type Chat = Dialect<'text', ChatRequest>

/** The chat API (specification E9, wire reference C). */
export const chat: Chat = {
  ...answerAs('chat.completion'),
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
  ...answerAs('text_completion'),
  name: 'completions',
  path: '/completions',
  operation: {
    id: 'sendCompletionRequest',
    tag: 'Chat',
    summary: 'Continue a text, whole or streamed',
  },
  body: CompletionRequest,
}

type Answering = Omit<Chat, 'name' | 'path' | 'operation' | 'body' | 'preset'>

function answerAs(object: Shape['object']): Answering {
  const shape = (call: TextCall, body: ChatRequest) => readShape(object, call, body)
  return {
    kind: 'text',
    showsRouting: true,
    understand: withPresets(understand),
    whole: (answer, call, body) => chatResponse(answer, shape(call, body)),
    streaming: {
      keepAlive: serviceName => `: ${serviceName.toUpperCase()} PROCESSING\n\n`,
      events: (answer, call, body) => chatEvents(answer, shape(call, body)),
      failure: (heading, error, call, body) => chatFailure(heading, error, shape(call, body)),
    },
  }
}
