import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { createFreeReceipt, createTextUsage } from '../../language/usage.ts'
import type { AnswerHeader } from '../dialect.ts'
import { writeEvents } from '../events.ts'
import type { ItemEvent } from './events.ts'
import { ResponseBuilder } from './response.ts'
import type { ResponsesRequest } from './schema.ts'

const DONE = 'data: [DONE]\n\n'

/**
 * Turns the parts of an answer into the events of a response (wire reference D.5): `created` and
 * `in_progress`, the events of its items, one of `completed`, `incomplete` and `failed`, `[DONE]`.
 * All are numbered from zero without a gap.
 */
class ResponseStreamWriter {
  readonly #response: ResponseBuilder
  #number = 0

  constructor(answer: AnswerHeader, call: TextCall, body: ResponsesRequest) {
    this.#response = new ResponseBuilder(answer, call, body)
  }

  /** Renders the events of one batch. */
  write(parts: TextPart[]): string {
    let text = ''
    for (const part of parts) text += this.#render(part)
    return text
  }

  /** Renders the beginning of the response and the events of the first batch. */
  begin(parts: TextPart[]): string {
    for (const part of parts) if (part.type === 'start') this.#response.read(part)
    const response = this.#response.render()
    return (
      this.#renderEvent({ type: 'response.created', response }) +
      this.#renderEvent({ type: 'response.in_progress', response }) +
      this.write(parts)
    )
  }

  #render(part: TextPart): string {
    if (part.type === 'echo')
      return this.#renderEvent({
        type: 'response.debug',
        debug: { echo_upstream_body: part.body },
      })
    let text = ''
    for (const event of this.#response.read(part)) text += this.#renderEvent(event)
    return part.type === 'receipt' ? text + this.#renderEnd() : text
  }

  #renderEnd(): string {
    const { status } = this.#response
    const response = this.#response.render()
    return this.#renderEvent({ type: `response.${status}`, response }) + DONE
  }

  // Events are ours alone, so their number is added in place.
  #renderEvent(event: ItemEvent): string {
    event.sequence_number = this.#number++
    return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
  }
}

/** Streams the events of an answer. The first batch tells the service tier. */
export function streamResponseEvents(
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): AsyncIterator<string> {
  const stream = new ResponseStreamWriter(answer, call, body)
  let hasBegun = false
  return writeEvents(answer, parts => {
    if (hasBegun) return stream.write(parts)
    hasBegun = true
    return stream.begin(parts)
  })
}

/** Renders a failure after keep-alive comments: a response that begins and fails. */
export function renderResponseFailure(
  heading: AnswerHeader,
  error: GatewayError,
  call: TextCall,
  body: ResponsesRequest,
): string {
  return new ResponseStreamWriter(heading, call, body).begin([
    { type: 'error', error },
    {
      type: 'receipt',
      receipt: createFreeReceipt(createTextUsage(0, 0)),
      siblingFields: error.siblingFields,
    },
  ])
}
