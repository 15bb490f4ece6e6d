import type { Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import { mentionsJson } from '../json-answer.ts'
import type { Capabilities } from './capabilities.data.ts'

/** The wishes for the form of the text: here they stand together, and a schema stands flat (translation trap 44). */
export function textOf({ params }: TextCall, { verbosity }: Capabilities): Json {
  const text: Json = {}
  if (params.response_format) text.format = formatOf(params.response_format)
  if (params.verbosity !== undefined && verbosity) text.verbosity = params.verbosity
  return Object.keys(text).length > 0 ? { text } : {}
}

function formatOf(wish: ResponseFormat): unknown {
  if (!('json_schema' in wish)) return wish
  const { name, description, schema, strict } = wish.json_schema
  return {
    type: 'json_schema',
    name,
    ...(description === undefined ? {} : { description }),
    schema: schema ?? { type: 'object' },
    ...(strict == null ? {} : { strict }),
  }
}

/** `json_object` is refused unless the word JSON stands in the input (translation trap 45). */
export const lacksJsonWord = (call: TextCall): boolean => call.params.response_format?.type === 'json_object' && !mentionsJson(call)
