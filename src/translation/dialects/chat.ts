import { type Static, Type } from '@sinclair/typebox'
import type { GatewayError } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { open } from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { Logprobs, ReceiptPart, TextPart } from '../../language/part.ts'
import { createFreeReceipt, createTextUsage } from '../../language/usage.ts'
import { type PresetDraft, pickPresetConfig } from '../../resources/presets/draft.ts'
import { modernizeRequest, toChatCall } from './chat/request.ts'
import {
  type ChatShape,
  createCollector,
  listCutChoices,
  pickExtraContent,
  readChatShape,
  renderChatError,
  renderChatUsage,
  renderSource,
  sayInWords,
  toReasoningDetail,
  toTextLogprobs,
} from './chat/response.ts'
import { type ChatMessage, ChatRequest, CompletionRequest } from './chat/schema.ts'
import { toServerToolDetail } from './chat/server-tool-details.ts'
import type { AnswerHeader, Dialect, PresetForm } from './dialect.ts'
import { writeEvents } from './events.ts'
import { withPresets } from './presets.ts'
import { presetCacheFields } from './schema.ts'
import { readStops } from './server-tools.ts'

const DONE = 'data: [DONE]\n\n'

/**
 * Turns the parts of an answer into `chat.completion.chunk` events (wire reference C.6): the role,
 * the pieces, the finish reason, one usage chunk without choices, `[DONE]`. The fields that every
 * chunk repeats are serialized once.
 */
export class ChatStreamWriter {
  readonly #head: string
  readonly #shape: ChatShape
  #fingerprint = ''
  /** The choices that have begun: each has had its role. */
  readonly #begun = new Set<number>()
  readonly #finished = new Set<number>()
  readonly #natives = new Map<number, string>()
  /** How long the texts of choices are, if they are texts. */
  readonly #lengths = new Map<number, number>()
  /** Whether the provider sends details, so that none have to be made from bare text. */
  #hasDetails = false

  constructor({ id, created, model, provider }: AnswerHeader, shape: ChatShape) {
    const object = shape.object === 'chat.completion' ? 'chat.completion.chunk' : shape.object
    this.#head = JSON.stringify({ id, object, created, model, provider }).slice(0, -1)
    this.#shape = shape
  }

  /** Renders the events of one batch. */
  write(parts: TextPart[]): string {
    let events = ''
    for (const part of parts)
      events +=
        part.type === 'text-delta' && part.logprobs === undefined && !this.#shape.usesText
          ? this.#renderText(part.choice, part.text)
          : this.#render(this.#shape.usesText ? sayInWords(part) : part)
    return events
  }

  #render(part: TextPart): string {
    switch (part.type) {
      case 'start':
        if (part.system_fingerprint !== null)
          this.#fingerprint = `,"system_fingerprint":${JSON.stringify(part.system_fingerprint)}`
        return ''
      case 'text-delta':
        return this.#renderDelta(part.choice, { content: part.text }, part.logprobs)
      case 'refusal-delta':
        return this.#renderDelta(part.choice, { refusal: part.text }, part.logprobs)
      case 'reasoning-delta':
        return this.#renderReasoning(part)
      case 'server-tool-end':
        return this.#shape.hidesReasoning
          ? ''
          : this.#renderDelta(part.choice, { reasoning_details: [toServerToolDetail(part)] })
      case 'tool-call-start':
        return this.#renderToolCall(
          part,
          { ...pickExtraContent(part), id: part.id, type: 'function' },
          { name: part.name, arguments: '' },
        )
      case 'tool-call-delta':
        return this.#renderToolCall(part, {}, { arguments: part.input })
      case 'image':
        return this.#renderDelta(part.choice, {
          images: [{ type: 'image_url', image_url: { url: part.url } }],
        })
      case 'audio-delta':
        return this.#renderDelta(part.choice, { audio: part.audio })
      case 'annotation':
        return part.annotation === null
          ? ''
          : this.#renderDelta(part.choice, { annotations: [renderSource(part.annotation)] })
      case 'finish':
        return this.#renderFinish(part.choice, part.reason, part.native)
      case 'echo':
        return this.#renderEvent(
          `,"choices":[],"debug":${JSON.stringify({ echo_upstream_body: part.body })}`,
        )
      case 'error':
        return this.#renderError(part.error)
      case 'receipt':
        return this.#renderReceipt(part) + DONE
      default:
        return ''
    }
  }

  // Text and entries go in one delta: a client that shows both would show them twice.
  #renderReasoning({
    choice,
    text,
    details,
  }: Extract<TextPart, { type: 'reasoning-delta' }>): string {
    if (this.#shape.hidesReasoning) return ''
    this.#hasDetails ||= details.length > 0
    const reasoning_details = this.#hasDetails ? details : [toReasoningDetail(text)]
    return this.#renderDelta(choice, {
      ...(text ? { reasoning: text } : {}),
      ...(reasoning_details.length > 0 ? { reasoning_details } : {}),
    })
  }

  #renderToolCall(
    { choice, index }: { choice: number; index: number },
    fields: object,
    call: object,
  ): string {
    const tool_calls = [{ index, ...fields, function: call }]
    return this.#renderDelta(
      choice,
      this.#shape.usesFunctions && index === 0
        ? { tool_calls, function_call: call }
        : { tool_calls },
    )
  }

  // Most chunks of most streams, and nothing in them varies but the text.
  #renderText(choice: number, text: string): string {
    const role = this.#begun.has(choice) ? '' : this.#renderRole(choice)
    const delta = `{"content":${JSON.stringify(text)}}`
    const rest = '"finish_reason":null,"native_finish_reason":null,"logprobs":null'
    return `${role}data: ${this.#head}${this.#fingerprint},"choices":[{"index":${choice},"delta":${delta},${rest}}]}\n\n`
  }

  #renderDelta(
    choice: number,
    delta: Record<string, unknown>,
    logprobs: Logprobs | null = null,
  ): string {
    return this.#renderRole(choice) + this.#renderChoice(choice, delta, null, logprobs)
  }

  // Clients expect the role in the first delta of each choice.
  #renderRole(choice: number): string {
    if (this.#begun.has(choice)) return ''
    this.#begun.add(choice)
    if (this.#shape.usesText) return ''
    return this.#renderChoice(choice, { role: 'assistant', content: '' }, null, null)
  }

  #renderFinish(choice: number, reason: string, native: string | null): string {
    this.#finished.add(choice)
    if (native !== null) this.#natives.set(choice, native)
    return this.#renderRole(choice) + this.#renderChoice(choice, {}, reason, null)
  }

  #renderChoice(
    index: number,
    delta: Record<string, unknown>,
    finish_reason: string | null,
    logprobs: Logprobs | null,
  ): string {
    const native_finish_reason = finish_reason === null ? null : (this.#natives.get(index) ?? null)
    const reasons = { finish_reason, native_finish_reason }
    const fields = this.#shape.usesText
      ? {
          index,
          ...reasons,
          ...this.#renderTextFields(index, String(delta.content ?? ''), logprobs),
        }
      : { index, delta, ...reasons, logprobs }
    return this.#renderEvent(`,"choices":[${JSON.stringify(fields)}]`)
  }

  // Tokens stand at places in the whole text.
  #renderTextFields(choice: number, text: string, logprobs: Logprobs | null): Json {
    const offset = this.#lengths.get(choice) ?? 0
    this.#lengths.set(choice, offset + text.length)
    return { text, logprobs: toTextLogprobs(logprobs, offset) }
  }

  #renderError(error: GatewayError): string {
    const content = this.#shape.usesText ? { text: '' } : { delta: { content: '' } }
    const choices = listCutChoices([...this.#begun], this.#finished).map(index => ({
      index,
      ...content,
      finish_reason: 'error',
      native_finish_reason: null,
    }))
    return this.#renderEvent(
      `,"error":${JSON.stringify(renderChatError(error))},"choices":${JSON.stringify(choices)}`,
    )
  }

  #renderReceipt({ receipt, siblingFields }: ReceiptPart): string {
    const fields = JSON.stringify({ usage: renderChatUsage(receipt), ...siblingFields }).slice(
      1,
      -1,
    )
    return this.#renderEvent(`,"choices":[],${fields}`)
  }

  #renderEvent(rest: string): string {
    return `data: ${this.#head}${this.#fingerprint}${rest}}\n\n`
  }
}

/** Streams the events of an answer. */
export function streamChatEvents(answer: Answer<'text'>, shape: ChatShape): AsyncIterator<string> {
  return writeEvents(answer, new ChatStreamWriter(answer, shape))
}

/** Renders a failure after keep-alive comments: the error, an empty usage, and the end. */
function renderChatFailure(heading: AnswerHeader, error: GatewayError, shape: ChatShape): string {
  return new ChatStreamWriter(heading, shape).write([
    { type: 'error', error },
    {
      type: 'receipt',
      receipt: createFreeReceipt(createTextUsage(0, 0)),
      siblingFields: error.siblingFields,
    },
  ])
}

const ChatPreset = Type.Object({ ...ChatRequest.properties, ...presetCacheFields }, open)
type ChatPreset = Static<typeof ChatPreset>

/** A chat request from which a preset is made. */
const chatPreset: PresetForm<ChatPreset> = {
  name: 'chat',
  path: '/chat/completions',
  operation: {
    id: 'createPresetsChatCompletions',
    summary: 'Create a preset, or its next version, from a chat request',
  },
  body: ChatPreset,
  toPresetDraft,
}

// The system messages before all others are the system prompt.
function toPresetDraft(body: ChatPreset): PresetDraft {
  readStops(body)
  return {
    system_prompt: readSystemPrompt(body.messages ?? []),
    config: pickPresetConfig(modernizeRequest(body)),
  }
}

function readSystemPrompt(messages: ChatMessage[]): string | null {
  const end = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const texts = messages.slice(0, end === -1 ? messages.length : end).map(readText)
  return texts.length === 0 ? null : texts.join('\n\n')
}

const readText = ({ content }: ChatMessage): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).map(part => (part.type === 'text' ? part.text : '')).join('\n\n')

/** Clients of the public service look for this comment, word for word (wire reference C.6). */
const KEEP_ALIVE = ': OPENROUTER PROCESSING\n\n'

type Chat = Dialect<'text', ChatRequest>

/** The chat API (specification E9, wire reference C). */
export const chat: Chat = {
  ...buildSharedMembers('chat.completion'),
  name: 'chat',
  path: '/chat/completions',
  operation: {
    id: 'sendChatCompletionRequest',
    tag: 'Chat',
    summary: 'Answer a conversation, whole or streamed',
  },
  body: ChatRequest,
  preset: chatPreset,
}

/** Text completions, under their path from before the chat API. */
export const completions: Chat = {
  ...buildSharedMembers('text_completion'),
  name: 'completions',
  path: '/completions',
  operation: {
    id: 'sendCompletionRequest',
    tag: 'Chat',
    summary: 'Continue a text, whole or streamed',
  },
  body: CompletionRequest,
}

type SharedMembers = Omit<Chat, 'name' | 'path' | 'operation' | 'body' | 'preset'>

function buildSharedMembers(object: ChatShape['object']): SharedMembers {
  const toShape = (call: TextCall, body: ChatRequest) => readChatShape(object, call, body)
  return {
    kind: 'text',
    showsRouting: true,
    toCall: withPresets(toChatCall),
    collectResponse: createCollector(object),
    streaming: {
      renderKeepAlive: () => KEEP_ALIVE,
      streamEvents: (answer, call, body) => streamChatEvents(answer, toShape(call, body)),
      renderFailure: (heading, error, call, body) =>
        renderChatFailure(heading, error, toShape(call, body)),
    },
  }
}
