import type { Endpoint } from '../catalog/models.ts'
import type { TextCall } from '../language/call.ts'
import { failure } from './openai-chat/failure.ts'
import { ChunkReader, parts } from './openai-chat/reader.ts'
import { request } from './openai-chat/request.ts'
import { type Protocol, searchesBy } from './protocol.ts'

/** OpenAI chat completions and compatible servers: `POST {base_url}/chat/completions`. */
export const openaiChat: Protocol<'text'> = {
  framing: 'sse',
  takesNames: true,
  takesUrls: ['image', 'audio', 'video', 'file'],
  searches,
  request,
  parts,
  reader: (call, endpoint) => new ChunkReader(call, endpoint),
  failure,
}

/**
 * Returns whether the server searches the web. OpenAI's search models say so in their names
 * (OpenAI, "Web search"). The format of `user_location` differs from server to server, so only
 * servers with the quirk get it.
 */
function searches(
  call: TextCall,
  { provider: { slug, quirks }, upstreamModel }: Endpoint,
): boolean {
  if (quirks.web_search) return searchesBy(call, ['search_context_size', 'user_location'])
  return (
    slug === 'openai' &&
    upstreamModel.includes('-search-') &&
    searchesBy(call, ['search_context_size'])
  )
}
