import type { Endpoint } from '../../catalog/models.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { answeredBy } from '../json-answer.ts'
import { failureInside } from './failure.ts'
import { answerToolOf } from './format.ts'
import { MessageReader } from './reader.ts'

/** The parts of a whole message: it is read as events that say everything. */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (isObject(body.error)) throw failureInside(body.error)
  if (!Array.isArray(body.content)) throw unreadable()
  return answeredBy(answerToolOf(call, endpoint), new MessageReader(call).message(body))
}
