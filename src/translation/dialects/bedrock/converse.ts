import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import { list, Name, oneOf, open, optional, SomeName } from '../../../base/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, dryRunFields } from '../schema.ts'

/** The most blocks of a message, and messages of a conversation. */
const MOST = 100_000

const Blocks = list(AnyObject, { maxItems: MOST })
const { models, provider, plugins, session_id, trace, user } = routingFields

/** The body of `converse` and `converse-stream`. The path names the model. */
export const ConverseRequest = Type.Object(
  {
    ...{ models, provider, plugins, session_id, trace, user },
    model: optional(SomeName),
    messages: list(Type.Object({ role: oneOf('user', 'assistant'), content: Blocks }, open), {
      minItems: 1,
      maxItems: MOST,
    }),
    system: optional(Blocks),
    inferenceConfig: optional(
      Type.Object(
        {
          maxTokens: optional(Type.Integer({ minimum: 1 })),
          temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
          topP: optional(Type.Number({ minimum: 0, maximum: 1 })),
          stopSequences: optional(list(SomeName, { maxItems: 8_191 })),
        },
        { additionalProperties: false },
      ),
    ),
    toolConfig: optional(
      Type.Object(
        { tools: Blocks, toolChoice: optional(AnyObject) },
        { additionalProperties: false },
      ),
    ),
    additionalModelRequestFields: optional(AnyObject),
    outputConfig: optional(AnyObject),
    requestMetadata: optional(AnyObject),
    serviceTier: optional(Type.Object({ type: Name }, open)),
    debug: optional(Type.Object(dryRunFields, open)),
  },
  open,
)
/** The body, with what the path says. */
export type ConverseRequest = Static<typeof ConverseRequest> & { model: string; stream: boolean }

/** What a rule of AWS would do, nobody does here. */
const RULES = ['guardrailConfig']

/**
 * Writes a body as one of the Messages API, whose content Converse's is. Throws 400 for a rule that
 * only AWS enforces, and for content that has no form there.
 */
export function toMessagesBody(body: ConverseRequest): Json {
  for (const name of RULES)
    if (name in body)
      throw invalid(`${name}: expected none, as guardrails here belong to keys`, name)
  const { inferenceConfig = {}, toolConfig, additionalModelRequestFields: more } = body
  const config = inferenceConfig ?? {}
  const { models, provider, plugins, session_id, trace, user, debug } = body
  return omitUndefined({
    ...more,
    ...{ models, provider, plugins, session_id, trace, user, debug },
    model: body.model,
    stream: body.stream,
    messages: body.messages.map(({ role, content }, at) => ({
      role,
      content: toContent(content, `messages.${at}.content`),
    })),
    system: body.system ? toContent(body.system, 'system') : undefined,
    max_tokens: config.maxTokens ?? undefined,
    temperature: config.temperature ?? undefined,
    top_p: config.topP ?? undefined,
    stop_sequences: config.stopSequences ?? undefined,
    service_tier: body.serviceTier?.type,
    tools: toolConfig ? markCached(toolConfig.tools, toTool) : undefined,
    tool_choice: toToolChoice(toolConfig?.toolChoice),
    ...readFormat(body.outputConfig),
  })
}

const toContent = (blocks: Json[], field: string): Json[] =>
  markCached(blocks, (block, i) => toBlock(block, `${field}.${i}`))

/** Converts a list: a cache point marks what is before it. */
function markCached(list: Json[], convert: (item: Json, at: number) => Json): Json[] {
  const converted: Json[] = []
  for (const [i, item] of list.entries()) {
    const last = converted.at(-1)
    if (!isObject(item.cachePoint)) converted.push(convert(item, i))
    else if (last) {
      const ttl = readString(item.cachePoint.ttl)
      last.cache_control = { type: 'ephemeral', ...(ttl === null ? {} : { ttl }) }
    }
  }
  return converted
}

function toBlock(block: Json, field: string): Json {
  const [[kind = '', value] = []] = Object.entries(block)
  if (kind === 'text') return { type: 'text', text: value }
  const member = isObject(value) ? value : {}
  switch (kind) {
    case 'image':
      return { type: 'image', source: toSource(`image/${member.format}`, member, field) }
    case 'document':
      return {
        type: 'document',
        source: toDocumentSource(member, field),
        ...(member.name === undefined ? {} : { title: member.name }),
      }
    case 'toolUse':
      return {
        type: 'tool_use',
        id: member.toolUseId,
        name: member.name,
        input: member.input ?? {},
      }
    case 'toolResult':
      return {
        type: 'tool_result',
        tool_use_id: member.toolUseId,
        content: readObjects(member.content).map((one, i) =>
          toResult(one, `${field}.content.${i}`),
        ),
        is_error: member.status === 'error',
      }
    case 'reasoningContent':
      return toThinking(member)
    case 'guardContent':
      return { type: 'text', text: readObject(member, 'text').text }
    default:
      throw invalid(
        `${field}: ${kind.slice(0, 64) || 'it'} is content that is not taken here`,
        field,
      )
  }
}

const toResult = (part: Json, field: string): Json =>
  'json' in part ? { type: 'text', text: JSON.stringify(part.json) } : toBlock(part, field)

function toSource(media_type: string, { source }: Json, field: string): Json {
  const { bytes } = isObject(source) ? source : {}
  if (typeof bytes !== 'string')
    throw invalid(`${field}.source: expected bytes, as nothing is fetched from AWS here`, field)
  return { type: 'base64', media_type: media_type.replace('image/jpg', 'image/jpeg'), data: bytes }
}

const DOCUMENT_TYPES: Record<string, string> = {
  pdf: 'application/pdf',
  csv: 'text/csv',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  html: 'text/html',
  txt: 'text/plain',
  md: 'text/markdown',
}

function toDocumentSource(document: Json, field: string): Json {
  const { text } = readObject(document, 'source')
  if (typeof text === 'string') return { type: 'text', media_type: 'text/plain', data: text }
  const type = DOCUMENT_TYPES[String(document.format ?? 'txt')] ?? 'application/octet-stream'
  return toSource(type, document, field)
}

function toThinking({ reasoningText, redactedContent }: Json): Json {
  if (typeof redactedContent === 'string')
    return {
      type: 'redacted_thinking',
      data: Buffer.from(redactedContent, 'base64').toString(),
    }
  const { text, signature } = isObject(reasoningText) ? reasoningText : {}
  return { type: 'thinking', thinking: readString(text) ?? '', signature: signature ?? '' }
}

function toTool({ toolSpec }: Json): Json {
  const { name, description, inputSchema } = isObject(toolSpec) ? toolSpec : {}
  const { json } = isObject(inputSchema) ? inputSchema : {}
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: json ?? { type: 'object' },
  }
}

function toToolChoice(choice: unknown): Json | undefined {
  if (!isObject(choice)) return undefined
  if (isObject(choice.tool)) return { type: 'tool', name: choice.tool.name }
  return { type: 'any' in choice ? 'any' : 'auto' }
}

/** Converse has the schema of an answer as a text. */
function readFormat(outputConfig: unknown): Json {
  const structure = readObject(
    readObject(readObject({ outputConfig }, 'outputConfig'), 'textFormat'),
    'structure',
  )
  const { schema } = readObject(structure, 'jsonSchema')
  if (typeof schema !== 'string') return {}
  try {
    return { output_config: { format: { type: 'json_schema', schema: JSON.parse(schema) } } }
  } catch {
    throw invalid('outputConfig.textFormat: expected a schema in JSON', 'outputConfig')
  }
}

const STOPS: Record<string, string> = {
  refusal: 'content_filtered',
  pause_turn: 'end_turn',
  compaction: 'end_turn',
}

/** Converts why a message ended. */
export const toStopReason = (reason: unknown): string =>
  typeof reason === 'string' ? (STOPS[reason] ?? reason) : 'end_turn'

/** Converts what a message used. */
export function toUsage(usage: unknown): Json {
  const counts = isObject(usage) ? usage : {}
  const count = (name: string) => Number(counts[name] ?? 0)
  const [read, written] = [count('cache_read_input_tokens'), count('cache_creation_input_tokens')]
  const [inputTokens, outputTokens] = [count('input_tokens'), count('output_tokens')]
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens + read + written,
    ...(read > 0 ? { cacheReadInputTokens: read } : {}),
    ...(written > 0 ? { cacheWriteInputTokens: written } : {}),
  }
}

/** Converts a message into the answer of `converse`. */
export const toConverseAnswer = (message: Json, latencyMs: number): Json => ({
  output: {
    message: {
      role: 'assistant',
      content: readObjects(message.content).flatMap(toConverseBlock),
    },
  },
  stopReason: toStopReason(message.stop_reason),
  usage: toUsage(message.usage),
  metrics: { latencyMs },
})

function toConverseBlock(block: Json): Json[] {
  switch (block.type) {
    case 'text':
      return [{ text: block.text }]
    case 'tool_use':
      return [{ toolUse: { toolUseId: block.id, name: block.name, input: block.input } }]
    case 'thinking':
      return [
        {
          reasoningContent: {
            reasoningText: { text: block.thinking, signature: block.signature },
          },
        },
      ]
    case 'redacted_thinking':
      return [{ reasoningContent: { redactedContent: toBase64(block.data) } }]
    default:
      return []
  }
}

export const toBase64 = (data: unknown): string => Buffer.from(String(data)).toString('base64')
