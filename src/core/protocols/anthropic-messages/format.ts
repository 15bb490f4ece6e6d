import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { answerToolName } from '../json-answer.ts'
import { ONLY_JSON } from '../json-words.ts'
import { isNative } from '../native.ts'
import { capabilitiesOf } from './capabilities.ts'
import { VERTEX } from './hosting.ts'
import { NATIVE } from './native.ts'
import { closedSchema, inputSchema, isClosable } from './schema.ts'

/** How the model is held to the form that the answer must have. */
export type Format =
  /** Not at all: any words will do. */
  | { by: 'nothing' }
  /** By itself. */
  | { by: 'schema'; schema: Json }
  /** By a tool that it must call, whose input is the answer. */
  | { by: 'tool'; tool: { name: string; description: string; input_schema: Json } }
  /** By being told, where neither can be done. */
  | { by: 'words'; words: string }

/** The form for this call at this endpoint. */
export function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const format: Json = call.params.response_format ?? { type: 'text' }
  const wanted = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' && format.type !== 'json_object') return { by: 'nothing' }
  const { schemas, forcedTools } = capabilitiesOf(endpoint)
  const schema = isObject(wanted.schema) ? wanted.schema : null
  if (schema && schemas && (!forcedTools || (endpoint.protocol !== VERTEX && isClosable(schema)))) return bySchema(schema, call)
  return forcedTools ? byTool(schema, text(wanted.description), call) : { by: 'words', words: ONLY_JSON }
}

// Whoever speaks this API has written the schema for it.
const bySchema = (schema: Json, call: TextCall): Format => ({
  by: 'schema',
  schema: isNative(call, NATIVE) ? schema : closedSchema(schema),
})

const byTool = (schema: Json | null, description: string | null, call: TextCall): Format => ({
  by: 'tool',
  tool: {
    name: answerToolName(call),
    description: description ?? 'Respond with a JSON object.',
    input_schema: schema ? inputSchema(schema) : { type: 'object', additionalProperties: true },
  },
})

/** The tool whose input is the answer to this call, if it is asked for that way. */
export function answerToolOf(call: TextCall, endpoint: Endpoint): string | null {
  const format = formatOf(call, endpoint)
  return format.by === 'tool' ? format.tool.name : null
}
