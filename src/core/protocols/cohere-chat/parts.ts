import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { failureOf, unreadable } from '../failure.ts'
import { EventReader } from './reader.ts'

/** The parts of a whole answer. */
export function parts(body: unknown, call: TextCall): TextPart[] {
  if (!isObject(body)) throw unreadable()
  // An error has a sentence where an answer has a message.
  if (typeof body.message === 'string') throw failureOf(502, { code: undefined, message: body.message })
  if (!isObject(body.message)) throw unreadable()
  return new EventReader(call).whole(body, body.message)
}
