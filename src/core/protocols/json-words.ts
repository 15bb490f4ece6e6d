import type { TextCall } from '../language/call.ts'
import type { ResponseFormat } from '../language/params.ts'

/** The wish for JSON in words, for those who refuse `json_object` unless somebody has said the word (translation trap 45). */
export const ANSWER_IN_JSON = 'Answer in JSON.'

/** The wish for JSON in words, where nothing but words can be asked for. */
export const ONLY_JSON = 'Answer with one JSON object and nothing else: no words around it, no code fence.'

/** Whether the conversation speaks of JSON. */
export const mentionsJson = ({ turns }: TextCall): boolean =>
  turns.some(({ blocks }) => blocks.some(block => block.type === 'text' && /json/i.test(block.text)))

type Schema = Extract<ResponseFormat, { json_schema: unknown }>['json_schema']

/** A schema in words, behind what is said of the answer. */
export const schemaInWords = (opening: string, { description, schema }: Partial<Schema>): string =>
  [opening, ...(description ? [description] : []), ...(schema ? [`It must fit this JSON Schema: ${JSON.stringify(schema)}`] : [])].join(
    '\n',
  )
