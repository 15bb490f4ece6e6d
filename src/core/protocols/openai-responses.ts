import { checkCalls } from './calls.ts'
import { readFailure } from './openai-chat/failure.ts'
import { EventReader, parseAnswer } from './openai-responses/reader.ts'
import { buildRequest } from './openai-responses/request.ts'
import { hasXSearch } from './openai-responses/tools.ts'
import { hasOnlySearchOptions, type Protocol } from './protocol.ts'

/**
 * OpenAI Responses: `POST {base_url}/responses`, at OpenAI, Azure, xAI and servers of the Open
 * Responses specification.
 */
export const openaiResponses: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  nativeDialect: 'responses',
  urlMedia: ['image', 'file'],
  // Only xAI searches X.
  supportsWebSearch: (call, { provider: { slug } }) =>
    hasOnlySearchOptions(call, [
      ...['search_context_size', 'user_location', 'filters', 'allowed_domains'],
      ...(slug === 'xai' && hasXSearch(call) ? ['x_search'] : []),
    ]),
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new EventReader(call, endpoint),
  readFailure,
})
