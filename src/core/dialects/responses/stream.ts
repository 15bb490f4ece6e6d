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

/** The last events repeat all of a text, several times: long ones are not joined to another. */
const LONG_EVENT = 64 * 1024

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

  /** Renders the events of one batch: as one text, or one by one where they are long. */
  write(parts: TextPart[]): string | string[] {
    const events = parts.flatMap(part => this.#render(part))
    return events.some(event => event.length > LONG_EVENT) ? events : events.join('')
  }

  /** Renders the beginning of the response and the events of the first batch. */
  begin(parts: TextPart[]): string {
    for (const part of parts) if (part.type === 'start') this.#response.read(part)
    const response = this.#response.render()
    return (
      this.#renderEvent({ type: 'response.created', response }) +
      this.#renderEvent({ type: 'response.in_progress', response }) +
      parts.flatMap(part => this.#render(part)).join('')
    )
  }

  #render(part: TextPart): string[] {
    if (part.type === 'echo') {
      const debug = { echo_upstream_body: part.body }
      return [this.#renderEvent({ type: 'response.debug', debug })]
    }
    const events = this.#response.read(part).map(event => this.#renderEvent(event))
    if (part.type === 'receipt') events.push(this.#renderEnd())
    return events
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
