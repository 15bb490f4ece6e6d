import type { Answer } from '../../language/answer.ts'
import { SPEECH_FORMATS, type SpeechCall } from '../../language/speech.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { AnswerPart } from '../../language/work.ts'
import { renderErrorEvent, renderEvent, writeEvents } from '../events.ts'
import { RawBody } from '../raw-body.ts'
import type { SpeechRequest } from './schema.ts'

/**
 * Opens the sound of an answer: its bytes follow as they arrive. Throws the error of an answer that
 * failed before any.
 */
export async function collectSpeech(
  answer: Answer<'speech'>,
  { params }: SpeechCall,
  { stream_format }: Pick<SpeechRequest, 'stream_format'> = {},
): Promise<RawBody> {
  if (stream_format === 'sse') return new RawBody('text/event-stream', writeSoundEvents(answer))
  const { parts } = answer
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

/**
 * Writes a sound as events, as OpenAI has it: pieces in base64, and the usage at the end. A failure
 * after the first of them is an event too.
 */
function writeSoundEvents(answer: Answer<'speech'>): AsyncIterator<Uint8Array> {
  const encoder = new TextEncoder()
  const events = writeEvents(answer, parts =>
    parts.map(part => writePart(answer.id, part)).join(''),
  )
  return {
    async next() {
      const step = await events.next()
      return step.done ? step : { done: false, value: encoder.encode(step.value) }
    },
    async return() {
      await events.return?.()
      return { done: true, value: undefined }
    },
  }
}

function writePart(id: string, part: AnswerPart<'speech'>): string {
  switch (part.type) {
    case 'sound':
      return renderEvent({
        type: 'speech.audio.delta',
        audio: Buffer.from(part.bytes).toString('base64'),
      })
    case 'error':
      return renderErrorEvent(id, part.error)
    case 'receipt':
      return renderEvent({ type: 'speech.audio.done', usage: renderUsage(part.receipt) })
    default:
      return ''
  }
}

function renderUsage({ usage }: Receipt) {
  const [input_tokens, output_tokens] = [countInputTokens(usage), countOutputTokens(usage)]
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
}
