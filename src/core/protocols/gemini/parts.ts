import { isObject } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { GenerateContentReader } from './reader.ts'
import type { Reading } from './reading.ts'

/**
 * The parts of a whole `GenerateContentResponse`: it is read as the only event of a stream. A list of them is a stream that came
 * in one piece. Throws where it is no answer.
 */
export function parts(body: unknown, reading: Reading): TextPart[] {
  const events = Array.isArray(body) ? body : [body]
  if (!events.every(isObject)) throw unreadable()
  const reader = new GenerateContentReader(reading)
  const said = [...events.flatMap(event => reader.chunk(event)), ...reader.end(true)]
  if (!reader.complete) throw unreadable()
  return said
}
