import { yieldToEventLoop } from '../../../base/clock.ts'
import { Base64Pieces } from '../../../base/data-url.ts'
import type { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import { toUsd } from '../../../base/money.ts'
import { PIECES_AT_ONCE } from '../../../base/turns.ts'
import type { Answer } from '../../../language/answer.ts'
import type { TextCall } from '../../../language/call.ts'
import type { AudioDelta, Logprobs, ReceiptPart, TextPart } from '../../../language/part.ts'
import { appendDetail, type ReasoningDetail } from '../../../language/reasoning.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../../language/usage.ts'
import { renderToolCounts } from '../server-tools.ts'
import type { ChatRequest } from './schema.ts'
import { toServerToolDetail } from './server-tool-details.ts'

/** The shape of an answer: where chat and text completions differ, and what the caller excluded. */
export interface ChatShape {
  object: 'chat.completion' | 'text_completion'
  /** Choices hold a `text` instead of a `message` or `delta`. */
  usesText: boolean
  /** The model may reason, but its reasoning is left out (`reasoning.exclude`). */
  hidesReasoning: boolean
  /** The caller uses functions, not tools: the first call is also sent as a `function_call`. */
  usesFunctions: boolean
}

/** Derives the shape of an answer from its request: text for a `prompt` (specification E9). */
export const readChatShape = (
  object: ChatShape['object'],
  call: TextCall,
  body: ChatRequest,
): ChatShape => ({
  object,
  usesText: body.messages === undefined,
  hidesReasoning: call.params.reasoning?.exclude ?? false,
  usesFunctions: (body.functions?.length ?? 0) > 0,
})

/** Returns what collects an answer in the shape that its request asks for. */
export const createCollector =
  (object: ChatShape['object']) => (answer: Answer<'text'>, call: TextCall, body: ChatRequest) =>
    collectChatResponse(answer, readChatShape(object, call, body))

interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
  extra_content?: unknown
}

/** One alternative of the answer while it is collected. */
class CollectedChoice {
  content: string | null = null
  refusal: string | null = null
  reasoning: string | null = null
  details: ReasoningDetail[] = []
  /** How many of the details are uses of the gateway's own tools, and not the model's words. */
  toolDetails = 0
  calls: ToolCall[] = []
  images: { type: 'image_url'; image_url: { url: string } }[] = []
  annotations: unknown[] = []
  audio: AudioDelta | null = null
  #sound: Base64Pieces | null = null
  logprobs: Logprobs | null = null
  finish: { reason: string; native: string | null } | null = null

  /** Adds one part. */
  add(part: TextPart): void {
    switch (part.type) {
      case 'text-delta':
        this.content = (this.content ?? '') + part.text
        this.#addLogprobs(part.logprobs)
        break
      case 'refusal-delta':
        this.refusal = (this.refusal ?? '') + part.text
        this.#addLogprobs(part.logprobs)
        break
      case 'reasoning-delta':
        if (part.text) this.reasoning = (this.reasoning ?? '') + part.text
        for (const detail of part.details) appendDetail(this.details, detail)
        break
      case 'server-tool-end':
        this.toolDetails += 1
        this.details.push(toServerToolDetail(part))
        break
      case 'tool-call-start':
        this.calls[part.index] = {
          ...pickExtraContent(part),
          id: part.id,
          type: 'function',
          function: { name: part.name, arguments: '' },
        }
        break
      case 'tool-call-delta':
        this.#addInput(part.index, part.input)
        break
      case 'image':
        this.images.push({ type: 'image_url', image_url: { url: part.url } })
        break
      case 'annotation':
        if (part.annotation !== null) this.annotations.push(renderSource(part.annotation))
        break
      case 'audio-delta':
        this.#addAudio(part.audio)
        break
      case 'finish':
        this.finish = part
        break
    }
  }

  #addInput(index: number, input: string): void {
    const call = this.calls[index]
    if (call) call.function.arguments += input
  }

  #addAudio({ data, transcript, ...rest }: AudioDelta): void {
    this.audio = { ...this.audio, ...rest }
    if (data !== undefined) {
      this.#sound ??= new Base64Pieces()
      this.#sound.add(data)
    }
    if (transcript !== undefined) this.audio.transcript = (this.audio.transcript ?? '') + transcript
  }

  #addLogprobs(given: Logprobs | undefined): void {
    if (!given) return
    this.logprobs ??= { content: null, refusal: null }
    for (const name of ['content', 'refusal'] as const) {
      if (!given[name]) continue
      this.logprobs[name] ??= []
      for (const entry of given[name]) this.logprobs[name].push(entry)
    }
  }

  /** Returns the audio of all deltas as one. */
  joinAudio(): AudioDelta | null {
    return this.audio && this.#sound ? { ...this.audio, data: this.#sound.join() } : this.audio
  }
}

/**
 * Collects the parts of an answer into one `chat.completion`. Throws the error of an answer that
 * failed before it had any content.
 */
export async function collectChatResponse(answer: Answer<'text'>, shape: ChatShape) {
  const choices: CollectedChoice[] = []
  let start = { system_fingerprint: null as string | null, service_tier: null as string | null }
  let error: GatewayError | null = null
  let receipt: ReceiptPart | null = null
  let read = 0
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'start') start = part
      else if (part.type === 'error') error = part.error
      else if (part.type === 'receipt') receipt = part
      else if ('choice' in part)
        getOrAddChoice(choices, part.choice).add(shape.usesText ? sayInWords(part) : part)
      if (++read % PIECES_AT_ONCE === 0) await yieldToEventLoop()
    }
  }
  if (error && (choices.length === 0 || error.type === 'unavailable')) throw error
  // Fields are added one by one: spreading an object for each costs far more.
  const response: ChatResponse = {
    id: answer.id,
    object: shape.object,
    created: answer.created,
    model: answer.model,
    provider: answer.provider,
    system_fingerprint: start.system_fingerprint,
    choices: renderChoices(choices, error, shape),
  }
  if (start.service_tier !== null) response.service_tier = start.service_tier
  if (receipt) response.usage = renderChatUsage(receipt.receipt)
  return Object.assign(response, receipt?.siblingFields)
}

/** A whole answer, with all its choices. */
interface ChatResponse {
  choices: Json[]
  [field: string]: unknown
}

function getOrAddChoice(choices: CollectedChoice[], index: number): CollectedChoice {
  const choice = choices[index] ?? new CollectedChoice()
  choices[index] = choice
  return choice
}

function renderChoices(
  choices: CollectedChoice[],
  error: GatewayError | null,
  shape: ChatShape,
): Json[] {
  const rendered: Json[] = []
  const cut = error ? listCutIndexes(choices) : []
  // Of a list with holes, as choices come in any order.
  choices.forEach((choice, index) => {
    rendered.push(renderChoice(choice, index, cut.includes(index) ? error : null, shape))
  })
  return rendered
}

function listCutIndexes(choices: CollectedChoice[]): number[] {
  const begun: number[] = []
  const finished = new Set<number>()
  choices.forEach(({ finish }, index) => {
    begun.push(index)
    if (finish) finished.add(index)
  })
  return listCutChoices(begun, finished)
}

/**
 * Lists the choices that a failure in the middle of an answer has cut: those that have begun and
 * not finished. The error must stand in a choice (specification, Errors 7; wire reference C.6), so
 * it is in all that have begun if each has finished, and in the first if none has begun.
 */
export function listCutChoices(begun: number[], finished: Set<number>): number[] {
  const open = begun.filter(choice => !finished.has(choice))
  if (open.length > 0) return open
  return begun.length > 0 ? begun : [0]
}

function renderChoice(
  choice: CollectedChoice,
  index: number,
  error: GatewayError | null,
  shape: ChatShape,
): Json {
  const rendered: Json = {
    index,
    finish_reason: error ? 'error' : (choice.finish?.reason ?? null),
    native_finish_reason: choice.finish?.native ?? null,
    logprobs: shape.usesText ? toTextLogprobs(choice.logprobs) : choice.logprobs,
  }
  if (error) rendered.error = renderChatError(error)
  if (shape.usesText) rendered.text = choice.content ?? ''
  else rendered.message = renderMessage(choice, shape)
  return rendered
}

/** Returns what stands in a text for a part that only messages have. */
export function sayInWords(part: TextPart): TextPart {
  switch (part.type) {
    case 'refusal-delta':
      return { ...part, type: 'text-delta' }
    case 'image':
      return { type: 'text-delta', choice: part.choice, text: `![image](${part.url})` }
    case 'audio-delta':
      return { type: 'text-delta', choice: part.choice, text: part.audio.transcript ?? '' }
    default:
      return part
  }
}

/** Converts logprobs into the form of texts, in which the first token stands at this place. */
export function toTextLogprobs(logprobs: Logprobs | null, offset = 0): Json | null {
  if (logprobs === null) return null
  const entries = readObjects(logprobs.content ?? logprobs.refusal)
  const tokens = entries.map(({ token }) => readString(token) ?? '')
  const top = entries.map(({ top_logprobs }) => readObjects(top_logprobs))
  const text_offset: number[] = []
  let place = offset
  for (const token of tokens) {
    text_offset.push(place)
    place += token.length
  }
  return {
    tokens,
    token_logprobs: entries.map(({ logprob }) => logprob ?? null),
    top_logprobs: top.some(others => others.length > 0) ? top.map(nameLogprobs) : null,
    text_offset,
  }
}

const nameLogprobs = (others: Json[]): Json =>
  Object.fromEntries(others.map(({ token, logprob }) => [String(token), logprob]))

function renderMessage(
  choice: CollectedChoice,
  { hidesReasoning, usesFunctions }: ChatShape,
): Json {
  const reasoning = hidesReasoning ? null : choice.reasoning
  const details = hidesReasoning ? [] : listReasoningDetails(choice)
  const message: Json = {
    role: 'assistant',
    content: choice.content,
    refusal: choice.refusal,
    reasoning,
  }
  if (details.length > 0) message.reasoning_details = details
  if (choice.calls.length > 0) message.tool_calls = choice.calls.filter(call => call)
  if (usesFunctions && choice.calls[0]) message.function_call = choice.calls[0].function
  if (choice.images.length > 0) message.images = choice.images
  if (choice.annotations.length > 0) message.annotations = choice.annotations
  if (choice.audio) message.audio = choice.joinAudio()
  return message
}

const listReasoningDetails = ({
  details,
  toolDetails,
  reasoning,
}: CollectedChoice): ReasoningDetail[] =>
  details.length > toolDetails || reasoning === null
    ? details
    : [toReasoningDetail(reasoning), ...details]

/** Converts reasoning that came as bare text into the structured form that clients send back. */
export const toReasoningDetail = (text: string): ReasoningDetail => ({
  type: 'reasoning.text',
  text,
  format: 'unknown',
  index: 0,
})

/** Picks the field of a call that clients send back with it: its signature, at Google's chat API. */
export const pickExtraContent = ({
  extra,
}: Extract<TextPart, { type: 'tool-call-start' }>): { extra_content?: unknown } =>
  extra?.extra_content === undefined ? {} : { extra_content: extra.extra_content }

/**
 * Renders a source. OpenAI’s own clients refuse a whole answer for one without a title or a range,
 * which not every provider knows: then they are empty.
 */
export function renderSource(annotation: unknown): unknown {
  if (!isObject(annotation) || !isObject(annotation.url_citation)) return annotation
  const citation = annotation.url_citation
  const { title, start_index, end_index } = citation
  const range = { start_index: start_index ?? 0, end_index: end_index ?? 0 }
  return { ...annotation, url_citation: { ...citation, title: title ?? '', ...range } }
}

/** Renders an error inside an answer that has begun (wire reference C.6 and L.2). */
export const renderChatError = ({ status, message, type, metadata }: GatewayError) => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})

/**
 * Renders the chat usage object (specification, Usage objects; wire reference A.9). The totals
 * include the tokens that their details name.
 */
export function renderChatUsage({ usage, cost, cost_details, is_byok, serverTools }: Receipt) {
  const { input, output, prediction } = usage
  const prompt_tokens = countInputTokens(usage)
  const completion_tokens = countOutputTokens(usage)
  const searches = usage.units?.search ?? null
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    // Left out if unknown: the official clients accept a number or nothing.
    ...(cost === null ? {} : { cost: toUsd(cost) }),
    is_byok,
    prompt_tokens_details: {
      cached_tokens: input.cache_read,
      cache_write_tokens: input.cache_write,
      audio_tokens: input.audio,
      video_tokens: input.video,
    },
    completion_tokens_details: {
      reasoning_tokens: output.reasoning,
      audio_tokens: output.audio,
      image_tokens: output.image,
      ...(prediction
        ? {
            accepted_prediction_tokens: prediction.accepted,
            rejected_prediction_tokens: prediction.rejected,
          }
        : {}),
    },
    cost_details: cost_details && {
      upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
      upstream_inference_prompt_cost: toUsd(cost_details.prompt),
      upstream_inference_completions_cost: toUsd(cost_details.completion),
      ...(cost_details.tools === undefined ? {} : { server_tool_cost: toUsd(cost_details.tools) }),
    },
    ...(serverTools || searches !== null ? renderToolUse(serverTools, searches) : {}),
  }
}

// Under the name of the specification (Usage objects), and of the schema (wire reference A.9).
// Searches of the provider itself are counted by it.
function renderToolUse(own: Receipt['serverTools'], searches: number | null): Json {
  const web_search_requests = (own?.searches ?? 0) + (searches ?? 0)
  return {
    server_tool_use: { web_search_requests },
    server_tool_use_details: own
      ? { ...renderToolCounts(own), web_search_requests }
      : { web_search_requests },
  }
}
