import { yieldToEventLoop } from '../../../base/clock.ts'
import { type ErrorType, GatewayError } from '../../../base/errors.ts'
import { type Json, omitUndefined } from '../../../base/json.ts'
import { toUsd } from '../../../base/money.ts'
import { PIECES_AT_ONCE } from '../../../base/turns.ts'
import type { Answer } from '../../../language/answer.ts'
import type { TextCall } from '../../../language/call.ts'
import type { FinishReason, ReceiptPart, TextPart } from '../../../language/part.ts'
import type { ServerToolCounts } from '../../../language/usage.ts'
import {
  countInputTokens,
  countOutputTokens,
  getSearchCount,
  type Receipt,
} from '../../../language/usage.ts'
import type { AnswerHeader } from '../dialect.ts'
import { renderToolCounts } from '../server-tools.ts'
import { renderResponseError } from './error.ts'
import type { ItemEvent } from './events.ts'
import { ResponseOutput } from './output.ts'
import type { ResponsesRequest } from './schema.ts'
import { renderTool, renderToolChoice } from './tools.ts'

/** How a response stands, or ended. */
type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/**
 * A response while it is made (wire reference D.5): the settings of its request, its output and its
 * end. Streams show it when it begins and when it has ended, whole answers only then.
 */
export class ResponseBuilder {
  readonly output: ResponseOutput
  readonly #call: TextCall
  readonly #body: ResponsesRequest
  #settings: Json
  #tier: string | null = null
  #finish: Extract<TextPart, { type: 'finish' }> | null = null
  #error: GatewayError | null = null
  #receipt: ReceiptPart | null = null
  /** The characters that the response holds. */
  #held = 0

  constructor(header: AnswerHeader, call: TextCall, body: ResponsesRequest) {
    this.output = new ResponseOutput(header.id, call)
    this.#call = call
    this.#body = body
    this.#settings = renderSettings(header, call, body)
  }

  /** Takes over what is known of the answer once it has come: its model and its provider. */
  takeHeading(header: AnswerHeader): void {
    this.#settings = renderSettings(header, this.#call, this.#body)
  }

  /** The error with which the answer failed; null if it has not. */
  get error(): GatewayError | null {
    return this.#error
  }

  /** Reads a part, and returns the events of the items that it changes. */
  read(part: TextPart): ItemEvent[] {
    switch (part.type) {
      case 'start':
        this.#tier = part.service_tier
        return []
      case 'finish':
        if (part.choice === 0) this.#finish ??= part
        return []
      case 'error':
        this.#error = part.error
        return []
      case 'receipt':
        this.#receipt = part
        return this.output.end(this.status === 'completed' ? 'completed' : 'incomplete')
      default:
        return this.#hold(part)
    }
  }

  // The last event has all of the output, so it is kept, and must not grow without end.
  #hold(part: TextPart): ItemEvent[] {
    this.#held += measureText(part)
    if (this.#held <= MAX_HELD) return this.output.read(part)
    this.#error ??= new GatewayError('provider_unavailable', 'The answer is too long')
    return []
  }

  /** How the response stands. A broken answer is never complete. */
  get status(): Status {
    if (!this.#receipt) return 'in_progress'
    if (this.#error) return this.#isOverrun ? 'incomplete' : 'failed'
    if (!this.#finish || this.#finish.reason === 'error') return 'failed'
    return this.#reason ? 'incomplete' : 'completed'
  }

  /** Whether the answer has begun and became too long. */
  get #isOverrun(): boolean {
    return this.#error !== null && isLengthError(this.#error) && this.output.items.length > 0
  }

  get #reason(): string | null {
    if (this.#error) return this.#isOverrun ? 'max_output_tokens' : null
    const reason = this.#finish && REASONS[this.#finish.reason]
    // A refusal that says so is an answer.
    return reason === 'content_filter' && this.output.refused ? null : (reason ?? null)
  }

  /** Renders the response as it stands. */
  render(): Json {
    const { status } = this
    const receipt = this.#receipt
    return {
      ...this.#settings,
      status,
      service_tier: this.#tier,
      output: this.output.items,
      output_text: receipt ? joinText(this.output.items) : '',
      completed_at: status === 'completed' ? (receipt?.ended ?? null) : null,
      incomplete_details: status === 'incomplete' ? { reason: this.#reason } : null,
      error: null,
      ...(status === 'failed' ? this.#renderError() : {}),
      ...(receipt ? { usage: renderUsage(receipt.receipt) } : {}),
      ...receipt?.siblingFields,
    }
  }

  #renderError(): Json {
    return this.#error ? renderResponseError(this.#error) : PROVIDER_ERROR
  }
}

/** The error types that end an answer which has begun as incomplete (wire reference L.2). */
const LENGTH_TYPES: readonly ErrorType[] = [
  'context_length_exceeded',
  'max_tokens_exceeded',
  'token_limit_exceeded',
  'string_too_long',
]

/** Whether this error makes a response that has output incomplete rather than failed. */
const isLengthError = ({ type }: GatewayError): boolean => LENGTH_TYPES.includes(type)

/** The most characters of one response. */
const MAX_HELD = 64 * 1024 * 1024

function measureText(part: TextPart): number {
  switch (part.type) {
    case 'text-delta':
    case 'refusal-delta':
    case 'reasoning-delta':
      return part.text.length
    case 'tool-call-delta':
      return part.input.length
    case 'image':
      return part.url.length
    default:
      return 0
  }
}

/** The provider stopped with an error of its own and no details. */
const PROVIDER_ERROR = {
  error: { code: 'server_error', message: 'Provider returned error' },
  error_type: 'provider_unavailable',
}

/** Why a response is incomplete, by finish reason. */
const REASONS: Partial<Record<FinishReason, string>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
}

function joinText(items: Json[]): string {
  const contents = items.flatMap(({ type, content }) =>
    type === 'message' && Array.isArray(content) ? content : [],
  )
  return contents.map(({ type, text }) => (type === 'output_text' ? text : '')).join('')
}

/** Renders the settings of the request, a preset's included, as the public schema wants them. */
function renderSettings(
  { id, created, model, provider }: AnswerHeader,
  { params, tools, serverTools }: TextCall,
  body: ResponsesRequest,
): Json {
  return {
    id,
    object: 'response',
    created_at: created,
    model,
    provider,
    background: body.background ?? false,
    store: body.store ?? false,
    previous_response_id: body.previous_response_id ?? null,
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? null,
    frequency_penalty: params.frequency_penalty ?? null,
    presence_penalty: params.presence_penalty ?? null,
    temperature: params.temperature ?? null,
    top_p: params.top_p ?? null,
    max_output_tokens: params.max_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    parallel_tool_calls: params.parallel_tool_calls ?? true,
    tool_choice: renderToolChoice(params.tool_choice),
    tools: [...tools.map(renderTool), ...listNative(body, serverTools)],
    text: renderText(params, body),
    reasoning: renderReasoning(params, body),
    truncation: body.truncation ?? null,
    user: body.user ?? null,
    ...omitUndefined({
      prompt: body.prompt ?? undefined,
      prompt_cache_key: params.prompt_cache_key,
      prompt_cache_options: body.prompt_cache_options ?? undefined,
      safety_identifier: body.safety_identifier ?? undefined,
      top_logprobs: body.top_logprobs ?? undefined,
    }),
  }
}

/** Lists the tools of the body that the gateway may stand in for, as their own API has them. */
const listNative = ({ tools }: ResponsesRequest, serverTools: TextCall['serverTools']): Json[] => {
  const types = serverTools?.requests.map(({ type }) => type) ?? []
  return (tools ?? []).filter(({ type }) => types.includes(type) && SHOWN.test(type)) as Json[]
}

/** The types of those that have no secrets, as servers of MCP may. */
const SHOWN = /^(web_search|tool_search|image_generation)/

function renderText(
  { response_format, verbosity }: TextCall['params'],
  { text }: ResponsesRequest,
): Json {
  const format = text?.format ?? renderFormat(response_format)
  return { format, ...(verbosity === undefined ? {} : { verbosity }) }
}

// A preset has the format in the chat API's form.
function renderFormat(format: TextCall['params']['response_format']): unknown {
  if (!format) return { type: 'text' }
  return 'json_schema' in format ? { type: format.type, ...format.json_schema } : format
}

const renderReasoning = ({ reasoning }: TextCall['params'], body: ResponsesRequest): Json => ({
  effort: reasoning?.effort ?? null,
  summary: reasoning?.summary ?? null,
  ...omitUndefined({
    context: body.reasoning?.context ?? undefined,
    mode: body.reasoning?.mode ?? undefined,
  }),
})

/**
 * Collects the parts of an answer into one response. Throws the error of an answer that failed
 * before it had any output.
 */
export async function collectResponse(
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): Promise<Json> {
  const response = new ResponseBuilder(answer, call, body)
  let read = 0
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      response.read(part)
      if (++read % PIECES_AT_ONCE === 0) await yieldToEventLoop()
    }
  }
  const { error, output } = response
  const isNothing = output.items.length === 0 && error
  if (error && (isNothing || error.type === 'unavailable')) throw error
  return response.render()
}

/**
 * Renders the usage of a response (specification, Usage objects; wire reference D.5). The totals
 * include the tokens that their details name.
 */
function renderUsage({ usage, cost, cost_details, is_byok, serverTools }: Receipt) {
  const { input, output } = usage
  const input_tokens = countInputTokens(usage)
  const output_tokens = countOutputTokens(usage)
  const web_search_requests = getSearchCount(usage)
  return {
    input_tokens,
    input_tokens_details: {
      cached_tokens: input.cache_read,
      cache_write_tokens: input.cache_write + input.cache_write_1h,
    },
    output_tokens,
    output_tokens_details: { reasoning_tokens: output.reasoning },
    total_tokens: input_tokens + output_tokens,
    cost: cost === null ? null : toUsd(cost),
    is_byok,
    ...(cost_details
      ? {
          cost_details: {
            upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
            upstream_inference_input_cost: toUsd(cost_details.prompt),
            upstream_inference_output_cost: toUsd(cost_details.completion),
          },
        }
      : {}),
    ...renderToolUse(serverTools, web_search_requests),
  }
}

// Searches of the provider itself are counted by it.
function renderToolUse(own: ServerToolCounts | undefined, searches: number | null) {
  if (!own)
    return searches === null ? {} : { server_tool_use_details: { web_search_requests: searches } }
  const counts = renderToolCounts({ ...own, searches: own.searches + (searches ?? 0) })
  return { server_tool_use_details: counts }
}
