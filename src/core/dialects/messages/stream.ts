import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { ReceiptPart, TextPart } from '../../language/part.ts'
import { createTextUsage, type Usage } from '../../language/usage.ts'
import { estimatePrompt } from '../../tokenizers/prompt.ts'
import { estimateByRuleOfThumb } from '../../tokenizers/rule-of-thumb.ts'
import type { AnswerHeader } from '../dialect.ts'
import { writeEvents } from '../events.ts'
import type { BlockEvent } from './block-queue.ts'
import { MessageContent } from './content.ts'
import { renderMessagesError } from './error.ts'
import { providerError, readSiblingFields, renderEnding } from './finish.ts'
import { renderCosts, renderCounts, renderMessageUsage } from './usage.ts'

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
  #tier: string | null = null
  #finish: Extract<TextPart, { type: 'finish' }> | null = null

  constructor(answer: AnswerHeader, call: TextCall) {
    this.#answer = answer
    this.#call = call
    this.#content = new MessageContent(call.params.reasoning?.exclude ?? false)
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
): AsyncIterator<string> {
  const stream = new MessagesStreamWriter(answer, call)
  let hasBegun = false
  return writeEvents(answer, parts => {
    if (hasBegun) return stream.write(parts)
    hasBegun = true
    return stream.begin(parts)
  })
}

/** Renders the event of a call that failed after its stream had begun with pings. */
export const renderMessagesFailure = (error: GatewayError, id: string): string =>
  renderEvent(renderMessagesError(error, id))
