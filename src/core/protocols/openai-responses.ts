import { failure } from './openai-responses/failure.ts'
import { EventReader, parts } from './openai-responses/reader.ts'
import { request } from './openai-responses/request.ts'
import { type Protocol, searchesBy } from './protocol.ts'

/**
 * OpenAI Responses: `POST {base_url}/responses`, at OpenAI, Azure, xAI and servers of the Open
 * Responses specification.
 */
export const openaiResponses: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  takesUrls: ['image', 'file'],
  searches: call =>
    searchesBy(call, ['search_context_size', 'user_location', 'filters', 'allowed_domains']),
  request,
  parts,
  reader: (call, endpoint) => new EventReader(call, endpoint),
  failure,
}
