import { checkCalls } from './calls.ts'
import { readFailure } from './cohere-chat/failure.ts'
import { EventReader, parseAnswer } from './cohere-chat/reader.ts'
import { buildRequest } from './cohere-chat/request.ts'
import type { Protocol } from './protocol.ts'

/** Cohere's chat, version 2: `POST {base_url}/chat` (https://docs.cohere.com/reference/chat). */
export const cohereChat: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  urlMedia: ['image'],
  buildRequest,
  parseAnswer,
  createReader: (call, { provider }) => new EventReader(call, provider.finish_reasons),
  readFailure,
})
