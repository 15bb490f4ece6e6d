import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import { ANSWER_IN_JSON, mentionsJson, schemaInWords } from '../json-answer.ts'

/** The form of the answer as Cohere is asked for it, and what it has to be told in words besides. */
export interface Format {
  format: { type: 'json_object'; json_schema?: Record<string, unknown> } | null
  instruction: string | null
}

/**
 * The wish for a form. Beside tools or documents Cohere refuses `response_format`, so the wish is said in words; and JSON that
 * nobody has spoken of may never end (https://docs.cohere.com/docs/structured-outputs).
 */
export function formatOf(call: TextCall): Format {
  const schema = schemaOf(call.params.response_format)
  if (!schema) return { format: null, instruction: null }
  if (call.tools.length > 0 || 'documents' in call.extra || call.turns.some(hasFile))
    return { format: null, instruction: schemaInWords(ONE_OBJECT, schema) }
  const format: Format['format'] = { type: 'json_object', ...(schema.schema ? { json_schema: schema.schema } : {}) }
  return { format, instruction: mentionsJson(call) ? null : ANSWER_IN_JSON }
}

interface Schema {
  description?: string
  schema?: Record<string, unknown>
}

function schemaOf(wish: ResponseFormat | undefined): Schema | null {
  if (wish && 'json_schema' in wish) return wish.json_schema
  return wish?.type === 'json_object' ? {} : null
}

const ONE_OBJECT = 'Answer with one JSON object and nothing else, unless you call a tool.'

const hasFile = ({ blocks }: TextCall['turns'][number]) => blocks.some(block => block.type === 'file')
