import { requireValid } from '../../../base/body.ts'
import { invalid } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import { listNearest } from '../../../base/nearest.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Actor } from '../../../resources/actor.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, readExtraFields } from '../routing.ts'
import { readUnknownFields } from '../schema.ts'
import type { DialectWorld } from '../world.ts'
import { type GeminiContent, GeminiRequest, GenerationConfig } from './schema.ts'
import { GOOGLE_FORMAT, unpackDetails } from './signature.ts'

/** Translates a checked body into a call. Throws 400 naming what is none of the API’s. */
export function toGeminiCall(
  world: DialectWorld,
  actor: Actor,
  body: GeminiRequest,
  context: CallContext,
): TextCall {
  const fields = toCamel(body)
  const config = requireValid(GenerationConfig, readConfig(fields))
  const { tools, searches, others } = readTools(fields)
  return {
    ...buildCallBase(world, actor, body, context),
    kind: 'text',
    dialect: 'gemini',
    messages: [
      ...readInstructions(fields.systemInstruction),
      ...toMessages(listContents(body.contents)),
    ],
    tools: listAllowed(fields, [...tools, ...others]),
    params: {
      ...toParams(config),
      ...(searches ? { web_search_options: {} } : {}),
      ...chooseTool(fields),
    },
    extra: readExtra(body, fields, config),
    betas: context.betas,
  }
}

/** Returns an object with its own names in camelCase. */
function toCamel(object: Json): Json {
  const camel: Json = {}
  for (const [name, value] of Object.entries(object))
    camel[name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())] = value
  return camel
}

function readConfig(fields: Json): Json {
  const config = toCamel(readObject(fields, 'generationConfig'))
  return isObject(config.thinkingConfig)
    ? { ...config, thinkingConfig: toCamel(config.thinkingConfig) }
    : config
}

const listContents = (contents: GeminiRequest['contents']): GeminiContent[] =>
  typeof contents === 'string' ? [{ role: 'user', parts: [{ text: contents }] }] : [contents].flat()

function readInstructions(given: unknown): Message[] {
  const text =
    typeof given === 'string'
      ? given
      : readObjects(isObject(given) ? given.parts : [])
          .map(part => readString(part.text) ?? '')
          .join('\n')
  return text === '' ? [] : [{ role: 'system', blocks: [{ type: 'text', text }] }]
}

/** The calls of a conversation that have no result yet, in order. */
interface OpenCall {
  id: string
  name: string
}

/** What a message becomes: answers of tools come first, each as a message of its own. */
function toMessages(contents: GeminiContent[]): Message[] {
  const open: OpenCall[] = []
  return contents.flatMap(({ role, parts }, at) => {
    const field = `contents.${at}`
    if (role != null && !ROLES.has(role))
      throw invalid(`${field}.role: expected user or model`, `${field}.role`)
    const all = (parts ?? []).map(toCamel)
    return role === 'model' ? readModelTurn(all, at, open) : readUserTurn(all, field, open)
  })
}

const ROLES = new Set(['user', 'model', 'function', 'tool'])

function readUserTurn(parts: Json[], field: string, open: OpenCall[]): Message[] {
  const results: Message[] = []
  const blocks: Block[] = []
  for (const [i, part] of parts.entries()) {
    const place = `${field}.parts.${i}`
    if (isObject(part.functionResponse))
      results.push(readResult(toCamel(part.functionResponse), place, open))
    else blocks.push(toBlock(part, place))
  }
  return blocks.length === 0 && results.length > 0
    ? results
    : [...results, { role: 'user', blocks }]
}

// Clients of Google name a call by its function, and few by its id.
function readResult(result: Json, place: string, open: OpenCall[]): Message {
  const [given, name] = [readString(result.id), readString(result.name)]
  const byId = open.findIndex(({ id }) => id === given)
  const at = byId === -1 ? open.findIndex(call => call.name === name) : byId
  const [call] = at === -1 ? [] : open.splice(at, 1)
  const id = call?.id ?? given
  if (id == null)
    throw invalid(`${place}.functionResponse: expected the name of a call before it`, place)
  const { text, isError } = readResponse(readObject(result, 'response'))
  const media = readObjects(result.parts).map(part => toBlock(toCamel(part), place))
  return {
    role: 'tool',
    tool_call_id: id,
    blocks: [{ type: 'text', text }, ...media],
    ...(isError ? { is_error: true } : {}),
  }
}

/** What a tool said: alone under one of the names that Google documents, or as an object. */
function readResponse(response: Json): { text: string; isError: boolean } {
  const [[name = '', value] = [], ...more] = Object.entries(response)
  const isAlone = more.length === 0 && ['output', 'result', 'error', 'content'].includes(name)
  const text =
    isAlone && typeof value === 'string' ? value : JSON.stringify(isAlone ? value : response)
  return { text: text ?? '', isError: isAlone && name === 'error' }
}

function readModelTurn(parts: Json[], at: number, open: OpenCall[]): Message[] {
  const details: ReasoningDetail[] = []
  const thoughts: string[] = []
  const blocks: Block[] = []
  const work: ReasoningDetail[] = []
  for (const [i, part] of parts.entries()) {
    const signature = readString(part.thoughtSignature)
    const called = isObject(part.functionCall) ? toCamel(part.functionCall) : null
    const call = called && readCall(called, `call_${at}_${i}`)
    const isWork = readServerWork(part, `server_${at}_${i}`, work)
    const id = call?.id ?? (isWork ? readString(work.at(-1)?.tool_call_id) : null)
    if (signature) details.push(...unpackDetails(signature, id))
    if (call) {
      open.push(call)
      blocks.push({ type: 'tool-call', ...call })
    } else if (part.thought === true) thoughts.push(readString(part.text) ?? '')
    else if (!isWork && part.text !== '') blocks.push(toBlock(part, `contents.${at}.parts.${i}`))
  }
  // What the gateway has shown comes back in the signature too.
  if (!details.some(({ type }) => type === SERVER_WORK)) details.push(...work)
  const reasoning: Block[] =
    details.length + thoughts.length === 0
      ? []
      : [
          {
            type: 'reasoning',
            text: thoughts.length > 0 ? thoughts.join('') : null,
            details: details.length > 0 ? details : null,
          },
        ]
  return [{ role: 'assistant', blocks: [...reasoning, ...blocks] }]
}

const SERVER_WORK = 'reasoning.server_tool_call'

/** Reads what Google's own tools did, of which only Google's models can make use. */
function readServerWork(part: Json, id: string, work: ReasoningDetail[]): boolean {
  const { executableCode, codeExecutionResult, toolCall, toolResponse } = part
  if (isObject(executableCode))
    work.push(buildServerWork('code_execution', id, toCamel(executableCode)))
  else if (isObject(toolCall)) {
    const called = toCamel(toolCall)
    const args = isObject(called.args) ? called.args : {}
    work.push(buildServerWork(readString(called.toolType) ?? '', readString(called.id) ?? id, args))
  } else {
    const response = isObject(toolResponse) ? (toCamel(toolResponse).response ?? {}) : undefined
    const result = codeExecutionResult ?? response
    const last = work.at(-1)
    if (!isObject(result)) return false
    if (last) last.result = JSON.stringify(result)
  }
  return true
}

const buildServerWork = (tool_name: string, tool_call_id: string, args: Json): ReasoningDetail => ({
  ...{ type: SERVER_WORK, tool_name, tool_call_id, arguments: JSON.stringify(args) },
  ...{ result: '', format: GOOGLE_FORMAT },
})

const readCall = (call: Json, otherwise: string) => ({
  id: readString(call.id) || otherwise,
  name: readString(call.name) ?? '',
  input: JSON.stringify(call.args ?? {}),
})

/** Converts what is said or shown into a block. Throws 400 for what has no form here. */
function toBlock(part: Json, field: string): Block {
  const { text, inlineData, fileData } = part
  if (typeof text === 'string') return { type: 'text', text }
  const media = isObject(inlineData) ? toCamel(inlineData) : null
  const file = isObject(fileData) ? toCamel(fileData) : null
  const type = readString((media ?? file)?.mimeType) ?? ''
  if (media && typeof media.data === 'string')
    return toMedia(type, `data:${type || 'application/octet-stream'};base64,${media.data}`, field)
  if (file && typeof file.fileUri === 'string') return toMedia(type, file.fileUri, field)
  throw invalid(
    `${field}: expected text, inlineData, fileData, functionCall or functionResponse`,
    field,
  )
}

function toMedia(type: string, url: string, field: string): Block {
  if (type.startsWith('image/')) return { type: 'image', url, field }
  if (type.startsWith('video/') || /^https:\/\/(www\.)?youtu/.test(url))
    return { type: 'video', url, field }
  if (type.startsWith('audio/') && url.startsWith('data:'))
    return { type: 'audio', data: url.slice(url.indexOf(',') + 1), format: nameSound(type) }
  return { type: 'file', file: { file_data: url }, field }
}

/** As the chat API names a format of sound. */
const nameSound = (type: string): string =>
  type
    .slice('audio/'.length)
    .replace(/^x-/, '')
    .replace(/^mpeg$/, 'mp3')
    .replace(/;.*$/, '')

interface ReadTools {
  tools: Tool[]
  /** Whether the model may search the web, whoever searches. */
  searches: boolean
  /** Tools that Google runs, in its own form. */
  others: Tool[]
}

function readTools(fields: Json): ReadTools {
  const read: ReadTools = { tools: [], searches: false, others: [] }
  for (const entry of readObjects(fields.tools).map(toCamel))
    for (const [name, value] of Object.entries(entry))
      if (name === 'functionDeclarations')
        read.tools.push(...readObjects(value).map((one, i) => toTool(toCamel(one), i)))
      else if (name === 'googleSearch' || name === 'googleSearchRetrieval') read.searches = true
      else
        read.others.push({ type: 'other', dialect: 'gemini', value: { type: name, [name]: value } })
  return read
}

function toTool({ name, description, parameters, parametersJsonSchema }: Json, at: number): Tool {
  const known = readString(name)
  const field = `tools.functionDeclarations.${at}.name`
  if (known === null || known === '') throw invalid(`${field}: expected a name`, field)
  const text = readString(description)
  const schema = isObject(parametersJsonSchema)
    ? parametersJsonSchema
    : isObject(parameters)
      ? toPlainSchema(parameters)
      : undefined
  return omitUndefined({
    type: 'function' as const,
    name: known,
    description: text ?? undefined,
    parameters: schema ?? { type: 'object', properties: {} },
  }) as Tool
}

const readCalling = (fields: Json): Json =>
  toCamel(readObject(toCamel(readObject(fields, 'toolConfig')), 'functionCallingConfig'))

/** The tools of a call without the functions that the model may not call. */
function listAllowed(fields: Json, tools: Tool[]): Tool[] {
  const { mode, allowedFunctionNames: allowed } = readCalling(fields)
  const isBounded = mode === 'ANY' || mode === VALIDATED
  if (!isBounded || !Array.isArray(allowed) || allowed.length === 0) return tools
  return tools.filter(tool => tool.type !== 'function' || allowed.includes(tool.name))
}

const CHOICES = { AUTO: 'auto', ANY: 'required', NONE: 'none' } as const

/** Calls that Google holds to their schemas. Others choose by themselves, as without a mode. */
const VALIDATED = 'VALIDATED'

function chooseTool(fields: Json): Params {
  const { mode } = readCalling(fields)
  if (mode == null || mode === 'MODE_UNSPECIFIED' || mode === VALIDATED) return {}
  const choice = CHOICES[mode as keyof typeof CHOICES]
  if (choice === undefined)
    throw invalid(
      'toolConfig.functionCallingConfig.mode: expected AUTO, ANY, NONE or VALIDATED',
      'toolConfig.functionCallingConfig.mode',
    )
  return { tool_choice: choice }
}

function toParams(config: GenerationConfig): Params {
  const { stopSequences, responseModalities, imageConfig } = config
  return omitUndefined({
    temperature: config.temperature ?? undefined,
    top_p: config.topP ?? undefined,
    top_k: config.topK || undefined,
    max_tokens: config.maxOutputTokens ?? undefined,
    seed: config.seed ?? undefined,
    presence_penalty: config.presencePenalty ?? undefined,
    frequency_penalty: config.frequencyPenalty ?? undefined,
    stop: stopSequences?.length ? stopSequences : undefined,
    modalities: responseModalities?.map(one => one.toLowerCase()),
    image_config: imageConfig ? toSnake(imageConfig) : undefined,
    response_format: readFormat(config),
    reasoning: readReasoning(config),
    ...(config.responseLogprobs ? { logprobs: true, top_logprobs: config.logprobs ?? 0 } : {}),
  }) as Params
}

const toSnake = (object: Json): Json =>
  Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
      value,
    ]),
  )

function readFormat(config: GenerationConfig): Params['response_format'] {
  const { responseMimeType, responseSchema, responseJsonSchema } = config
  const given = isObject(responseJsonSchema)
    ? responseJsonSchema
    : responseSchema && toPlainSchema(responseSchema)
  if (given) return { type: 'json_schema', json_schema: { name: 'answer', schema: given } }
  return responseMimeType === 'application/json' ? { type: 'json_object' } : undefined
}

/** Google shows no thoughts unless it is asked for them; what it decides itself is `-1`. */
function readReasoning({ thinkingConfig }: GenerationConfig): Reasoning | undefined {
  const { includeThoughts, thinkingBudget: budget, thinkingLevel: level } = thinkingConfig ?? {}
  const depth: Reasoning =
    level != null
      ? { effort: level.toLowerCase() }
      : budget === 0
        ? { enabled: false }
        : budget != null && budget > 0
          ? { max_tokens: budget }
          : { enabled: true }
  if (!thinkingConfig) return undefined
  return includeThoughts ? depth : { ...depth, exclude: true }
}

const KNOWN_FIELDS = new Set([
  ...['model', 'stream', 'systemInstruction', 'toolConfig', 'generationConfig'],
  ...Object.keys(GeminiRequest.properties),
])
const KNOWN_CONFIG = new Set(Object.keys(GenerationConfig.properties))

/** Misspelt, they would bound nothing. */
const BOUNDS = ['maxOutputTokens', 'stopSequences', 'thinkingConfig']

/** Reads the fields that only Google’s own models understand. */
function readExtra(body: GeminiRequest, fields: Json, config: GenerationConfig): Json {
  const { candidateCount, ...rest } = config
  const others = readUnknownFields(rest, KNOWN_CONFIG) ?? {}
  for (const name in others) {
    const [meant] = listNearest(name, BOUNDS, 2)
    const field = `generationConfig.${name}`
    if (meant) throw invalid(`${field}: expected no such field; did you mean "${meant}"?`, field)
  }
  const kept = Object.entries(readExtraFields(body, KNOWN_FIELDS)).map(([name]) => name)
  const extra = toCamel(
    Object.fromEntries(kept.map(name => [name, body[name as keyof GeminiRequest]])),
  )
  const { functionCallingConfig: _, ...toolConfig } = toCamel(readObject(fields, 'toolConfig'))
  if (readCalling(fields).mode === VALIDATED) toolConfig.functionCallingConfig = { mode: VALIDATED }
  if (Object.keys(toolConfig).length > 0) extra.toolConfig = toolConfig
  if (Object.keys(others).length > 0) extra.generationConfig = others
  if (candidateCount != null && candidateCount > 1) extra.n = candidateCount
  return extra
}

/** Members that JSON Schema has under the same names, with schemas inside. */
const NESTED = new Set(['items', 'additionalProperties'])
const LISTS = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
const MAPS = new Set(['properties', '$defs', 'definitions'])

/** Bounds that Google writes as texts, as they are of 64 bits. */
const COUNTS = new Set([
  ...['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'],
])

/** The deepest schema that is read on: bodies nest no deeper. */
const DEEPEST = 128

/**
 * Converts a schema in Google’s form (types in capitals, `nullable`, bounds as texts) into JSON
 * Schema. What is JSON Schema already stays as it is.
 */
function toPlainSchema(schema: Json, depth = 0): Json {
  if (depth > DEEPEST) return schema
  const plain: Json = {}
  const isNullable = schema.nullable === true
  for (const [name, value] of Object.entries(toCamel(schema))) {
    if (name === 'type') plain.type = toTypes(value, isNullable)
    else if (name === 'nullable' || name === 'propertyOrdering') continue
    else if (name === 'enum' && isNullable && Array.isArray(value))
      plain.enum = value.includes(null) ? value : [...value, null]
    else if (COUNTS.has(name)) plain[name] = typeof value === 'string' ? Number(value) : value
    else if (NESTED.has(name) && isObject(value)) plain[name] = toPlainSchema(value, depth + 1)
    else if (LISTS.has(name) && Array.isArray(value))
      plain[name] = value.map(one => (isObject(one) ? toPlainSchema(one, depth + 1) : one))
    else if (MAPS.has(name) && isObject(value))
      plain[name] = Object.fromEntries(
        Object.entries(value).map(([key, one]) => [
          key,
          isObject(one) ? toPlainSchema(one, depth + 1) : one,
        ]),
      )
    else plain[name] = value
  }
  if (isNullable && plain.type === undefined && Array.isArray(plain.anyOf))
    plain.anyOf = [...plain.anyOf, { type: 'null' }]
  return plain
}

function toTypes(type: unknown, isNullable: boolean): unknown {
  const names = [type].flat().map(one => (typeof one === 'string' ? one.toLowerCase() : one))
  const all = isNullable && !names.includes('null') ? [...names, 'null'] : names
  return all.length === 1 ? all[0] : all
}
