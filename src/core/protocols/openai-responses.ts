import { failure } from './openai-responses/failure.ts'
import { parts } from './openai-responses/parts.ts'
import { EventReader } from './openai-responses/reader.ts'
import { request } from './openai-responses/request.ts'
import type { Protocol } from './protocol.ts'

/** OpenAI Responses: `POST {base_url}/responses`, at OpenAI, Azure, xAI and servers of the Open Responses specification. */
export const openaiResponses: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  takesUrls: ['image', 'file'],
  request,
  parts,
  reader: (call, endpoint) => new EventReader(call, endpoint),
  failure,
}
