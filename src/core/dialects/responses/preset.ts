import { type Static, Type } from '@sinclair/typebox'
import { type PresetDraft, pickPresetConfig } from '../../catalog/presets/draft.ts'
import { isObject } from '../../kernel/json.ts'
import { Content, LONGEST_NAME, list, oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { ChatRequest } from '../chat/schema.ts'
import type { PresetForm } from '../dialect.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, MAX_TOOLS, presetCacheFields } from '../schema.ts'
import { refuseStopConditions } from '../server-tools.ts'

const { model, temperature, top_p, top_k, frequency_penalty, presence_penalty, top_logprobs } =
  ChatRequest.properties
const { parallel_tool_calls, reasoning, modalities, image_config, service_tier } =
  ChatRequest.properties
const { cache_control, prompt_cache_key, prompt_cache_options, verbosity } = ChatRequest.properties

/** The fields that have the same names in chat requests. */
const sharedFields = {
  ...{ model, temperature, top_p, top_k, frequency_penalty, presence_penalty, top_logprobs },
  ...{ parallel_tool_calls, reasoning, modalities, image_config, service_tier },
  ...{ cache_control, prompt_cache_key, prompt_cache_options },
}

const ToolName = Type.String({ minLength: 1, maxLength: 64 })
const FunctionTool = Type.Object(
  {
    type: Type.Literal('function'),
    name: ToolName,
    description: optional(Content),
    parameters: optional(AnyObject),
    strict: optional(Type.Boolean()),
  },
  open,
)
type FunctionTool = Static<typeof FunctionTool>
const OtherTool = Type.Object(
  { type: Type.String({ pattern: '^(?!function$).', maxLength: LONGEST_NAME }) },
  open,
)

const JsonSchemaFormat = Type.Object(
  {
    type: Type.Literal('json_schema'),
    name: ToolName,
    description: Type.Optional(Content),
    strict: optional(Type.Boolean()),
    schema: AnyObject,
  },
  open,
)
const PLAIN_FORMATS = [
  Type.Object({ type: Type.Literal('text') }, open),
  Type.Object({ type: Type.Literal('json_object') }, open),
]
const Format = Type.Union([...PLAIN_FORMATS, JsonSchemaFormat])

const ResponsesPreset = Type.Object(
  {
    ...routingFields,
    ...sharedFields,
    ...presetCacheFields,
    input: Type.Optional(Type.Unknown()),
    store: optional(Type.Literal(false)),
    previous_response_id: optional(Type.Null()),
    metadata: optional(
      Type.Record(Type.String({ pattern: '^[^\\[\\]]{0,64}$' }), Type.String({ maxLength: 512 }), {
        maxProperties: 16,
        additionalProperties: false,
      }),
    ),
    max_tool_calls: optional(Type.Integer({ minimum: 1 })),
    stop_server_tools_when: optional(Type.Unknown()),
    instructions: optional(Content),
    max_output_tokens: optional(Type.Integer({ minimum: 1 })),
    text: optional(Type.Object({ format: optional(Format), verbosity }, open)),
    tools: optional(list(Type.Union([FunctionTool, OtherTool]), { maxItems: MAX_TOOLS })),
    tool_choice: optional(
      Type.Union([
        oneOf('none', 'auto', 'required'),
        Type.Object({ type: Type.Literal('function'), name: ToolName }, open),
        OtherTool,
      ]),
    ),
  },
  open,
)
type ResponsesPreset = Static<typeof ResponsesPreset>

/** A Responses request from which a preset is made (wire reference D.1). */
export const responsesPreset: PresetForm<ResponsesPreset> = {
  name: 'responses',
  path: '/responses',
  operation: {
    id: 'createPresetsResponses',
    summary: 'Create a preset, or its next version, from a Responses request',
  },
  body: ResponsesPreset,
  toPresetDraft,
}

// Under the chat API's field names: `max_output_tokens` is `max_tokens`, and so on.
function toPresetDraft(body: ResponsesPreset): PresetDraft {
  refuseStopConditions(body)
  const config = pickPresetConfig({
    ...pickKnownFields(body),
    max_tokens: body.max_output_tokens,
    response_format: toResponseFormat(body.text?.format),
    verbosity: body.text?.verbosity,
    tools: body.tools?.map(toChatTool),
    tool_choice: toToolChoice(body.tool_choice),
  })
  return { system_prompt: body.instructions || null, config }
}

const KNOWN_FIELDS = new Set([
  ...Object.keys(routingFields),
  ...Object.keys(sharedFields),
  ...Object.keys(presetCacheFields),
])

// The Responses API does not document other fields, even those that a chat request has.
const pickKnownFields = (body: ResponsesPreset) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => KNOWN_FIELDS.has(name)))

function toResponseFormat(format: Static<typeof Format> | null | undefined): unknown {
  if (format?.type !== 'json_schema') return format
  const { type, ...json_schema } = format
  return { type, json_schema }
}

function toChatTool(tool: NonNullable<ResponsesPreset['tools']>[number]): unknown {
  if (tool.type !== 'function') return tool
  const { type, name, description, parameters, strict, ...extra } = tool as FunctionTool
  const definition = { name, description, parameters, strict }
  return {
    ...extra,
    type,
    function: Object.fromEntries(Object.entries(definition).filter(([, value]) => value != null)),
  }
}

const toToolChoice = (choice: ResponsesPreset['tool_choice']): unknown =>
  isObject(choice) && choice.type === 'function' && 'name' in choice
    ? { type: 'function', function: { name: choice.name } }
    : choice
