import { readFailure } from './openai-responses/failure.ts'
import { EventReader, parseAnswer } from './openai-responses/reader.ts'
import { buildRequest } from './openai-responses/request.ts'
import { hasOnlySearchOptions, type Protocol } from './protocol.ts'

/**
 * OpenAI Responses: `POST {base_url}/responses`, at OpenAI, Azure, xAI and servers of the Open
 * Responses specification.
 */
export const openaiResponses: Protocol<'text'> = {
  framing: 'sse',
  acceptsNames: false,
  acceptsResponsesTools: true,
  urlMedia: ['image', 'file'],
  supportsWebSearch: call =>
    hasOnlySearchOptions(call, [
      'search_context_size',
      'user_location',
      'filters',
      'allowed_domains',
    ]),
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new EventReader(call, endpoint),
  readFailure,
}
