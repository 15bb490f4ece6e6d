import type { Endpoint } from '../../catalog/models.ts'
import type { TextCall } from '../../language/call.ts'
import { formatOf } from './format.ts'
import { namesOf } from './names.ts'

/** What the reader of an answer has to know of the call. */
export interface Reading {
  call: TextCall
  /** A tool's name as the client knows it. */
  given: (name: string) => string
  /** The name of the tool whose input is the answer itself, where one was forced to get an answer of a form. */
  answerTool: string | null
}

/** How the answer to this call, sent to this endpoint, has to be read. */
export function readingOf(call: TextCall, endpoint: Endpoint): Reading {
  const names = namesOf(call)
  return { call, given: name => names.given(name), answerTool: formatOf(call, endpoint).tool?.name ?? null }
}
