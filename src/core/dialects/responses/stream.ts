import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { createFreeReceipt, createTextUsage } from '../../language/usage.ts'
import type { AnswerHeader, BegunStream } from '../dialect.ts'
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
 * All are numbered from zero without a gap. While the client waits, `in_progress` is said again: the
 * clocks of some clients do not hear comments, and no client stumbles over an event that it knows.
 */
export class ResponseStream implements BegunStream<'text'> {
  readonly #response: ResponseBuilder
  #number = 0
  #hasBegun = false

  constructor(heading: AnswerHeader, call: TextCall, body: ResponsesRequest) {
    this.#response = new ResponseBuilder(heading, call, body)
  }

  renderKeepAlive(): string {
    if (!this.#hasBegun) return this.#begin([])
    const response = { ...this.#response.render(), output: [], output_text: '' }
    return this.#renderEvent({ type: 'response.in_progress', response })
  }

  streamEvents(answer: Answer<'text'>): AsyncIterator<string> {
    if (this.#hasBegun) this.#response.takeHeading(answer)
    return writeEvents(answer, parts => this.#write(parts))
  }

  renderFailure(error: GatewayError): string {
    const receipt = createFreeReceipt(createTextUsage(0, 0))
    const events = this.#write([
      { type: 'error', error },
      { type: 'receipt', receipt, siblingFields: error.siblingFields },
    ])
    return [events].flat().join('')
  }

  /**
   * Renders the events of one batch: as one text, or one by one where they are long. The first batch
   * tells the service tier.
   */
  #write(parts: TextPart[]): string | string[] {
    const begun = this.#hasBegun ? [] : [this.#begin(parts)]
    const events = [...begun, ...parts.flatMap(part => this.#render(part))]
    return events.some(event => event.length > LONG_EVENT) ? events : events.join('')
  }

  #begin(parts: TextPart[]): string {
    this.#hasBegun = true
    for (const part of parts) if (part.type === 'start') this.#response.read(part)
    const response = this.#response.render()
    return (
      this.#renderEvent({ type: 'response.created', response }) +
      this.#renderEvent({ type: 'response.in_progress', response })
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

/** Streams the events of an answer. */
export const streamResponseEvents = (
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): AsyncIterator<string> => new ResponseStream(answer, call, body).streamEvents(answer)

/** Renders a failure in place of an answer: a response that begins and fails. */
export const renderResponseFailure = (
  heading: AnswerHeader,
  error: GatewayError,
  call: TextCall,
  body: ResponsesRequest,
): string => new ResponseStream(heading, call, body).renderFailure(error)
