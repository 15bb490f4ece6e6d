import { failure } from './gemini/failure.ts'
import { GenerateContentReader, parts, readingOf } from './gemini/reader.ts'
import { request } from './gemini/request.ts'
import { searches } from './gemini/tools.ts'
import type { Protocol } from './protocol.ts'

/** Google's `POST {base_url}/models/{model}:generateContent`, on the Gemini API and on Vertex. */
export const gemini: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  // YouTube videos are available by URL only.
  takesUrls: ['video'],
  searches,
  request,
  parts: (body, call, endpoint) => parts(body, readingOf(call, endpoint)),
  reader: (call, endpoint) => new GenerateContentReader(readingOf(call, endpoint)),
  failure,
}
