import { type Static, Type } from '@sinclair/typebox'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { routing } from '../routing.ts'
import { Anything, CacheControl, dryRun, marked } from '../schema.ts'

/**
 * The Messages request (wire reference M; Anthropic's Messages API). Fields that are not named here
 * are kept unchanged.
 */

const Text = Type.Object({ type: Type.Literal('text'), text: Type.String(), ...marked }, open)
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

const Image = Type.Object(
  { type: Type.Literal('image'), source: Type.Union([Base64, Url, File]), ...marked },
  open,
)
export type Image = Static<typeof Image>

const Document = Type.Object(
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
    ...marked,
  },
  open,
)
export type Document = Static<typeof Document>

const ToolUse = Type.Object(
  {
    type: Type.Literal('tool_use'),
    id: Type.String({ minLength: 1 }),
    name: Type.String({ minLength: 1 }),
    input: Type.Optional(Type.Unknown()),
    ...marked,
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
const otherThan = (...types: string[]) =>
  Type.Object({ type: Type.String({ pattern: `^(?!(${types.join('|')})$).` }) }, open)
const ResultContent = Type.Union([
  Type.String(),
  Type.Array(
    Type.Union([
      Text,
      Image,
      Document,
      otherThan('text', 'image', 'document', 'tool_use', 'tool_result'),
    ]),
  ),
])

const ToolResult = Type.Object(
  {
    type: Type.Literal('tool_result'),
    tool_use_id: Type.String({ minLength: 1 }),
    content: optional(ResultContent),
    is_error: optional(Type.Boolean()),
    ...marked,
  },
  open,
)
export type ToolResult = Static<typeof ToolResult>

/** A kind of content that only providers of the same dialect have a type for. */
const OtherBlock = otherThan(
  'text',
  'image',
  'document',
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
)

const ContentBlock = Type.Union([
  Text,
  Image,
  Document,
  ToolUse,
  ToolResult,
  Thinking,
  RedactedThinking,
  OtherBlock,
])
export type ContentBlock = Static<typeof ContentBlock>

const Message = Type.Object(
  {
    role: oneOf('user', 'assistant', 'system'),
    content: Type.Union([Type.String(), Type.Array(ContentBlock)]),
  },
  open,
)
export type Message = Static<typeof Message>

const CustomTool = Type.Object(
  {
    type: optional(Type.Literal('custom')),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: Type.Optional(Type.String()),
    input_schema: Anything,
    strict: optional(Type.Boolean()),
    ...marked,
  },
  open,
)
export type CustomTool = Static<typeof CustomTool>
const OtherTool = otherThan('custom')

const parallel = { disable_parallel_tool_use: Type.Optional(Type.Boolean()) }
const ToolChoice = Type.Union([
  Type.Object({ type: Type.Literal('auto'), ...parallel }, open),
  Type.Object({ type: Type.Literal('any'), ...parallel }, open),
  Type.Object(
    { type: Type.Literal('tool'), name: Type.String({ minLength: 1 }), ...parallel },
    open,
  ),
  Type.Object({ type: Type.Literal('none') }, open),
])

const display = { display: optional(oneOf('summarized', 'omitted', 'updates')) }
const LEAST_BUDGET = 1_024
const ThinkingConfig = Type.Union([
  Type.Object(
    {
      type: Type.Literal('enabled'),
      budget_tokens: Type.Integer({ minimum: LEAST_BUDGET }),
      ...display,
    },
    open,
  ),
  Type.Object({ type: Type.Literal('adaptive'), ...display }, open),
  Type.Object({ type: Type.Literal('disabled') }, open),
])

const OutputConfig = Type.Object(
  {
    effort: optional(oneOf('low', 'medium', 'high', 'xhigh', 'max')),
    format: optional(Type.Object({ type: Type.Literal('json_schema'), schema: Anything }, open)),
  },
  open,
)

/** The body of `POST /messages`. `max_tokens` is optional: providers that need it get a default. */
export const MessagesRequest = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    messages: Type.Array(Message, { minItems: 1 }),
    ...routing,
    fallbacks: optional(Type.Array(Type.Object({ model: Type.String({ minLength: 1 }) }, open))),
    system: optional(TextContent),
    max_tokens: optional(Type.Integer({ minimum: 1 })),
    temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
    top_k: optional(Type.Integer({ minimum: 0 })),
    stop_sequences: optional(Type.Array(Type.String())),
    tools: optional(Type.Array(Type.Union([CustomTool, OtherTool]))),
    tool_choice: optional(ToolChoice),
    thinking: optional(ThinkingConfig),
    output_config: optional(OutputConfig),
    metadata: optional(Type.Object({ user_id: optional(Type.String({ maxLength: 256 })) }, open)),
    service_tier: optional(Type.String()),
    speed: optional(oneOf('fast', 'standard')),
    cache_control: optional(CacheControl),
    stop_server_tools_when: optional(Type.Unknown()),
    debug: optional(Type.Object(dryRun, open)),
  },
  open,
)
export type MessagesRequest = Static<typeof MessagesRequest>
