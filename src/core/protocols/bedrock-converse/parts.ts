import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { answeredBy } from '../json-answer.ts'
import { failureInside } from './failure.ts'
import { answerToolOf } from './format.ts'
import { ConverseReader } from './reader.ts'

/** The parts of a whole answer of `Converse`. Throws what an error in its place means. */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (!isAnswer(body)) throw typeof body.__type === 'string' ? failureInside(body.__type, { message: text(body.message) }) : unreadable()
  return answeredBy(answerToolOf(call, endpoint), new ConverseReader(call, endpoint).message(body))
}

const isAnswer = (body: Json): boolean => Array.isArray(member(member(body, 'output'), 'message').content)
