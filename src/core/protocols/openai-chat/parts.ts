import type { Endpoint } from '../../catalog/models.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { ChunkReader } from './reader.ts'

/** The parts of a whole `chat.completion`. Throws where it is no answer. */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isAnswer(body)) throw unreadable()
  return new ChunkReader(call, endpoint).whole(body)
}

const isAnswer = (body: unknown): body is Record<string, unknown> =>
  typeof body === 'object' &&
  body !== null &&
  ('error' in body || ('choices' in body && Array.isArray(body.choices) && body.choices.length > 0))
