import type { Kind } from '../../../language/work.ts'

import { writeJson } from '../text.ts'
import type { SpanValue, Trace, TraceFacts, TraceSpan } from '../trace.ts'

/*
 * The attributes of spans, in the order in which the public service sends them (wire reference
 * G.5). Those that a span brings itself stand among their kind, and win over the derived ones.
 */

/**
 * What kinds of work are called where a trace is read. A kind that has no word of its own there is
 * what it is most like: receivers know models that generate, that embed and that rank.
 */
export type Words = Readonly<Record<Kind, string>>

/** Completes the words of a receiver: what only generates has the word of text. */
export const nameKinds = (text: string, embedding: string, rerank: string): Words => ({
  ...{ text, image: text, speech: text, transcription: text, video: text },
  ...{ embedding, rerank },
})

/**
 * `gen_ai.operation.name` (OpenTelemetry, "Semantic conventions for generative AI"). Reranking has
 * no name there, and one of its own is allowed.
 */
export const OPERATIONS: Words = {
  ...nameKinds('generate_content', 'embeddings', 'rerank'),
  text: 'chat',
}

/** `gen_ai.output.type`, where the conventions have one. */
const OUTPUT_TYPES: Partial<Words> = { image: 'image', speech: 'speech' }

/** Leaves out the costs of a model whose price is not known: they are not $0. */
export const omitNull = (costs: Record<string, number | null>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(costs).flatMap(([name, cost]) => (cost === null ? [] : [[name, cost]])),
  )

/** Contents of more characters are told once, and not under three names. */
const LONGEST_REPEATED = 65_536

/** Builds the attributes of a trace's root span. */
export function buildRootAttributes(service: string, trace: Trace, span: TraceSpan): Attributes {
  const { facts } = trace
  // One object that grows: each call that is told has fifty of them.
  const all: Attributes = { 'trace.name': trace.name }
  if (facts.userId !== null) all['user.id'] = facts.userId
  if (facts.sessionId !== null) all['session.id'] = facts.sessionId
  addMembers(all, 'trace.metadata', trace.metadata)
  addMembers(all, 'trace.metadata.openrouter_generation', trace.extra)
  addPicked(all, span.attributes, isTraceMetadata)
  addState(all, trace, span)
  addMembers(all, 'span.metadata.openrouter_generation', trace.extra)
  addPicked(all, span.attributes, isOfSpan)
  addModel(all, trace)
  addParameters(all, facts.parameters)
  if (hasUsage(facts)) addUsage(all, facts)
  addContent(all, trace)
  if (hasUsage(facts)) addUsageDetails(all, facts)
  addEnd(all, facts)
  addCall(all, service, facts)
  return Object.assign(all, span.attributes)
}

/** Builds the attributes of any other span. */
export function buildChildAttributes(trace: Trace, span: TraceSpan): Attributes {
  const all: Attributes = {}
  addState(all, trace, span)
  addPicked(all, span.attributes, isOfSpan)
  if (span.role === 'attempt') all['gen_ai.operation.name'] = OPERATIONS[trace.facts.kind]
  const id = buildResponseId(trace, span)
  if (id !== null) all['gen_ai.response.id'] = id
  return Object.assign(all, span.attributes)
}

function buildResponseId(trace: Trace, span: TraceSpan): string | null {
  if (span.role === 'generation') return `${trace.id}:generation`
  if (span.role !== 'attempt') return null
  const attempts = trace.spans.filter(({ role }) => role === 'attempt')
  return `${trace.id}:attempt-${attempts.indexOf(span)}`
}

const isTraceMetadata = (key: string): boolean =>
  key.startsWith('trace.metadata.') && !key.startsWith('trace.metadata.openrouter.')

const isOfSpan = (key: string): boolean => key.startsWith('span.')

/** The type of a root span, in the words of the public service and of those that read it. */
const TYPES = nameKinds('generation', 'embedding', 'retriever')

/** Says of what type a span is, and whether it failed. */
function addState(all: Attributes, { facts }: Trace, { role, error }: TraceSpan): void {
  all['span.type'] = role === 'root' ? TYPES[facts.kind] : 'span'
  all['span.level'] = error === null ? 'DEFAULT' : 'ERROR'
  if (error === null) return
  all['span.status_message'] = error.message
  all['error.type'] = error.type
}

function addModel(all: Attributes, { id, facts }: Trace): void {
  const output = OUTPUT_TYPES[facts.kind]
  all['gen_ai.operation.name'] = OPERATIONS[facts.kind]
  if (output !== undefined) all['gen_ai.output.type'] = output
  all['gen_ai.system'] = facts.author
  all['gen_ai.provider.name'] = facts.author
  all['gen_ai.request.model'] = facts.model
  all['gen_ai.response.model'] = facts.model
  all['gen_ai.response.id'] = id
}

/** The parameters for which the semantic conventions of GenAI have a name, and that name. */
const PARAMETERS = [
  ['temperature', 'gen_ai.request.temperature'],
  ['top_p', 'gen_ai.request.top_p'],
  ['top_k', 'gen_ai.request.top_k'],
  ['max_tokens', 'gen_ai.request.max_tokens'],
  ['frequency_penalty', 'gen_ai.request.frequency_penalty'],
  ['presence_penalty', 'gen_ai.request.presence_penalty'],
  ['seed', 'gen_ai.request.seed'],
  ['stop', 'gen_ai.request.stop_sequences'],
] as const

function addParameters(all: Attributes, parameters: Record<string, unknown>): void {
  for (const [name, convention] of PARAMETERS) {
    const value = toSpanValue(parameters[name])
    if (value !== undefined) all[convention] = value
  }
}

/** Tells whether a trace has usage: every success, and a failure that came to any. */
export const hasUsage = (facts: TraceFacts): boolean =>
  facts.error === null || facts.promptTokens + facts.completionTokens + (facts.totalCost ?? 0) > 0

function addUsage(all: Attributes, facts: TraceFacts): void {
  all['gen_ai.usage.input_tokens'] = facts.promptTokens
  all['gen_ai.usage.output_tokens'] = facts.completionTokens
  all['gen_ai.usage.total_tokens'] = facts.promptTokens + facts.completionTokens
  addCosts(all, facts, 'gen_ai.usage', ['input_cost', 'output_cost', 'total_cost'])
}

/** Adds the costs under a receiver’s names for them; none where the model has no known price. */
export function addCosts(
  all: Attributes,
  { inputCost, outputCost, totalCost }: TraceFacts,
  prefix: string,
  names: [input: string, output: string, total: string],
): void {
  for (const [i, cost] of [inputCost, outputCost, totalCost].entries())
    if (cost !== null) all[`${prefix}.${names[i]}`] = { double: cost }
}

function addUsageDetails(all: Attributes, facts: TraceFacts): void {
  all['gen_ai.usage.input_tokens.cached'] = facts.cachedTokens
  all['gen_ai.usage.input_tokens.cache_write'] = facts.cacheWriteTokens
  // As OpenTelemetry's conventions name them: collectors know that these are parts of the input.
  all['gen_ai.usage.cache_read.input_tokens'] = facts.cachedTokens
  all['gen_ai.usage.cache_creation.input_tokens'] = facts.cacheWriteTokens
  all['gen_ai.usage.output_tokens.reasoning'] = facts.reasoningTokens
}

/** Writes what was asked, as it stands in `gen_ai.prompt`. Null where content is not told. */
export const writePrompt = ({ input }: Trace): string | null =>
  input === null ? null : writeJson({ messages: input })

/** Writes what was answered, as it stands in `gen_ai.completion`. */
export const writeCompletion = ({ output }: Trace): string | null =>
  output === null ? null : writeJson(output)

function addContent(all: Attributes, trace: Trace): void {
  const [prompt, completion] = [writePrompt(trace), writeCompletion(trace)]
  if (prompt !== null) {
    all['gen_ai.prompt'] = prompt
    if (prompt.length <= LONGEST_REPEATED) {
      all['trace.input'] = prompt
      all['span.input'] = prompt
    }
  }
  if (completion === null) return
  all['gen_ai.completion'] = completion
  if (completion.length > LONGEST_REPEATED) return
  all['trace.output'] = completion
  all['span.output'] = completion
}

function addEnd(all: Attributes, { finishReason }: TraceFacts): void {
  if (finishReason === null) return
  all['gen_ai.response.finish_reasons'] = writeJson([finishReason])
  all['gen_ai.response.finish_reason'] = finishReason
}

function addCall(all: Attributes, service: string, facts: TraceFacts): void {
  const { apiKeyName, firstTokenMs, providerName, nativeFinishReason } = facts
  all['trace.metadata.openrouter.source'] = service
  if (apiKeyName !== null) all['trace.metadata.openrouter.api_key_name'] = apiKeyName
  if (firstTokenMs !== null) all['trace.metadata.openrouter.first_token_ms'] = firstTokenMs
  if (providerName !== null) all['trace.metadata.openrouter.provider_name'] = providerName
  if (nativeFinishReason !== null)
    all['trace.metadata.openrouter.finish_reason'] = nativeFinishReason
}

function addPicked(
  all: Attributes,
  attributes: Attributes,
  isWanted: (key: string) => boolean,
): void {
  for (const key in attributes) if (isWanted(key)) all[key] = attributes[key] as SpanValue
}

/** Names the members of an object below a prefix. Lists and objects become JSON. */
export function flatten(prefix: string, members: Record<string, unknown>): Attributes {
  const flat: Attributes = {}
  addMembers(flat, prefix, members)
  return flat
}

function addMembers(all: Attributes, prefix: string, members: Record<string, unknown>): void {
  for (const name of Object.keys(members)) {
    const value = toSpanValue(members[name])
    if (value !== undefined) all[`${prefix}.${name}`] = value
  }
}

// OpenTelemetry has no null: an attribute without a value is left out.
function toSpanValue(value: unknown): SpanValue | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return value
  return writeJson(value)
}

export type Attributes = Record<string, SpanValue>
