import { checkCalls } from './calls.ts'
import { readFailure } from './gemini/failure.ts'
import { createAnswerContext, GenerateContentReader, parseAnswer } from './gemini/reader.ts'
import { buildRequest } from './gemini/request.ts'
import { supportsWebSearch } from './gemini/tools.ts'
import type { Protocol } from './protocol.ts'

/** Google's `POST {base_url}/models/{model}:generateContent`, on the Gemini API and on Vertex. */
export const gemini: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  nativeDialect: 'gemini',
  // YouTube videos are available by URL only.
  urlMedia: ['video'],
  ownSchemes: ['gs://'],
  supportsWebSearch,
  buildRequest,
  parseAnswer: (body, call, endpoint) => parseAnswer(body, createAnswerContext(call, endpoint)),
  createReader: (call, endpoint) => new GenerateContentReader(createAnswerContext(call, endpoint)),
  readFailure,
})
