import type { GatewayError } from '../../base/errors.ts'
import type { Answer } from '../../language/answer.ts'
import type { AnswerPart, Kind } from '../../language/work.ts'

/** Renders one event whose data is JSON. */
export const renderEvent = (event: object): string => `data: ${JSON.stringify(event)}\n\n`

/** Renders the event of a failure, as the APIs of media have it. */
export const renderErrorEvent = (
  id: string,
  { status, type, message, siblingFields }: GatewayError,
): string =>
  renderEvent({
    type: 'error',
    error: { code: String(status), message, param: null, type },
    id,
    ...siblingFields,
  })

/** Writes the parts of one batch as events. */
interface EventWriter<K extends Kind> {
  write(batch: AnswerPart<K>[]): string | string[] | Promise<string>
}

/**
 * Writes the events of an answer, batch by batch: those of one batch as one text, or as several that
 * go out one after the other. Returning early also ends the answer early.
 */
export function writeEvents<K extends Kind>(
  { parts }: Answer<K>,
  writer: EventWriter<K>,
): AsyncIterator<string> {
  let others: string[] = []
  // Most texts are ready at once: awaiting each would cost a turn of the event loop.
  const writeStep = (
    step: IteratorResult<AnswerPart<K>[]>,
  ): IteratorResult<string> | Promise<IteratorResult<string>> => {
    if (step.done) return { done: true, value: undefined }
    const text = writer.write(step.value)
    if (Array.isArray(text)) {
      others = text
      return { done: false, value: others.shift() ?? '' }
    }
    return typeof text === 'string'
      ? { done: false, value: text }
      : text.then(value => ({ done: false, value }))
  }
  return {
    next() {
      const value = others.shift()
      if (value !== undefined) return Promise.resolve({ done: false, value })
      return parts.next().then(writeStep)
    },
    async return() {
      await parts.return?.()
      return { done: true, value: undefined }
    },
  }
}
