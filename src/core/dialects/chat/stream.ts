import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { ReceiptPart, TextPart } from '../../language/part.ts'
import { freeReceipt, textUsage } from '../../language/usage.ts'
import type { Heading } from '../dialect.ts'
import { writeEvents } from '../events.ts'
import { chatError, chatUsage, plainDetail, type Shape } from './response.ts'

const DONE = 'data: [DONE]\n\n'

/**
 * Turns the parts of an answer into `chat.completion.chunk` events (wire reference C.6): the role,
 * the pieces, the finish reason, one usage chunk without choices, `[DONE]`. The fields that every
 * chunk repeats are serialized once.
 */
export class ChatStream {
  readonly #head: string
  readonly #shape: Shape
  #fingerprint = ''
  readonly #roles = new Set<number>()
  readonly #natives = new Map<number, string>()
  /** Whether the provider sends details, so that none have to be made from bare text. */
  #detailed = false

  constructor({ id, created, model, provider }: Heading, shape: Shape) {
    const object = shape.object === 'chat.completion' ? 'chat.completion.chunk' : shape.object
    this.#head = JSON.stringify({ id, object, created, model, provider }).slice(0, -1)
    this.#shape = shape
  }

  /** Renders the events of one batch. */
  write(parts: TextPart[]): string {
    return parts.map(part => this.#write(part)).join('')
  }

  #write(part: TextPart): string {
    switch (part.type) {
      case 'start':
        if (part.system_fingerprint !== null)
          this.#fingerprint = `,"system_fingerprint":${JSON.stringify(part.system_fingerprint)}`
        return ''
      case 'text-delta':
        return this.#delta(part.choice, { content: part.text }, part.logprobs)
      case 'refusal-delta':
        return this.#delta(part.choice, { refusal: part.text }, part.logprobs)
      case 'reasoning-delta':
        return this.#reasoning(part)
      case 'tool-call-start':
        return this.#call(
          part,
          { id: part.id, type: 'function' },
          { name: part.name, arguments: '' },
        )
      case 'tool-call-delta':
        return this.#call(part, {}, { arguments: part.input })
      case 'image':
        return this.#delta(part.choice, {
          images: [{ type: 'image_url', image_url: { url: part.url } }],
        })
      case 'audio-delta':
        return this.#delta(part.choice, { audio: part.audio })
      case 'annotation':
        return part.annotation === null
          ? ''
          : this.#delta(part.choice, { annotations: [part.annotation] })
      case 'finish':
        return this.#finish(part.choice, part.reason, part.native)
      case 'echo':
        return this.#event(
          `,"choices":[],"debug":${JSON.stringify({ echo_upstream_body: part.body })}`,
        )
      case 'error':
        return this.#error(part.error)
      case 'receipt':
        return this.#receipt(part) + DONE
      default:
        return ''
    }
  }

  // Text and entries go in one delta: a client that shows both would show them twice.
  #reasoning({ choice, text, details }: Extract<TextPart, { type: 'reasoning-delta' }>): string {
    if (this.#shape.hideReasoning) return ''
    this.#detailed ||= details.length > 0
    const reasoning_details = this.#detailed ? details : [plainDetail(text)]
    return this.#delta(choice, {
      ...(text ? { reasoning: text } : {}),
      ...(reasoning_details.length > 0 ? { reasoning_details } : {}),
    })
  }

  #call(
    { choice, index }: { choice: number; index: number },
    about: object,
    called: object,
  ): string {
    const tool_calls = [{ index, ...about, function: called }]
    return this.#delta(
      choice,
      this.#shape.functions && index === 0 ? { tool_calls, function_call: called } : { tool_calls },
    )
  }

  #delta(choice: number, delta: Record<string, unknown>, logprobs: unknown = null): string {
    return this.#role(choice) + this.#choice(choice, delta, null, logprobs)
  }

  // Clients expect the role in the first delta of each choice.
  #role(choice: number): string {
    if (this.#shape.text || this.#roles.has(choice)) return ''
    this.#roles.add(choice)
    return this.#choice(choice, { role: 'assistant', content: '' }, null, null)
  }

  #finish(choice: number, reason: string, native: string | null): string {
    if (native !== null) this.#natives.set(choice, native)
    return this.#role(choice) + this.#choice(choice, {}, reason, null)
  }

  #choice(
    index: number,
    delta: Record<string, unknown>,
    finish_reason: string | null,
    logprobs: unknown,
  ): string {
    const native_finish_reason = finish_reason === null ? null : (this.#natives.get(index) ?? null)
    const said = this.#shape.text ? { text: delta.content ?? '' } : { delta }
    const fields = { index, ...said, finish_reason, native_finish_reason, logprobs }
    return this.#event(`,"choices":[${JSON.stringify(fields)}]`)
  }

  #error(error: GatewayError): string {
    const said = this.#shape.text ? { text: '' } : { delta: { content: '' } }
    const choices = [{ index: 0, ...said, finish_reason: 'error', native_finish_reason: null }]
    return this.#event(
      `,"error":${JSON.stringify(chatError(error))},"choices":${JSON.stringify(choices)}`,
    )
  }

  #receipt({ receipt, besides }: ReceiptPart): string {
    const fields = JSON.stringify({ usage: chatUsage(receipt), ...besides }).slice(1, -1)
    return this.#event(`,"choices":[],${fields}`)
  }

  #event(rest: string): string {
    return `data: ${this.#head}${this.#fingerprint}${rest}}\n\n`
  }
}

/** Streams the events of an answer. */
export function chatEvents(answer: Answer<'text'>, shape: Shape): AsyncIterator<string> {
  const stream = new ChatStream(answer, shape)
  return writeEvents(answer, parts => stream.write(parts))
}

/** Renders a failure after keep-alive comments: the error, an empty usage, and the end. */
export function chatFailure(heading: Heading, error: GatewayError, shape: Shape): string {
  return new ChatStream(heading, shape).write([
    { type: 'error', error },
    { type: 'receipt', receipt: freeReceipt(textUsage(0, 0)), besides: error.besides },
  ])
}
