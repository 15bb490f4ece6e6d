import { type Static, Type } from '@sinclair/typebox'
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
  SomeContent,
  SomeName,
} from '../../../base/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, CacheControl, cacheMarkerField, dryRunFields, MAX_TOOLS } from '../schema.ts'

/**
 * The chat request (specification E9, wire reference C.1–C.4). Fields that are not named here are
 * forwarded unchanged.
 */

const Effort = oneOf('max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none')

const TextPart = Type.Object(
  { type: Type.Literal('text'), text: Content, ...cacheMarkerField },
  open,
)
const ImagePart = Type.Object(
  {
    type: Type.Literal('image_url'),
    image_url: Type.Object(
      {
        url: SomeContent,
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
    input_audio: Type.Object({ data: Content, format: Name }, open),
  },
  open,
)
const FilePart = Type.Object(
  {
    type: Type.Literal('file'),
    file: Type.Object(
      {
        filename: Type.Optional(Name),
        file_data: Type.Optional(Content),
        file_id: Type.Optional(Id),
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
    video_url: Type.Object({ url: SomeContent }, open),
  },
  open,
)
const MessageContent = Type.Union([
  Content,
  list(Type.Union([TextPart, ImagePart, AudioPart, FilePart, VideoPart])),
])
const TextContent = Type.Union([Content, list(TextPart)])

const name = Type.Optional(Name)

const ToolCall = Type.Object(
  {
    id: Id,
    type: Type.Optional(Type.Literal('function')),
    function: Type.Object({ name: Name, arguments: Content }, open),
  },
  open,
)

const AssistantMessage = Type.Object(
  {
    role: Type.Literal('assistant'),
    content: optional(MessageContent),
    name,
    model: optional(Name),
    tool_calls: optional(list(ToolCall)),
    function_call: optional(Type.Object({ name: Name, arguments: Content }, open)),
    images: optional(
      list(Type.Object({ image_url: Type.Object({ url: SomeContent }, open) }, open)),
    ),
    refusal: optional(Content),
    reasoning: optional(Content),
    reasoning_content: optional(Content),
    reasoning_details: optional(list(Type.Object({ type: Name }, open))),
  },
  open,
)

const ChatMessage = Type.Union([
  Type.Object({ role: Type.Literal('system'), content: TextContent, name }, open),
  Type.Object({ role: Type.Literal('developer'), content: TextContent, name }, open),
  Type.Object({ role: Type.Literal('user'), content: MessageContent, name }, open),
  AssistantMessage,
  Type.Object(
    { role: Type.Literal('tool'), content: MessageContent, tool_call_id: Id, name },
    open,
  ),
  Type.Object({ role: Type.Literal('function'), content: optional(TextContent), name: Name }, open),
])
export type ChatMessage = Static<typeof ChatMessage>

const FunctionDefinition = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 64 }),
    description: optional(Content),
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
const OtherTool = Type.Object(
  { type: Type.String({ pattern: '^(?!function$)', maxLength: LONGEST_NAME }) },
  open,
)

const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object(
    {
      type: Type.Literal('function'),
      function: Type.Object({ name: SomeName }, open),
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
          description: Type.Optional(Content),
          strict: optional(Type.Boolean()),
          schema: Type.Optional(AnyObject),
        },
        open,
      ),
    },
    open,
  ),
  Type.Object({ type: Type.Literal('grammar'), grammar: Content }, open),
])

/** The most entries of `metadata` and of `logit_bias`. */
const MAX_METADATA = 64
const MAX_BIASES = 10_000
/** The most entries of `modalities`. */
export const MAX_MODALITIES = 8

/** A JSON number outside these bounds changes when it is parsed. */
const SafeInteger = Type.Integer({
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
})

const Penalty = Type.Number({ minimum: -2, maximum: 2 })
const Probability = Type.Number({ minimum: 0, maximum: 1 })

/** The fields that chat and text completions share. */
const shared = {
  model: Type.Optional(SomeName),
  ...routingFields,
  stream_options: optional(Type.Object({ include_usage: Type.Optional(Type.Boolean()) }, open)),
  max_tokens: optional(buildCount(1)),
  max_completion_tokens: optional(buildCount(1)),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  top_k: optional(buildCount(0)),
  min_p: optional(Probability),
  top_a: optional(Probability),
  frequency_penalty: optional(Penalty),
  presence_penalty: optional(Penalty),
  repetition_penalty: optional(Type.Number({ exclusiveMinimum: 0, maximum: 2 })),
  seed: optional(SafeInteger),
  stop: optional(Type.Union([Name, list(Name, { maxItems: 4 })])),
  logit_bias: optional(
    Type.Record(Type.String({ pattern: '^\\d+$' }), Type.Number({ minimum: -100, maximum: 100 }), {
      additionalProperties: false,
      maxProperties: MAX_BIASES,
    }),
  ),
  logprobs: optional(Type.Union([Type.Boolean(), Type.Integer({ minimum: 0, maximum: 20 })])),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  response_format: optional(ResponseFormat),
  prediction: optional(Type.Object({ type: Type.Literal('content'), content: TextContent }, open)),
  tools: optional(list(Type.Union([ChatFunctionTool, OtherTool]), { maxItems: MAX_TOOLS })),
  tool_choice: optional(ToolChoice),
  functions: optional(list(FunctionDefinition, { maxItems: MAX_TOOLS })),
  function_call: optional(
    Type.Union([oneOf('none', 'auto'), Type.Object({ name: SomeName }, open)]),
  ),
  parallel_tool_calls: optional(Type.Boolean()),
  reasoning: optional(
    Type.Object(
      {
        effort: optional(Effort),
        max_tokens: optional(buildCount(1)),
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
  modalities: optional(list(oneOf('text', 'image', 'audio'), { maxItems: MAX_MODALITIES })),
  audio: optional(AnyObject),
  image_config: optional(AnyObject),
  service_tier: optional(oneOf('auto', 'default', 'fast', 'flex', 'priority', 'scale')),
  web_search_options: optional(AnyObject),
  cache_control: optional(CacheControl),
  prompt_cache_key: optional(Name),
  prompt_cache_options: optional(
    Type.Object({ mode: optional(oneOf('explicit', 'implicit')) }, open),
  ),
  stop_server_tools_when: optional(Type.Unknown()),
  metadata: optional(Type.Record(Type.String(), Name, { maxProperties: MAX_METADATA })),
  debug: optional(
    Type.Object({ echo_upstream_body: Type.Optional(Type.Boolean()), ...dryRunFields }, closed),
  ),
}

/** The body of `POST /chat/completions`. Either `messages` or `prompt` is required. */
export const ChatRequest = Type.Object(
  {
    messages: Type.Optional(list(ChatMessage, { minItems: 1 })),
    prompt: Type.Optional(SomeContent),
    ...shared,
  },
  open,
)
export type ChatRequest = Static<typeof ChatRequest>

/** The body of `POST /completions`. */
export const CompletionRequest = Type.Object({ prompt: SomeContent, ...shared }, open)
