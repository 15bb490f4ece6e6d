import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { failureInside } from './failure.ts'
import { EventReader } from './reader.ts'

/** The parts of a whole response: it is read as if all of it came at its end. */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (body.error != null) throw failureInside(body.error)
  if (!isAnswer(body)) throw unreadable()
  return new EventReader(call, endpoint).response(body)
}

/** What is still being worked at, was given up, or failed without a word, is no answer. */
const UNANSWERED: unknown[] = ['queued', 'in_progress', 'cancelled', 'failed']

const isAnswer = ({ output, status }: Json) => Array.isArray(output) && !UNANSWERED.includes(status)
