import type { Answer } from '../language/answer.ts'
import type { AnswerPart, Kind } from '../language/work.ts'

/** Writes the events of an answer, batch by batch. Returning early also ends the answer early. */
export function writeEvents<K extends Kind>(
  { parts }: Answer<K>,
  write: (batch: AnswerPart<K>[]) => string | Promise<string>,
): AsyncIterator<string> {
  return {
    async next() {
      const step = await parts.next()
      if (step.done) return { done: true, value: undefined }
      const text = write(step.value)
      // Most texts are ready at once: awaiting each would cost a turn of the event loop.
      return { done: false, value: typeof text === 'string' ? text : await text }
    },
    async return() {
      await parts.return?.()
      return { done: true, value: undefined }
    },
  }
}
