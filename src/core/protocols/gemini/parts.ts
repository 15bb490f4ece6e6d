import type { TextPart } from '../../inference/call.ts'
import { isObject } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'
import { GenerateContentReader } from './reader.ts'
import type { Reading } from './reading.ts'

/** The parts of a whole `GenerateContentResponse`: it is read as the only event of a stream. Throws where it is no answer. */
export function parts(body: unknown, reading: Reading): TextPart[] {
  const answer = Array.isArray(body) ? body[0] : body
  if (!isObject(answer)) throw unreadable()
  const reader = new GenerateContentReader(reading)
  const said = [...reader.chunk(answer), ...reader.end(true)]
  if (!reader.complete) throw unreadable()
  return said
}
