import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import {
  buildCount,
  Content,
  closed,
  Id,
  LONGEST_NAME,
  list,
  Name,
  oneOf,
  open,
  optional,
} from '../../../base/schema-builders.ts'
import { ChatRequest, MAX_MODALITIES } from '../chat/schema.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, dryRunFields, MAX_TOOLS } from '../schema.ts'

/**
 * The Responses request (specification E3, wire reference D.1). Fields that are not named here are
 * kept for providers of the same API. `request.ts` checks the items of `input`, each by its type.
 */

const { model, temperature, top_p, top_k, frequency_penalty, presence_penalty, top_logprobs } =
  ChatRequest.properties
const { parallel_tool_calls, image_config, service_tier } = ChatRequest.properties
const { cache_control, prompt_cache_key, prompt_cache_options, verbosity } = ChatRequest.properties

/** The fields that have the same names in chat requests. */
export const sharedFields = {
  ...{ model, temperature, top_p, top_k, frequency_penalty, presence_penalty, top_logprobs },
  ...{ parallel_tool_calls, image_config, service_tier },
  modalities: optional(list(oneOf('text', 'image'), { maxItems: MAX_MODALITIES })),
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
    defer_loading: optional(Type.Boolean()),
  },
  open,
)
export type FunctionTool = Static<typeof FunctionTool>

/** A tool that takes a text, which a grammar may describe. */
const CustomTool = Type.Object(
  {
    type: Type.Literal('custom'),
    name: ToolName,
    description: optional(Content),
    format: optional(
      Type.Union([
        Type.Object({ type: Type.Literal('text') }, open),
        Type.Object(
          {
            type: Type.Literal('grammar'),
            syntax: oneOf('lark', 'regex'),
            definition: Content,
          },
          open,
        ),
      ]),
    ),
  },
  open,
)

const NamespaceTool = Type.Object(
  {
    type: Type.Literal('namespace'),
    name: ToolName,
    description: optional(Content),
    tools: list(Type.Union([FunctionTool, CustomTool]), { maxItems: MAX_TOOLS }),
  },
  open,
)
const KNOWN_TOOLS = 'function|custom|namespace'
const OtherTool = Type.Object(
  { type: Type.String({ pattern: `^(?!(${KNOWN_TOOLS})$).`, maxLength: LONGEST_NAME }) },
  open,
)
/** A tool that a model may be given. */
export const ResponsesTool = Type.Union([FunctionTool, CustomTool, NamespaceTool, OtherTool])
export type ResponsesTool = Static<typeof ResponsesTool>

const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object({ type: Type.Literal('function'), name: ToolName }, open),
  Type.Object(
    {
      type: Type.Literal('allowed_tools'),
      mode: oneOf('auto', 'required'),
      tools: list(AnyObject, { maxItems: MAX_TOOLS }),
    },
    open,
  ),
  Type.Object(
    {
      type: Type.String({ pattern: '^(?!(function|allowed_tools)$).', maxLength: LONGEST_NAME }),
    },
    open,
  ),
])

const JsonSchemaFormat = Type.Object(
  {
    type: Type.Literal('json_schema'),
    name: ToolName,
    description: optional(Content),
    strict: optional(Type.Boolean()),
    schema: AnyObject,
  },
  open,
)
const Format = Type.Union([
  Type.Object({ type: Type.Literal('text') }, open),
  Type.Object({ type: Type.Literal('json_object') }, open),
  JsonSchemaFormat,
])
export type Format = Static<typeof Format>

const Effort = oneOf('max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none')

const Reasoning = Type.Object(
  {
    effort: optional(Effort),
    summary: optional(oneOf('auto', 'concise', 'detailed')),
    enabled: optional(Type.Boolean()),
    max_tokens: optional(buildCount(1)),
    context: optional(oneOf('auto', 'all_turns', 'current_turn')),
    mode: optional(oneOf('standard', 'pro')),
  },
  open,
)

/** Up to 16 pairs (specification E3). `checkMetadata` has the rule of their keys. */
const Metadata = Type.Record(Type.String(), Type.String({ maxLength: 512 }), { maxProperties: 16 })

/** In characters (specification E3). */
const LONGEST_KEY = 64

/** Throws 400 for keys of metadata that are too long or have brackets (specification E3). */
export function checkMetadata({ metadata }: { metadata?: object | null | undefined }): void {
  const isGood = (key: string) => !/[[\]]/.test(key) && [...key].length <= LONGEST_KEY
  if (!Object.keys(metadata ?? {}).every(isGood))
    throw invalid(
      `metadata: expected keys of at most ${LONGEST_KEY} characters without brackets`,
      'metadata',
    )
}

/** What an answer may include (wire reference D.1), and what official clients ask for besides. */
const Include = oneOf(
  'file_search_call.results',
  'message.input_image.image_url',
  'computer_call_output.output.image_url',
  'reasoning.encrypted_content',
  'code_interpreter_call.outputs',
  'message.output_text.logprobs',
  'web_search_call.results',
  'web_search_call.action.sources',
)

/** A client may name one twice. */
const MAX_INCLUDES = 64

/** The fields that say how to answer, which presets keep too. */
export const settingFields = {
  ...routingFields,
  ...sharedFields,
  instructions: optional(Content),
  max_output_tokens: optional(buildCount(1)),
  max_tool_calls: optional(Type.Integer()),
  metadata: optional(Metadata),
  reasoning: optional(Reasoning),
  stop_server_tools_when: optional(Type.Unknown()),
  text: optional(Type.Object({ format: optional(Format), verbosity }, open)),
  tools: optional(list(ResponsesTool, { maxItems: MAX_TOOLS })),
  tool_choice: optional(ToolChoice),
}

/** An item before its type has been looked at. */
const Item = Type.Object({ type: optional(Name) }, open)

const PromptTemplate = Type.Object(
  { id: Type.String({ minLength: 1, maxLength: 200 }), variables: optional(AnyObject) },
  open,
)

/** The body of `POST /responses`. */
export const ResponsesRequest = Type.Object(
  {
    ...settingFields,
    input: optional(Type.Union([Content, list(Item)])),
    background: optional(Type.Boolean()),
    conversation: optional(Type.Unknown()),
    include: optional(list(Include, { maxItems: MAX_INCLUDES })),
    previous_response_id: optional(Id),
    prompt: optional(PromptTemplate),
    safety_identifier: optional(Type.String({ maxLength: 256 })),
    store: optional(Type.Boolean()),
    stream_options: optional(AnyObject),
    truncation: optional(oneOf('auto', 'disabled')),
    debug: optional(
      Type.Object({ echo_upstream_body: optional(Type.Boolean()), ...dryRunFields }, closed),
    ),
  },
  open,
)
export type ResponsesRequest = Static<typeof ResponsesRequest>
