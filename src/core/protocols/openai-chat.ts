import { failure } from './openai-chat/failure.ts'
import { parts } from './openai-chat/parts.ts'
import { ChunkReader } from './openai-chat/reader.ts'
import { request } from './openai-chat/request.ts'
import type { Protocol } from './protocol.ts'

/** OpenAI chat completions: `POST {base_url}/chat/completions`, and everybody who speaks it. */
export const openaiChat: Protocol<'text'> = {
  framing: 'sse',
  takesNames: true,
  takesUrls: ['image', 'audio', 'video', 'file'],
  request,
  parts,
  reader: (call, endpoint) => new ChunkReader(call, endpoint),
  failure,
}
