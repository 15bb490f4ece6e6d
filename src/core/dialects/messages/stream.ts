import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { ReceiptPart, TextPart } from '../../language/part.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import { promptEstimate } from '../../tokenizers/prompt.ts'
import { ruleOfThumb } from '../../tokenizers/rule-of-thumb.ts'
import type { Heading } from '../dialect.ts'
import { writeEvents } from '../events.ts'
import { Content } from './content.ts'
import { messagesError } from './error.ts'
import { besidesOf, endedInError, endingOf } from './finish.ts'
import type { Step } from './lanes.ts'
import { costsOf, countsOf, messageUsage } from './usage.ts'

/** The event that keeps a waiting stream alive. */
export const PING = event({ type: 'ping' })

/**
 * Turns the parts of an answer into Anthropic's events (wire reference M): one `message_start`, the
 * content blocks in turn, `message_delta` with the stop reason and the final usage,
 * `message_stop`. A failure is an `error` event, and the last event.
 */
class MessagesStream {
  readonly #call: TextCall
  readonly #answer: Heading
  readonly #content: Content
  #failed = false
  #tier: string | null = null
  #finish: Extract<TextPart, { type: 'finish' }> | null = null

  constructor(answer: Heading, call: TextCall) {
    this.#answer = answer
    this.#call = call
    this.#content = new Content(call.params.reasoning?.exclude ?? false)
  }

  /** Renders the events of one batch. */
  write(parts: TextPart[]): string {
    return parts.map(part => this.#render(part)).join('')
  }

  /** Renders the start of the message and the events of the first batch. */
  async begin(parts: TextPart[]): Promise<string> {
    return (await this.#renderStart(parts)) + this.write(parts)
  }

  // Clients read the size of the prompt here: the provider's count if it is already known, or an
  // estimate.
  async #renderStart(parts: TextPart[]): Promise<string> {
    for (const part of parts) if (part.type === 'start') this.#tier = part.service_tier
    const counted = parts.find(part => part.type === 'usage')
    const usage = counted ? counted.usage : await expectedUsage(this.#call)
    const { id, model, provider } = this.#answer
    const ending = endingOf(null, this.#content)
    const message = {
      id,
      type: 'message',
      role: 'assistant',
      model,
      provider,
      content: [],
      ...ending,
      usage: messageUsage(usage, 0, this.#tier),
    }
    return event({ type: 'message_start', message })
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
        return events(this.#content.read(part))
    }
  }

  #renderEnd({ receipt, besides }: ReceiptPart): string {
    if (this.#failed) return ''
    const rest = events(this.#content.end())
    if (this.#finish?.reason === 'error') return rest + this.#renderError(endedInError(besides))
    const usage = { ...countsOf(receipt.usage, this.#content.webFetches), ...costsOf(receipt) }
    const delta = endingOf(this.#finish, this.#content)
    return (
      rest +
      event({ type: 'message_delta', delta, usage, ...besidesOf(this.#finish) }) +
      event({ type: 'message_stop', ...besides })
    )
  }

  #renderError(error: GatewayError): string {
    this.#failed = true
    return event(messagesError(error, this.#answer.id))
  }
}

async function expectedUsage(call: TextCall): Promise<Usage> {
  const { text, audio, video } = await promptEstimate(call, async texts => ruleOfThumb(texts))
  return textUsage(text + audio + video, 0)
}

function event<Data extends { type: string }>(data: Data): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

const events = (steps: Step[]): string => {
  let text = ''
  for (const step of steps) text += event(step)
  return text
}

/** Streams the events of an answer. The first batch determines how the message begins. */
export function messagesEvents(answer: Answer<'text'>, call: TextCall): AsyncIterator<string> {
  const stream = new MessagesStream(answer, call)
  let hasBegun = false
  return writeEvents(answer, parts => {
    if (hasBegun) return stream.write(parts)
    hasBegun = true
    return stream.begin(parts)
  })
}

/** Renders the event of a call that failed after its stream had begun with pings. */
export const messagesFailure = (error: GatewayError, id: string): string =>
  event(messagesError(error, id))
