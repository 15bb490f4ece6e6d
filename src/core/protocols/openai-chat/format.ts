import type { Quirks } from '../../catalog/quirks.ts'
import type { ResponseFormat, TextCall } from '../../inference/call.ts'

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
  if ('json_schema' in wish && !json_schema) return { format: { type: 'json_object' }, instruction: inWords(wish.json_schema) }
  const silent = wish.type === 'json_object' && json_word && !mentionsJson(call)
  return { format: wish, instruction: silent ? 'Answer in JSON.' : null }
}

type Schema = Extract<ResponseFormat, { json_schema: unknown }>['json_schema']

const inWords = ({ description, schema }: Schema): string =>
  [
    'Answer with one JSON object and nothing else.',
    ...(description ? [description] : []),
    ...(schema ? [`It must fit this JSON Schema: ${JSON.stringify(schema)}`] : []),
  ].join('\n')

const mentionsJson = ({ turns }: TextCall): boolean =>
  turns.some(({ blocks }) => blocks.some(block => block.type === 'text' && /json/i.test(block.text)))
