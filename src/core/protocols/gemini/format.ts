import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import { answerToolName } from '../json-answer.ts'
import type { Capabilities } from './capabilities.data.ts'
import { capabilitiesOf } from './capabilities.ts'
import { jsonSchema } from './json-schema.ts'
import { reducedSchema } from './schema.ts'

/** How an answer of a wished form is asked for. */
export interface Format {
  /** Its words in the `generationConfig`. */
  config: Json
  /** The function whose input is the answer, for models that take no form beside functions. */
  tool: { name: string; description: string; schema: Json } | null
}

const FREE: Format = { config: {}, tool: null }
const FIELD = 'response_format.json_schema.schema'

/**
 * The form that the call wants of its answer: natively where the model has that, else as the input of a function that it must
 * call. Where the call forces a function of its own the answer is that call, which has no form but its parameters'.
 */
export function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const { response_format: format, tool_choice: choice } = call.params
  if (!format || format.type === 'text') return FREE
  const capabilities = capabilitiesOf(endpoint)
  const hasTools = call.tools.length > 0
  const isForced = hasTools && choice !== undefined && choice !== 'auto' && choice !== 'none'
  if (!hasTools || (capabilities.formBesideTools && !isForced)) return { config: native(format, capabilities), tool: null }
  if (isForced && choice !== 'required') return FREE
  const schema = schemaOf(format)
  return schema ? { config: {}, tool: { name: answerToolName(call), description: describedAs(format), schema } } : FREE
}

function native(format: ResponseFormat, capabilities: Capabilities): Json {
  const schema = schemaOf(format)
  if (!schema) return { responseMimeType: 'application/json' }
  if (capabilities.jsonSchema) return { responseMimeType: 'application/json', responseJsonSchema: jsonSchema(schema, FIELD) }
  return { responseMimeType: 'application/json', responseSchema: reducedSchema(schema, FIELD) }
}

function schemaOf(format: ResponseFormat): Json | undefined {
  const { schema } = 'json_schema' in format ? format.json_schema : {}
  return isObject(schema) ? schema : undefined
}

function describedAs(format: ResponseFormat): string {
  const { description } = 'json_schema' in format ? format.json_schema : {}
  return description ?? 'Gives the answer. Call it once, with the whole answer.'
}
