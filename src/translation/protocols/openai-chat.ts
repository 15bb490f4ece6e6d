import type { TextCall } from '../../language/call.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { readFailure } from './openai-chat/failure.ts'
import { ChunkReader, parseAnswer } from './openai-chat/reader.ts'
import { buildRequest, LACKS, pickExtra } from './openai-chat/request.ts'
import { hasOnlySearchOptions, type Protocol } from './protocol.ts'

/** OpenAI chat completions and compatible servers: `POST {base_url}/chat/completions`. */
export const openaiChat: Protocol<'text'> = {
  framing: 'sse',
  acceptsNames: true,
  urlMedia: ['image', 'audio', 'video', 'file'],
  nativeDialect: 'chat',
  supportsWebSearch,
  lacks: LACKS,
  pickExtra,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new ChunkReader(call, endpoint),
  readFailure,
}

/**
 * Returns whether the server searches the web. OpenAI's search models say so in their names
 * (OpenAI, "Web search"). The format of `user_location` differs from server to server, so only
 * servers with the quirk get it.
 */
function supportsWebSearch(
  call: TextCall,
  { provider: { slug, quirks }, upstreamModel }: Endpoint,
): boolean {
  if (quirks.web_search) return hasOnlySearchOptions(call, ['search_context_size', 'user_location'])
  return (
    slug === 'openai' &&
    upstreamModel.includes('-search-') &&
    hasOnlySearchOptions(call, ['search_context_size'])
  )
}
