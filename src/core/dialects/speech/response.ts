import type { Answer } from '../../language/answer.ts'
import { SPEECH_FORMATS, type SpeechCall } from '../../language/speech.ts'
import type { AnswerPart } from '../../language/work.ts'
import { RawBody } from '../raw-body.ts'

/**
 * Opens the sound of an answer: its bytes follow as they arrive. Throws the error of an answer that
 * failed before any.
 */
export async function collectSpeech(
  { parts }: Answer<'speech'>,
  { params }: SpeechCall,
): Promise<RawBody> {
  const bytes = new SoundBytes(parts)
  await bytes.open()
  return new RawBody(SPEECH_FORMATS[params.response_format], bytes)
}

/** The bytes of a sound. An answer that breaks off throws its error. */
class SoundBytes implements AsyncIterator<Uint8Array> {
  readonly #parts: Answer<'speech'>['parts']
  /** What a batch brought beside the bytes that were taken. */
  #waiting: AnswerPart<'speech'>[] = []

  constructor(parts: Answer<'speech'>['parts']) {
    this.#parts = parts
  }

  /** Waits for the first bytes, or for the end. */
  async open(): Promise<void> {
    const first = await this.next()
    if (!first.done) this.#waiting.unshift({ type: 'sound', bytes: first.value })
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    for (;;) {
      for (let part = this.#waiting.shift(); part; part = this.#waiting.shift()) {
        if (part.type === 'error') throw part.error
        if (part.type === 'sound') return { done: false, value: part.bytes }
      }
      const step = await this.#parts.next()
      if (step.done) return { done: true, value: undefined }
      this.#waiting.push(...step.value)
    }
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    await this.#parts.return?.()
    return { done: true, value: undefined }
  }
}
