import { type Static, Type } from '@sinclair/typebox'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, CacheControl, cacheMarkerField, dryRunFields } from '../schema.ts'

/**
 * The chat request (specification E9, wire reference C.1–C.4). Fields that are not named here are
 * forwarded unchanged.
 */

const Effort = oneOf('max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none')

const TextPart = Type.Object(
  { type: Type.Literal('text'), text: Type.String(), ...cacheMarkerField },
  open,
)
const ImagePart = Type.Object(
  {
    type: Type.Literal('image_url'),
    image_url: Type.Object(
      {
        url: Type.String({ minLength: 1 }),
        detail: Type.Optional(oneOf('auto', 'low', 'high', 'original')),
      },
      open,
    ),
    ...cacheMarkerField,
  },
  open,
)
const AudioPart = Type.Object(
  {
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: Type.String(), format: Type.String() }, open),
  },
  open,
)
const FilePart = Type.Object(
  {
    type: Type.Literal('file'),
    file: Type.Object(
      {
        filename: Type.Optional(Type.String()),
        file_data: Type.Optional(Type.String()),
        file_id: Type.Optional(Type.String()),
      },
      open,
    ),
    ...cacheMarkerField,
  },
  open,
)
const VideoPart = Type.Object(
  {
    type: oneOf('video_url', 'input_video'),
    video_url: Type.Object({ url: Type.String({ minLength: 1 }) }, open),
  },
  open,
)
const Content = Type.Union([
  Type.String(),
  Type.Array(Type.Union([TextPart, ImagePart, AudioPart, FilePart, VideoPart])),
])
const TextContent = Type.Union([Type.String(), Type.Array(TextPart)])

const name = Type.Optional(Type.String())

const ToolCall = Type.Object(
  {
    id: Type.String(),
    type: Type.Optional(Type.Literal('function')),
    function: Type.Object({ name: Type.String(), arguments: Type.String() }, open),
  },
  open,
)

const AssistantMessage = Type.Object(
  {
    role: Type.Literal('assistant'),
    content: optional(Content),
    name,
    model: optional(Type.String()),
    tool_calls: optional(Type.Array(ToolCall)),
    function_call: optional(Type.Object({ name: Type.String(), arguments: Type.String() }, open)),
    images: optional(
      Type.Array(
        Type.Object({ image_url: Type.Object({ url: Type.String({ minLength: 1 }) }, open) }, open),
      ),
    ),
    refusal: optional(Type.String()),
    reasoning: optional(Type.String()),
    reasoning_content: optional(Type.String()),
    reasoning_details: optional(Type.Array(Type.Object({ type: Type.String() }, open))),
  },
  open,
)

const ChatMessage = Type.Union([
  Type.Object({ role: Type.Literal('system'), content: TextContent, name }, open),
  Type.Object({ role: Type.Literal('developer'), content: TextContent, name }, open),
  Type.Object({ role: Type.Literal('user'), content: Content, name }, open),
  AssistantMessage,
  Type.Object(
    { role: Type.Literal('tool'), content: Content, tool_call_id: Type.String(), name },
    open,
  ),
  Type.Object(
    { role: Type.Literal('function'), content: optional(TextContent), name: Type.String() },
    open,
  ),
])
export type ChatMessage = Static<typeof ChatMessage>

const FunctionDefinition = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 64 }),
    description: optional(Type.String()),
    parameters: optional(AnyObject),
    strict: optional(Type.Boolean()),
  },
  open,
)
const ChatFunctionTool = Type.Object(
  { type: Type.Literal('function'), function: FunctionDefinition, ...cacheMarkerField },
  open,
)
export type ChatFunctionTool = Static<typeof ChatFunctionTool>
const OtherTool = Type.Object({ type: Type.String({ pattern: '^(?!function$)' }) }, open)

const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object(
    {
      type: Type.Literal('function'),
      function: Type.Object({ name: Type.String({ minLength: 1 }) }, open),
    },
    open,
  ),
  OtherTool,
])

const ResponseFormat = Type.Union([
  Type.Object({ type: oneOf('text', 'json_object', 'python') }, open),
  Type.Object(
    {
      type: Type.Literal('json_schema'),
      json_schema: Type.Object(
        {
          name: Type.String({ minLength: 1, maxLength: 64 }),
          description: Type.Optional(Type.String()),
          strict: optional(Type.Boolean()),
          schema: Type.Optional(AnyObject),
        },
        open,
      ),
    },
    open,
  ),
  Type.Object({ type: Type.Literal('grammar'), grammar: Type.String() }, open),
])

/** A JSON number outside these bounds changes when it is parsed. */
const SafeInteger = Type.Integer({
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
})

const Penalty = Type.Number({ minimum: -2, maximum: 2 })
const Probability = Type.Number({ minimum: 0, maximum: 1 })

/** The fields that chat and text completions share. */
const shared = {
  model: Type.Optional(Type.String({ minLength: 1 })),
  ...routingFields,
  stream_options: optional(Type.Object({ include_usage: Type.Optional(Type.Boolean()) }, open)),
  max_tokens: optional(Type.Integer({ minimum: 1 })),
  max_completion_tokens: optional(Type.Integer({ minimum: 1 })),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  top_k: optional(Type.Integer({ minimum: 0 })),
  min_p: optional(Probability),
  top_a: optional(Probability),
  frequency_penalty: optional(Penalty),
  presence_penalty: optional(Penalty),
  repetition_penalty: optional(Type.Number({ exclusiveMinimum: 0, maximum: 2 })),
  seed: optional(SafeInteger),
  stop: optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 4 })])),
  logit_bias: optional(
    Type.Record(Type.String({ pattern: '^\\d+$' }), Type.Number({ minimum: -100, maximum: 100 }), {
      additionalProperties: false,
    }),
  ),
  logprobs: optional(Type.Union([Type.Boolean(), Type.Integer({ minimum: 0, maximum: 20 })])),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  response_format: optional(ResponseFormat),
  prediction: optional(Type.Object({ type: Type.Literal('content'), content: TextContent }, open)),
  tools: optional(Type.Array(Type.Union([ChatFunctionTool, OtherTool]))),
  tool_choice: optional(ToolChoice),
  functions: optional(Type.Array(FunctionDefinition)),
  function_call: optional(
    Type.Union([oneOf('none', 'auto'), Type.Object({ name: Type.String({ minLength: 1 }) }, open)]),
  ),
  parallel_tool_calls: optional(Type.Boolean()),
  reasoning: optional(
    Type.Object(
      {
        effort: optional(Effort),
        max_tokens: optional(Type.Integer({ minimum: 1 })),
        enabled: optional(Type.Boolean()),
        exclude: optional(Type.Boolean()),
        summary: optional(oneOf('auto', 'concise', 'detailed')),
      },
      open,
    ),
  ),
  reasoning_effort: optional(Effort),
  include_reasoning: optional(Type.Boolean()),
  verbosity: optional(oneOf('low', 'medium', 'high', 'xhigh', 'max')),
  modalities: optional(Type.Array(oneOf('text', 'image', 'audio'))),
  audio: optional(AnyObject),
  image_config: optional(AnyObject),
  service_tier: optional(oneOf('auto', 'default', 'fast', 'flex', 'priority', 'scale')),
  web_search_options: optional(AnyObject),
  cache_control: optional(CacheControl),
  prompt_cache_key: optional(Type.String()),
  prompt_cache_options: optional(AnyObject),
  metadata: optional(Type.Record(Type.String(), Type.String())),
  debug: optional(
    Type.Object({ echo_upstream_body: Type.Optional(Type.Boolean()), ...dryRunFields }, open),
  ),
}

/** The body of `POST /chat/completions`. Either `messages` or `prompt` is required. */
export const ChatRequest = Type.Object(
  {
    messages: Type.Optional(Type.Array(ChatMessage, { minItems: 1 })),
    prompt: Type.Optional(Type.String({ minLength: 1 })),
    ...shared,
  },
  open,
)
export type ChatRequest = Static<typeof ChatRequest>

/** The body of `POST /completions`. */
export const CompletionRequest = Type.Object(
  { prompt: Type.String({ minLength: 1 }), ...shared },
  open,
)
