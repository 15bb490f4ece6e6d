import { type Static, Type } from '@sinclair/typebox'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, CacheControl, cacheMarkerField, dryRunFields } from '../schema.ts'

/**
 * The Messages request (wire reference M; Anthropic's Messages API). Fields that are not named here
 * are kept unchanged.
 */

const Text = Type.Object(
  { type: Type.Literal('text'), text: Type.String(), ...cacheMarkerField },
  open,
)
const TextContent = Type.Union([Type.String(), Type.Array(Text)])

const Base64 = Type.Object(
  { type: Type.Literal('base64'), media_type: Type.String({ minLength: 1 }), data: Type.String() },
  open,
)
const Url = Type.Object({ type: Type.Literal('url'), url: Type.String({ minLength: 1 }) }, open)
const File = Type.Object(
  { type: Type.Literal('file'), file_id: Type.String({ minLength: 1 }) },
  open,
)

const AnthropicImage = Type.Object(
  { type: Type.Literal('image'), source: Type.Union([Base64, Url, File]), ...cacheMarkerField },
  open,
)
export type AnthropicImage = Static<typeof AnthropicImage>

const AnthropicDocument = Type.Object(
  {
    type: Type.Literal('document'),
    source: Type.Union([
      Base64,
      Url,
      File,
      Type.Object({ type: Type.Literal('text'), data: Type.String() }, open),
      Type.Object(
        {
          type: Type.Literal('content'),
          content: Type.Union([
            Type.String(),
            Type.Array(Type.Object({ type: Type.String() }, open)),
          ]),
        },
        open,
      ),
    ]),
    title: optional(Type.String()),
    context: optional(Type.String()),
    citations: optional(Type.Object({ enabled: Type.Optional(Type.Boolean()) }, open)),
    ...cacheMarkerField,
  },
  open,
)
export type AnthropicDocument = Static<typeof AnthropicDocument>

const ToolUse = Type.Object(
  {
    type: Type.Literal('tool_use'),
    id: Type.String({ minLength: 1 }),
    name: Type.String({ minLength: 1 }),
    input: Type.Optional(Type.Unknown()),
    ...cacheMarkerField,
  },
  open,
)

const Thinking = Type.Object(
  { type: Type.Literal('thinking'), thinking: Type.String(), signature: Type.String() },
  open,
)
const RedactedThinking = Type.Object(
  { type: Type.Literal('redacted_thinking'), data: Type.String() },
  open,
)

/** Builds the schema of objects of any type except these. */
const anyTypeExcept = (...types: string[]) =>
  Type.Object({ type: Type.String({ pattern: `^(?!(${types.join('|')})$).` }) }, open)
const ResultContent = Type.Union([
  Type.String(),
  Type.Array(
    Type.Union([
      Text,
      AnthropicImage,
      AnthropicDocument,
      anyTypeExcept('text', 'image', 'document', 'tool_use', 'tool_result'),
    ]),
  ),
])

const AnthropicToolResult = Type.Object(
  {
    type: Type.Literal('tool_result'),
    tool_use_id: Type.String({ minLength: 1 }),
    content: optional(ResultContent),
    is_error: optional(Type.Boolean()),
    ...cacheMarkerField,
  },
  open,
)
export type AnthropicToolResult = Static<typeof AnthropicToolResult>

/** A kind of content that only providers of the same dialect have a type for. */
const OtherBlock = anyTypeExcept(
  'text',
  'image',
  'document',
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
)

const AnthropicContentBlock = Type.Union([
  Text,
  AnthropicImage,
  AnthropicDocument,
  ToolUse,
  AnthropicToolResult,
  Thinking,
  RedactedThinking,
  OtherBlock,
])
export type AnthropicContentBlock = Static<typeof AnthropicContentBlock>

const AnthropicMessage = Type.Object(
  {
    role: oneOf('user', 'assistant', 'system'),
    content: Type.Union([Type.String(), Type.Array(AnthropicContentBlock)]),
  },
  open,
)
export type AnthropicMessage = Static<typeof AnthropicMessage>

const AnthropicCustomTool = Type.Object(
  {
    type: optional(Type.Literal('custom')),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Type.Optional(Type.String()),
    input_schema: AnyObject,
    strict: optional(Type.Boolean()),
    ...cacheMarkerField,
  },
  open,
)
export type AnthropicCustomTool = Static<typeof AnthropicCustomTool>
const OtherTool = anyTypeExcept('custom')

const parallelField = { disable_parallel_tool_use: Type.Optional(Type.Boolean()) }
const ToolChoice = Type.Union([
  Type.Object({ type: Type.Literal('auto'), ...parallelField }, open),
  Type.Object({ type: Type.Literal('any'), ...parallelField }, open),
  Type.Object(
    { type: Type.Literal('tool'), name: Type.String({ minLength: 1 }), ...parallelField },
    open,
  ),
  Type.Object({ type: Type.Literal('none') }, open),
])

const displayField = { display: optional(oneOf('summarized', 'omitted', 'updates')) }
const MIN_THINKING_BUDGET = 1_024
const ThinkingConfig = Type.Union([
  Type.Object(
    {
      type: Type.Literal('enabled'),
      budget_tokens: Type.Integer({ minimum: MIN_THINKING_BUDGET }),
      ...displayField,
    },
    open,
  ),
  Type.Object({ type: Type.Literal('adaptive'), ...displayField }, open),
  Type.Object({ type: Type.Literal('disabled') }, open),
])

const OutputConfig = Type.Object(
  {
    effort: optional(oneOf('low', 'medium', 'high', 'xhigh', 'max')),
    format: optional(Type.Object({ type: Type.Literal('json_schema'), schema: AnyObject }, open)),
  },
  open,
)

/** The body of `POST /messages`. `max_tokens` is optional: providers that need it get a default. */
export const MessagesRequest = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    messages: Type.Array(AnthropicMessage, { minItems: 1 }),
    ...routingFields,
    fallbacks: optional(Type.Array(Type.Object({ model: Type.String({ minLength: 1 }) }, open))),
    system: optional(TextContent),
    max_tokens: optional(Type.Integer({ minimum: 1 })),
    temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_k: optional(Type.Integer({ minimum: 0 })),
    stop_sequences: optional(Type.Array(Type.String())),
    tools: optional(Type.Array(Type.Union([AnthropicCustomTool, OtherTool]))),
    tool_choice: optional(ToolChoice),
    thinking: optional(ThinkingConfig),
    output_config: optional(OutputConfig),
    metadata: optional(Type.Object({ user_id: optional(Type.String({ maxLength: 256 })) }, open)),
    service_tier: optional(Type.String()),
    speed: optional(oneOf('fast', 'standard')),
    cache_control: optional(CacheControl),
    stop_server_tools_when: optional(Type.Unknown()),
    debug: optional(Type.Object(dryRunFields, open)),
  },
  open,
)
export type MessagesRequest = Static<typeof MessagesRequest>
