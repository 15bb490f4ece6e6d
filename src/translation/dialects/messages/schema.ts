import { type Static, Type } from '@sinclair/typebox'
import {
  buildCount,
  Content,
  closed,
  LONGEST_NAME,
  list,
  Name,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeId,
  SomeName,
} from '../../../base/schema-builders.ts'
import { MAX_MODEL_NAMES, routingFields } from '../routing.ts'
import {
  AnyObject,
  CacheControl,
  cacheMarkerField,
  dryRunFields,
  MAX_STOPS,
  MAX_TOOLS,
} from '../schema.ts'

/**
 * The Messages request (wire reference M; Anthropic's Messages API). Fields that are not named here
 * are kept unchanged.
 */

const Text = Type.Object({ type: Type.Literal('text'), text: Content, ...cacheMarkerField }, open)
const TextContent = Type.Union([Content, list(Text)])

const Base64 = Type.Object(
  { type: Type.Literal('base64'), media_type: SomeName, data: Content },
  open,
)
const Url = Type.Object({ type: Type.Literal('url'), url: SomeContent }, open)
const File = Type.Object({ type: Type.Literal('file'), file_id: SomeId }, open)

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
      Type.Object({ type: Type.Literal('text'), data: Content }, open),
      Type.Object(
        {
          type: Type.Literal('content'),
          content: Type.Union([Content, list(Type.Object({ type: Name }, open))]),
        },
        open,
      ),
    ]),
    title: optional(Content),
    context: optional(Content),
    citations: optional(Type.Object({ enabled: Type.Optional(Type.Boolean()) }, open)),
    ...cacheMarkerField,
  },
  open,
)
export type AnthropicDocument = Static<typeof AnthropicDocument>

const ToolUse = Type.Object(
  {
    type: Type.Literal('tool_use'),
    id: SomeId,
    name: SomeName,
    input: Type.Optional(Type.Unknown()),
    ...cacheMarkerField,
  },
  open,
)

const Thinking = Type.Object(
  { type: Type.Literal('thinking'), thinking: Content, signature: Content },
  open,
)
const RedactedThinking = Type.Object(
  { type: Type.Literal('redacted_thinking'), data: Content },
  open,
)

/** Builds the schema of objects of any type except these. */
const anyTypeExcept = (...types: string[]) =>
  Type.Object(
    { type: Type.String({ pattern: `^(?!(${types.join('|')})$).`, maxLength: LONGEST_NAME }) },
    open,
  )
const ResultContent = Type.Union([
  Content,
  list(
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
    tool_use_id: SomeId,
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
    content: Type.Union([Content, list(AnthropicContentBlock)]),
  },
  open,
)
export type AnthropicMessage = Static<typeof AnthropicMessage>

const AnthropicCustomTool = Type.Object(
  {
    type: optional(Type.Literal('custom')),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Type.Optional(Content),
    input_schema: AnyObject,
    strict: optional(Type.Boolean()),
    ...cacheMarkerField,
  },
  open,
)
export type AnthropicCustomTool = Static<typeof AnthropicCustomTool>
const OtherTool = anyTypeExcept('custom')
const AnthropicTool = Type.Union([AnthropicCustomTool, OtherTool])

/** What a `tool_addition` or a `tool_removal` of a system message is about. */
export const ChangedTool = Type.Union([
  Type.Object({ type: Type.Literal('tool_definition'), definition: AnthropicTool }, open),
  Type.Object({ type: Type.Literal('tool_reference'), name: Name }, open),
  anyTypeExcept('tool_definition', 'tool_reference'),
])
export type ChangedTool = Static<typeof ChangedTool>

const parallelField = { disable_parallel_tool_use: Type.Optional(Type.Boolean()) }
const ToolChoice = Type.Union([
  Type.Object({ type: Type.Literal('auto'), ...parallelField }, open),
  Type.Object({ type: Type.Literal('any'), ...parallelField }, open),
  Type.Object({ type: Type.Literal('tool'), name: SomeName, ...parallelField }, open),
  Type.Object({ type: Type.Literal('none') }, open),
])

const displayField = { display: optional(oneOf('summarized', 'omitted', 'updates')) }
const MIN_THINKING_BUDGET = 1_024
const ThinkingConfig = Type.Union([
  Type.Object(
    {
      type: Type.Literal('enabled'),
      budget_tokens: buildCount(MIN_THINKING_BUDGET),
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
    model: SomeName,
    messages: list(AnthropicMessage, { minItems: 1 }),
    ...routingFields,
    fallbacks: optional(
      list(Type.Object({ model: SomeName }, open), { maxItems: MAX_MODEL_NAMES }),
    ),
    system: optional(TextContent),
    max_tokens: optional(buildCount(1)),
    temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_k: optional(buildCount(0)),
    stop_sequences: optional(list(Name, { maxItems: MAX_STOPS })),
    tools: optional(list(AnthropicTool, { maxItems: MAX_TOOLS })),
    tool_choice: optional(ToolChoice),
    thinking: optional(ThinkingConfig),
    output_config: optional(OutputConfig),
    metadata: optional(Type.Object({ user_id: optional(Type.String({ maxLength: 256 })) }, open)),
    service_tier: optional(Name),
    speed: optional(oneOf('fast', 'standard')),
    cache_control: optional(CacheControl),
    stop_server_tools_when: optional(Type.Unknown()),
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  open,
)
export type MessagesRequest = Static<typeof MessagesRequest>
