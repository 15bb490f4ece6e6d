import type { Quirks } from '../../config/quirks.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import { ANSWER_IN_JSON, mentionsJson, schemaInWords } from '../json-answer.ts'

/** The form of the answer as the server is asked for it, and what it has to be told in words besides. */
export interface Format {
  format: ResponseFormat | null
  instruction: string | null
}

/**
 * The wish for a form. Where a schema cannot be asked for, it is said in words beside `json_object`; and some servers refuse
 * `json_object` unless somebody has said the word JSON (translation trap 45).
 */
export function formatOf(wish: ResponseFormat | undefined, call: TextCall, { json_schema, json_word }: Quirks): Format {
  if (!wish) return { format: null, instruction: null }
  if ('json_schema' in wish && !json_schema)
    return { format: { type: 'json_object' }, instruction: schemaInWords(ONE_OBJECT, wish.json_schema) }
  const silent = wish.type === 'json_object' && json_word && !mentionsJson(call)
  return { format: wish, instruction: silent ? ANSWER_IN_JSON : null }
}

const ONE_OBJECT = 'Answer with one JSON object and nothing else.'
