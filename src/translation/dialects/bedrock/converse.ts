import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import {
  getOwn,
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
import { joinTexts, toConverseCitation, toMessagesCitation } from './citations.ts'

/** The most blocks of a message, and messages of a conversation. */
const MOST = 100_000

const Blocks = list(AnyObject, { maxItems: MOST })

/** A JSON Pointer. */
const FieldPath = Type.String({ minLength: 1, maxLength: 256, pattern: '^/' })

/** The body of `converse` and `converse-stream`. The path names the model. */
export const ConverseRequest = Type.Object(
  {
    ...routingFields,
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
    additionalModelResponseFieldPaths: optional(list(FieldPath, { maxItems: 10 })),
    outputConfig: optional(AnyObject),
    requestMetadata: optional(AnyObject),
    guardrailConfig: Type.Optional(Type.Unknown()),
    serviceTier: optional(Type.Object({ type: Name }, open)),
    debug: optional(Type.Object(dryRunFields, open)),
  },
  open,
)
/** The body, with what the path says. */
export type ConverseRequest = Static<typeof ConverseRequest> & { model: string; stream: boolean }

/** The body as one of the Messages API, and what of it has no form there. */
interface Translated {
  body: Json
  /** The names of Anthropic’s features that the fields of the model ask for. */
  betas: unknown
  leftOut: string[]
}

/**
 * Writes a body as one of the Messages API, whose content Converse's is. Throws 400 for a rule that
 * only AWS enforces, and for content that has no form there.
 */
export function toMessagesBody(body: ConverseRequest): Translated {
  if (body.guardrailConfig != null)
    throw invalid(
      'guardrailConfig: expected none, as guardrails here belong to keys',
      'guardrailConfig',
    )
  const { inferenceConfig, toolConfig, additionalModelRequestFields, debug } = body
  const { anthropic_beta: betas, ...more } = additionalModelRequestFields ?? {}
  const { maxTokens, temperature, topP, stopSequences } = inferenceConfig ?? {}
  const tools = toolConfig?.tools ?? []
  const ours = omitUndefined({
    ...pickRouting(body),
    debug,
    model: body.model,
    stream: body.stream,
    messages: body.messages.map(({ role, content }, at) => ({
      role,
      content: toContent(content, `messages.${at}.content`),
    })),
    system: body.system ? toContent(body.system, 'system') : undefined,
    max_tokens: maxTokens ?? undefined,
    temperature: temperature ?? undefined,
    top_p: topP ?? undefined,
    stop_sequences: stopSequences ?? undefined,
    service_tier: body.serviceTier?.type,
    tools: toolConfig ? markCached(tools.filter(isOurs), toTool) : undefined,
    tool_choice: toToolChoice(toolConfig?.toolChoice),
    output_config: toOutputConfig(body.outputConfig, more.output_config),
  })
  return { body: { ...more, ...ours }, betas, leftOut: [...listUnknown(body), ...listOf(tools)] }
}

const pickRouting = (body: ConverseRequest): Json => ({
  ...Object.fromEntries(
    Object.keys(routingFields).map(name => [name, body[name as keyof ConverseRequest]]),
  ),
  trace: body.trace ?? body.requestMetadata ?? undefined,
})

const KNOWN_FIELDS = new Set(Object.keys(ConverseRequest.properties))

const listUnknown = (body: ConverseRequest): string[] =>
  Object.keys(body).filter(name => !KNOWN_FIELDS.has(name) && body[name as 'model'] != null)

/** A tool that AWS runs is none that others know. */
const isOurs = (tool: Json): boolean => !('systemTool' in tool)

const listOf = (tools: Json[]): string[] =>
  tools.flatMap((tool, i) => (isOurs(tool) ? [] : [`toolConfig.tools.${i}.systemTool`]))

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
      return omitUndefined({
        type: 'document',
        source: toDocumentSource(member, field),
        title: member.name,
        context: member.context,
        citations: member.citations,
      })
    case 'video':
      return { type: 'video', media: toSource(toVideoType(member.format), member, field) }
    case 'audio':
      return { type: 'audio', media: toSource(String(member.format), member, field) }
    case 'searchResult':
      return omitUndefined({
        type: 'search_result',
        source: member.source,
        title: member.title,
        content: toTexts(member.content),
        citations: member.citations,
      })
    case 'citationsContent':
      return toCitedText(member)
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
        content: markCached(readObjects(member.content), (one, i) =>
          toResult(one, `${field}.content.${i}`),
        ),
        is_error: member.status === 'error',
      }
    case 'reasoningContent':
      return toThinking(member)
    case 'guardContent':
      return 'image' in member
        ? toBlock({ image: member.image }, field)
        : { type: 'text', text: readObject(member, 'text').text }
    default:
      throw invalid(
        `${field}: ${kind.slice(0, 64) || 'it'} is content that is not taken here`,
        field,
      )
  }
}

const toTexts = (content: unknown): Json[] =>
  readObjects(content).map(({ text }) => ({ type: 'text', text }))

function toCitedText({ content, citations }: Json): Json {
  const cited = readObjects(citations).flatMap(citation => toMessagesCitation(citation) ?? [])
  return {
    type: 'text',
    text: joinTexts(content),
    ...(cited.length > 0 ? { citations: cited } : {}),
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

/** The types of videos whose name Bedrock has in words of its own. */
const VIDEO_TYPES: Record<string, string> = {
  mkv: 'video/x-matroska',
  mov: 'video/quicktime',
  flv: 'video/x-flv',
  wmv: 'video/x-ms-wmv',
  three_gp: 'video/3gpp',
}

const toVideoType = (format: unknown): string => getOwn(VIDEO_TYPES, format) ?? `video/${format}`

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
  const { text, content } = readObject(document, 'source')
  if (typeof text === 'string') return { type: 'text', media_type: 'text/plain', data: text }
  if (Array.isArray(content)) return { type: 'content', content: toTexts(content) }
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
  const { name, description, inputSchema, strict } = isObject(toolSpec) ? toolSpec : {}
  const { json } = isObject(inputSchema) ? inputSchema : {}
  return omitUndefined({ name, description, input_schema: json ?? { type: 'object' }, strict })
}

function toToolChoice(choice: unknown): Json | undefined {
  if (!isObject(choice)) return undefined
  if (isObject(choice.tool)) return { type: 'tool', name: choice.tool.name }
  return { type: 'any' in choice ? 'any' : 'auto' }
}

/** Adds the schema of the answer, which Converse has as a text, to what the model’s fields have. */
function toOutputConfig(outputConfig: unknown, more: unknown): unknown {
  const structure = readObject(
    readObject(readObject({ outputConfig }, 'outputConfig'), 'textFormat'),
    'structure',
  )
  const { schema } = readObject(structure, 'jsonSchema')
  if (typeof schema !== 'string') return more
  try {
    const format = { type: 'json_schema', schema: JSON.parse(schema) }
    return { ...(isObject(more) ? more : {}), format }
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

/**
 * Converts a message into the answer of `converse`, with the fields of the model that are asked for.
 * What stands beside its fields stays there.
 */
export function toConverseAnswer(
  message: Json,
  latencyMs: number,
  paths: ConverseRequest['additionalModelResponseFieldPaths'],
): Json {
  const { content, stop_reason, usage, ...rest } = message
  const { id, type, role, model, provider, stop_sequence, stop_details, container, ...beside } =
    rest
  return {
    output: {
      message: { role: 'assistant', content: readObjects(content).flatMap(toConverseBlock) },
    },
    stopReason: toStopReason(stop_reason),
    usage: toUsage(usage),
    metrics: { latencyMs },
    ...pickModelFields(message, paths),
    ...beside,
  }
}

function toConverseBlock(block: Json): Json[] {
  switch (block.type) {
    case 'text':
      return [toText(block)]
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
    case 'image':
      return [{ image: block.image }]
    default:
      return []
  }
}

function toText({ text, citations }: Json): Json {
  const cited = readObjects(citations).map(toConverseCitation)
  return cited.length > 0
    ? { citationsContent: { content: [{ text }], citations: cited } }
    : { text }
}

/**
 * Picks the fields of a model's answer that a body names by JSON Pointers, each at its place. Those
 * that there are not are left out, and so is what stands in lists.
 */
export function pickModelFields(value: Json, paths: readonly string[] | null | undefined): Json {
  const picked: Json = {}
  for (const path of paths ?? [])
    copyField(value, picked, path.split('/').slice(1).map(unescapeName))
  return Object.keys(picked).length > 0 ? { additionalModelResponseFields: picked } : {}
}

const unescapeName = (name: string): string => name.replaceAll('~1', '/').replaceAll('~0', '~')

function copyField(from: Json, to: Json, [name = '', ...rest]: string[]): void {
  const value = getOwn(from, name)
  if (value === undefined) return
  if (rest.length === 0) to[name] = value
  else if (isObject(value)) {
    const inner: Json = { ...readObject(to, name) }
    copyField(value, inner, rest)
    if (Object.keys(inner).length > 0) to[name] = inner
  }
}

export const toBase64 = (data: unknown): string => Buffer.from(String(data)).toString('base64')
