import { readFailure } from './anthropic-messages/failure.ts'
import { VENDORS } from './anthropic-messages/messages.ts'
import { MessageReader, parseAnswer } from './anthropic-messages/reader.ts'
import { buildRequest, buildVertexRequest, findAnswerTool } from './anthropic-messages/request.ts'
import { supportsWebSearch } from './anthropic-messages/tools.ts'
import { checkCalls } from './calls.ts'
import { createJsonAnswerReader } from './json-answer.ts'
import type { Protocol } from './protocol.ts'

/** Anthropic messages: `POST {base_url}/messages`, at Anthropic and compatible providers. */
export const anthropicMessages: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  urlMedia: ['image', 'file'],
  nativeDialect: 'messages',
  hasFunctionsAlone: ({ provider: { slug } }) => VENDORS.has(slug),
  supportsWebSearch,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) =>
    createJsonAnswerReader(findAnswerTool(call, endpoint), new MessageReader(call, endpoint)),
  readFailure,
})

/** The same on Google's Vertex AI, which does not fetch media by URL. */
export const anthropicVertex: Protocol<'text'> = {
  ...anthropicMessages,
  urlMedia: [],
  buildRequest: buildVertexRequest,
}
