import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { closedSchema, inputSchema, isClosable } from '../anthropic-messages/schema.ts'
import { answerToolName, ONLY_JSON } from '../json-answer.ts'
import { familyOf } from './families.ts'
import { forcesTools } from './tools.ts'

/** How the model is held to the form that the answer must have. */
export type Format =
  /** Not at all: any words will do. */
  | { by: 'nothing' }
  /** By itself: `outputConfig.textFormat`. */
  | { by: 'schema'; textFormat: Json }
  /** By a tool whose input is the answer. A model that cannot be made to call it is told to. */
  | { by: 'tool'; name: string; description: string; schema: Json; words: string | null }
  /** By being told. */
  | { by: 'words'; words: string }

/** The form for this call at this endpoint. */
export function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const format: Json = call.params.response_format ?? { type: 'text' }
  if (format.type === 'json_object') return anyObject(call, endpoint)
  const wanted = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' || !isObject(wanted.schema)) return { by: 'nothing' }
  if (familyOf(endpoint).schemas && isClosable(wanted.schema)) return bySchema(wanted, wanted.schema)
  return byTool(wanted, inputSchema(wanted.schema), call, endpoint)
}

// Of a tool whose input may hold anything Claude makes good use; others would leave it empty.
function anyObject(call: TextCall, endpoint: Endpoint): Format {
  const isTool = familyOf(endpoint).thinking === 'claude' && forcesTools(endpoint)
  return isTool ? byTool({}, { type: 'object', additionalProperties: true }, call, endpoint) : { by: 'words', words: ONLY_JSON }
}

/** API reference, OutputFormat and JsonSchemaDefinition: the schema goes as a text. */
function bySchema({ name, description }: Json, schema: Json): Format {
  const jsonSchema = {
    schema: JSON.stringify(closedSchema(schema)),
    ...(text(name) ? { name } : {}),
    ...(text(description) ? { description } : {}),
  }
  return { by: 'schema', textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}

function byTool({ description }: Json, schema: Json, call: TextCall, endpoint: Endpoint): Format {
  const name = answerToolName(call)
  return {
    by: 'tool',
    name,
    description: text(description) || 'Answer with a JSON object.',
    schema,
    words: forcesTools(endpoint) ? null : `Give your answer by calling the tool ${name}.`,
  }
}

/** The tool whose input is the answer to this call, if it is asked for that way. */
export function answerToolOf(call: TextCall, endpoint: Endpoint): string | null {
  const format = formatOf(call, endpoint)
  return format.by === 'tool' ? format.name : null
}
