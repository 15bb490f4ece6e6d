import { type Static, Type } from '@sinclair/typebox'
import { type PresetDraft, pickPresetConfig } from '../../catalog/presets/draft.ts'
import { isObject } from '../../kernel/json.ts'
import { open, optional } from '../../kernel/schema-builders.ts'
import type { PresetForm } from '../dialect.ts'
import { routingFields } from '../routing.ts'
import { presetCacheFields } from '../schema.ts'
import { readStops } from '../server-tools.ts'
import {
  checkMetadata,
  type Format,
  type FunctionTool,
  settingFields,
  sharedFields,
} from './schema.ts'

const ResponsesPreset = Type.Object(
  {
    ...settingFields,
    ...presetCacheFields,
    input: Type.Optional(Type.Unknown()),
    store: optional(Type.Literal(false)),
    previous_response_id: optional(Type.Null()),
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
  readStops(body)
  checkMetadata(body)
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
  'reasoning',
  ...Object.keys(presetCacheFields),
])

// The Responses API does not document other fields, even those that a chat request has.
const pickKnownFields = (body: ResponsesPreset) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => KNOWN_FIELDS.has(name)))

function toResponseFormat(format: Format | null | undefined): unknown {
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
