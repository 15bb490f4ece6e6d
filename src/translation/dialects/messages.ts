import { type Static, Type } from '@sinclair/typebox'
import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { type Json, parseObject } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import { open } from '../../base/schema-builders.ts'
import { GrowingText, PIECES_AT_ONCE } from '../../base/turns.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { FinishReason, ReceiptPart, TextPart } from '../../language/part.ts'
import type { Tool } from '../../language/tool.ts'
import {
  countOutputTokens,
  createTextUsage,
  getSearchCount,
  type Receipt,
  type ServerToolCounts,
  type Usage,
} from '../../language/usage.ts'
import { type PresetDraft, pickPresetConfig } from '../../resources/presets/draft.ts'
import { readEnd } from '../protocols/reader.ts'
import { estimatePrompt } from '../tokenizers/prompt.ts'
import { estimateByRuleOfThumb } from '../tokenizers/rule-of-thumb.ts'
import type { AnswerHeader, Dialect, PresetForm } from './dialect.ts'
import { writeEvents } from './events.ts'
import { type BlockDelta, type BlockEvent, wrapInvalidInput } from './messages/block-queue.ts'
import { MessageContent, type ToPictureBlock } from './messages/content.ts'
import { MESSAGES_ERROR_FORMAT, renderMessagesError } from './messages/error.ts'
import { checkFallbacks, toMessagesCall, toParams, toTool } from './messages/request.ts'
import { MessagesRequest } from './messages/schema.ts'
import { withPresets } from './presets.ts'
import { presetCacheFields } from './schema.ts'
import { readStops } from './server-tools.ts'

const PUBLIC_TIERS = ['standard', 'priority', 'batch']

/**
 * Renders Anthropic's token counts (wire reference M). `input_tokens` excludes tokens read from or
 * written to a cache (translation trap 85). Fetched pages are counted from the content.
 */
export function renderCounts(usage: Usage, webFetches: number, serverTools?: ServerToolCounts) {
  const { input, output } = usage
  const own = serverTools?.searches || null
  const endedBy = serverTools?.endedBy
  const web_search_requests =
    own === null ? getSearchCount(usage) : own + (getSearchCount(usage) ?? 0)
  const web_fetch_requests = webFetches + (serverTools?.fetches ?? 0)
  return {
    input_tokens: input.text + input.audio + input.video,
    cache_creation_input_tokens: input.cache_write + input.cache_write_1h,
    cache_read_input_tokens: input.cache_read,
    cache_creation: {
      ephemeral_5m_input_tokens: input.cache_write,
      ephemeral_1h_input_tokens: input.cache_write_1h,
    },
    output_tokens: countOutputTokens(usage),
    output_tokens_details: { thinking_tokens: output.reasoning },
    server_tool_use:
      web_search_requests === null && web_fetch_requests === 0 && endedBy === undefined
        ? null
        : {
            ...{ web_search_requests: web_search_requests ?? 0, web_fetch_requests },
            ...(endedBy === undefined ? {} : { ended_by: endedBy }),
          },
  }
}

/** Renders the usage of a message, with the service tier if Anthropic's clients know it. */
export const renderMessageUsage = (
  usage: Usage,
  web_fetch_requests: number,
  service_tier: string | null,
  serverTools?: ServerToolCounts,
) => ({
  ...renderCounts(usage, web_fetch_requests, serverTools),
  inference_geo: null,
  service_tier: service_tier !== null && PUBLIC_TIERS.includes(service_tier) ? service_tier : null,
})

/** Renders the cost of the call in dollars, as fields next to the counts. */
export const renderCosts = ({ cost, cost_details, is_byok }: Receipt) => ({
  cost: cost === null ? null : toUsd(cost),
  is_byok,
  cost_details: cost_details && {
    upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
    upstream_inference_prompt_cost: toUsd(cost_details.prompt),
    upstream_inference_completions_cost: toUsd(cost_details.completion),
    ...(cost_details.tools === undefined ? {} : { server_tool_cost: toUsd(cost_details.tools) }),
  },
})

/** The event that keeps a waiting stream alive. */
export const PING = renderEvent({ type: 'ping' })

/**
 * Turns the parts of an answer into Anthropic's events (wire reference M): one `message_start`, the
 * content blocks in turn, `message_delta` with the stop reason and the final usage,
 * `message_stop`. A failure is an `error` event, and the last event.
 */
class MessagesStreamWriter {
  readonly #call: TextCall
  readonly #answer: AnswerHeader
  readonly #content: MessageContent
  #failed = false
  #hasBegun = false
  #tier: string | null = null
  #finish: Extract<TextPart, { type: 'finish' }> | null = null

  constructor(answer: AnswerHeader, call: TextCall, toPictureBlock?: ToPictureBlock) {
    this.#answer = answer
    this.#call = call
    this.#content = new MessageContent(call.params.reasoning?.exclude ?? false, toPictureBlock)
  }

  /** Renders the events of one batch: after the start of the message if it is the first. */
  write(parts: TextPart[]): string | Promise<string> {
    if (this.#hasBegun) return this.#renderParts(parts)
    this.#hasBegun = true
    return this.#begin(parts)
  }

  async #begin(parts: TextPart[]): Promise<string> {
    return (await this.#renderStart(parts)) + this.#renderParts(parts)
  }

  #renderParts(parts: TextPart[]): string {
    let events = ''
    for (const part of parts) events += this.#render(part)
    return events
  }

  // Clients read the size of the prompt here: the provider's count if it is already known, or an
  // estimate.
  async #renderStart(parts: TextPart[]): Promise<string> {
    for (const part of parts) if (part.type === 'start') this.#tier = part.service_tier
    const counted = parts.find(part => part.type === 'usage')
    const usage = counted ? counted.usage : await estimateUsage(this.#call)
    const { id, model, provider } = this.#answer
    const ending = renderEnding(null, this.#content)
    const message = {
      id,
      type: 'message',
      role: 'assistant',
      model,
      provider,
      content: [],
      ...ending,
      usage: renderMessageUsage(usage, 0, this.#tier),
    }
    return renderEvent({ type: 'message_start', message })
  }

  #render(part: TextPart): string {
    switch (part.type) {
      case 'finish':
        if (part.choice === 0) this.#finish ??= part
        return ''
      case 'error':
        return this.#renderError(part.error)
      case 'receipt':
        return this.#renderEnd(part)
      default:
        return renderEvents(this.#content.read(part))
    }
  }

  #renderEnd({ receipt, siblingFields }: ReceiptPart): string {
    if (this.#failed) return ''
    const rest = renderEvents(this.#content.end())
    if (this.#finish?.reason === 'error')
      return rest + this.#renderError(providerError(siblingFields))
    const usage = {
      ...renderCounts(receipt.usage, this.#content.webFetches, receipt.serverTools),
      ...renderCosts(receipt),
    }
    const delta = renderEnding(this.#finish, this.#content)
    return (
      rest +
      renderEvent({ type: 'message_delta', delta, usage, ...readSiblingFields(this.#finish) }) +
      renderEvent({ type: 'message_stop', ...siblingFields })
    )
  }

  #renderError(error: GatewayError): string {
    this.#failed = true
    return renderEvent(renderMessagesError(error, this.#answer.id))
  }
}

async function estimateUsage(call: TextCall): Promise<Usage> {
  const { text, audio, video } = await estimatePrompt(call, async texts =>
    estimateByRuleOfThumb(texts),
  )
  return createTextUsage(text + audio + video, 0)
}

function renderEvent<Data extends { type: string }>(data: Data): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

const renderEvents = (steps: BlockEvent[]): string => {
  let text = ''
  for (const step of steps) text += renderEvent(step)
  return text
}

/** Streams the events of an answer. The first batch determines how the message begins. */
export function streamMessagesEvents(
  answer: Answer<'text'>,
  call: TextCall,
  toPictureBlock?: ToPictureBlock,
): AsyncIterator<string> {
  return writeEvents(answer, new MessagesStreamWriter(answer, call, toPictureBlock))
}

/** Renders the event of a call that failed after its stream had begun with pings. */
export const renderMessagesFailure = (error: GatewayError, id: string): string =>
  renderEvent(renderMessagesError(error, id))

/**
 * Collects the parts of an answer into one message. Throws the error of a failed answer: a message
 * cannot contain an error.
 */
export async function collectMessagesResponse(
  answer: Answer<'text'>,
  { params }: TextCall,
  toPictureBlock?: ToPictureBlock,
) {
  const content = new MessageContent(params.reasoning?.exclude ?? false, toPictureBlock)
  const blocks = new BlockAssembler()
  let finish: Extract<TextPart, { type: 'finish' }> | null = null
  let tier: string | null = null
  let receipt: ReceiptPart | null = null
  let read = 0
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'start') tier = part.service_tier
      else if (part.type === 'receipt') receipt = part
      else if (part.type === 'finish') finish ??= part.choice === 0 ? part : null
      else blocks.add(content.read(part))
      if (++read % PIECES_AT_ONCE === 0) await yieldToEventLoop()
    }
  }
  if (finish?.reason === 'error') throw providerError(receipt?.siblingFields)
  blocks.add(content.end())
  return {
    id: answer.id,
    type: 'message',
    role: 'assistant',
    model: answer.model,
    provider: answer.provider,
    content: blocks.content,
    ...renderEnding(finish, content),
    ...readSiblingFields(finish),
    ...(receipt
      ? {
          usage: {
            ...renderMessageUsage(
              receipt.receipt.usage,
              content.webFetches,
              tier,
              receipt.receipt.serverTools,
            ),
            ...renderCosts(receipt.receipt),
          },
          ...receipt.siblingFields,
        }
      : {}),
  }
}

/** Assembles content blocks from events, as a client does. */
class BlockAssembler {
  readonly content: Json[] = []
  #text = new GrowingText()
  #citations: Json[] = []

  add(steps: BlockEvent[]): void {
    for (const step of steps) {
      if (step.type === 'content_block_start') this.#begin(step.content_block)
      else if (step.type === 'content_block_delta') this.#addDelta(step.delta)
      else this.#end()
    }
  }

  #begin(block: Json): void {
    this.content.push({ ...block })
    this.#text = new GrowingText()
    this.#citations = []
  }

  #addDelta(delta: BlockDelta): void {
    switch (delta.type) {
      case 'text_delta':
        this.#text.add(delta.text)
        break
      case 'thinking_delta':
        this.#text.add(delta.thinking)
        break
      case 'input_json_delta':
        this.#text.add(delta.partial_json)
        break
      case 'citations_delta':
        this.#citations.push(delta.citation)
        break
      case 'compaction_delta': {
        const { type: _, ...compaction } = delta
        for (const [name, value] of Object.entries(compaction)) this.#set(name, value)
        break
      }
      case 'signature_delta':
        this.#set('signature', delta.signature)
    }
  }

  #end(): void {
    const { text } = this.#text
    switch (this.content.at(-1)?.type) {
      case 'text':
        this.#set('text', text)
        if (this.#citations.length > 0) this.#set('citations', this.#citations)
        break
      case 'thinking':
        this.#set('thinking', text)
        break
      default:
        if (text) this.#set('input', parseObject(text) ?? wrapInvalidInput(text))
    }
  }

  #set(name: string, value: unknown): void {
    const block = this.content.at(-1)
    if (block) block[name] = value
  }
}

const MessagesPreset = Type.Object({ ...MessagesRequest.properties, ...presetCacheFields }, open)
type MessagesPreset = Static<typeof MessagesPreset>

/** A Messages request from which a preset is made. */
const messagesPreset: PresetForm<MessagesPreset> = {
  name: 'messages',
  path: '/messages',
  operation: {
    id: 'createPresetsMessages',
    summary: 'Create a preset, or its next version, from a request in Anthropic’s format',
  },
  body: MessagesPreset,
  toPresetDraft,
}

// Under the chat API's field names: `stop_sequences` is `stop`, `thinking` is `reasoning`.
function toPresetDraft(body: MessagesPreset): PresetDraft {
  readStops(body)
  checkFallbacks(body)
  const { model, route, provider, plugins, cache_enabled, cache_ttl_seconds } = body
  const models = [...(body.models ?? []), ...(body.fallbacks ?? []).map(fallback => fallback.model)]
  return {
    system_prompt: readSystemPrompt(body),
    config: pickPresetConfig({
      ...{ model, route, provider, plugins, cache_enabled, cache_ttl_seconds },
      ...(models.length > 0 ? { models } : {}),
      ...toParams(body),
      ...(body.tools ? { tools: body.tools.map(tool => toChatTool(toTool(tool))) } : {}),
    }),
  }
}

function readSystemPrompt({ system }: MessagesPreset): string | null {
  if (system == null || system.length === 0) return null
  return typeof system === 'string' ? system : system.map(({ text }) => text).join('\n\n')
}

/** Converts a tool into its chat form. A tool that the gateway has no type for stays unchanged. */
function toChatTool(tool: Tool): unknown {
  if (tool.type === 'other') return tool.value
  const { type, cache_control, extra = {}, ...definition } = tool
  return { ...extra, type, function: definition, ...(cache_control ? { cache_control } : {}) }
}

/** The Messages API in Anthropic's format (wire reference M), including its error format. */
export const messages: Dialect<'text', MessagesRequest> = {
  name: 'messages',
  kind: 'text',
  path: '/messages',
  operation: {
    id: 'createMessages',
    tag: 'Messages',
    summary: 'Answer a conversation in Anthropic’s format, whole or streamed',
  },
  body: MessagesRequest,
  errorFormat: MESSAGES_ERROR_FORMAT,
  acceptsApiKeyHeader: true,
  idHeader: 'request-id',
  showsRouting: true,
  toCall: withPresets(toMessagesCall),
  collectResponse: (answer, call) => collectMessagesResponse(answer, call),
  streaming: {
    renderKeepAlive: () => PING,
    streamEvents: (answer, call) => streamMessagesEvents(answer, call),
    renderFailure: ({ id }, error) => renderMessagesFailure(error, id),
  },
  preset: messagesPreset,
}

/** The stop reasons that Anthropic's clients know. */
const NATIVE_REASONS = new Set([
  'end_turn',
  'stop_sequence',
  'pause_turn',
  'compaction',
  'max_tokens',
  'model_context_window_exceeded',
  'tool_use',
  'refusal',
])

const STOP_REASONS: Record<FinishReason, string | null> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  error: null,
}

type Finish = Extract<TextPart, { type: 'finish' }>

/** What the content tells about why the message ended. */
interface ContentOutcome {
  calledTool: boolean
  refused: boolean
}

/**
 * Renders why the message ended, with the provider's own details. The provider's native reason is
 * kept if it is one of Anthropic's and matches the finish reason. They differ if an answer was
 * unwrapped from a forced tool: it did not end in a tool call.
 */
export function renderEnding(finish: Finish | null, outcome: ContentOutcome) {
  const stop_reason = pickStopReason(finish, outcome)
  return {
    stop_reason,
    stop_sequence: finish?.sequence ?? null,
    stop_details:
      stop_reason === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null,
    container: null,
    ...pickFields(finish?.extra, ['stop_details', 'container']),
  }
}

/** Reads the provider's further fields about the whole message, which are siblings of the usage. */
export const readSiblingFields = (finish: Finish | null) =>
  pickFields(finish?.extra, ['context_management', 'safeguard_results', 'input_transformations'])

const pickFields = (fields: Json | undefined, names: string[]): Json =>
  Object.fromEntries(names.flatMap(name => (fields?.[name] == null ? [] : [[name, fields[name]]])))

function pickStopReason(
  finish: Finish | null,
  { calledTool, refused }: ContentOutcome,
): string | null {
  if (refused) return 'refusal'
  if (!finish) return null
  const { reason, native, sequence } = finish
  if (native !== null && NATIVE_REASONS.has(native) && readEnd(native)?.reason === reason)
    return native
  if (reason === 'stop' && typeof sequence === 'string') return 'stop_sequence'
  // Some servers end a tool call with the same reason as a text.
  return reason === 'stop' && calledTool ? 'tool_use' : STOP_REASONS[reason]
}

/**
 * The provider stopped with an error of its own and no details. Anthropic's format has no stop
 * reason for that.
 */
const providerError = (siblingFields: ReceiptPart['siblingFields']) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { siblingFields })
