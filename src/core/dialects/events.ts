import type { Answer } from '../language/answer.ts'
import type { AnswerPart, Kind } from '../language/work.ts'

/** Writes the events of an answer, batch by batch. Returning early also ends the answer early. */
export function writeEvents<K extends Kind>(
  { parts }: Answer<K>,
  write: (batch: AnswerPart<K>[]) => string | Promise<string>,
): AsyncIterator<string> {
  // Most texts are ready at once: awaiting each would cost a turn of the event loop.
  const writeStep = (
    step: IteratorResult<AnswerPart<K>[]>,
  ): IteratorResult<string> | Promise<IteratorResult<string>> => {
    if (step.done) return { done: true, value: undefined }
    const text = write(step.value)
    return typeof text === 'string'
      ? { done: false, value: text }
      : text.then(value => ({ done: false, value }))
  }
  return {
    next: () => parts.next().then(writeStep),
    async return() {
      await parts.return?.()
      return { done: true, value: undefined }
    },
  }
}
