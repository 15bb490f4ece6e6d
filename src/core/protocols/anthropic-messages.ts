import { failure } from './anthropic-messages/failure.ts'
import { MessageReader, parts } from './anthropic-messages/reader.ts'
import { answerToolOf, request, vertexRequest } from './anthropic-messages/request.ts'
import { searches } from './anthropic-messages/tools.ts'
import { answeringBy } from './json-answer.ts'
import type { Protocol } from './protocol.ts'

/** Anthropic messages: `POST {base_url}/messages`, at Anthropic and compatible providers. */
export const anthropicMessages: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  takesUrls: ['image', 'file'],
  searches,
  request,
  parts,
  reader: (call, endpoint) => answeringBy(answerToolOf(call, endpoint), new MessageReader(call)),
  failure,
}

/** The same on Google's Vertex AI, which does not fetch media by URL. */
export const anthropicVertex: Protocol<'text'> = {
  ...anthropicMessages,
  takesUrls: [],
  request: vertexRequest,
}
