import type { Answer } from '../../language/answer.ts'
import {
  type Transcript,
  type TranscriptionCall,
  wantsSpeakers,
} from '../../language/transcription.ts'
import type { AnswerPart } from '../../language/work.ts'
import type { Streaming } from '../dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from '../events.ts'
import { listSegments, renderLogprobs, renderSpoken, renderUsage } from './response.ts'

/**
 * How texts stream as OpenAI has it: pieces as they are heard, and all of it at the end. Of an answer
 * that comes whole, or that filters read, all of it is one piece.
 */
export const transcriptStreaming: Streaming<'transcription', unknown> = {
  renderKeepAlive: () => ': keep-alive\n\n',
  streamEvents(answer, call) {
    const writer = new TranscriptWriter(answer, call)
    return writeEvents(answer, parts => parts.map(part => writer.write(part)).join(''))
  },
  renderFailure: ({ id }, error) => renderErrorEvent(id, error),
}

/** Writes the parts of an answer as events. The end waits for the usage. */
class TranscriptWriter {
  readonly #id: string
  readonly #call: TranscriptionCall
  #hasPieces = false
  #transcript: Transcript | null = null

  constructor({ id }: Pick<Answer<'transcription'>, 'id'>, call: TranscriptionCall) {
    this.#id = id
    this.#call = call
  }

  write(part: AnswerPart<'transcription'>): string {
    switch (part.type) {
      case 'transcript-delta':
        this.#hasPieces = true
        return renderEvent({ type: 'transcript.text.delta', delta: part.text })
      case 'transcript':
        this.#transcript = part
        return this.#writePieces(part)
      case 'error':
        return renderErrorEvent(this.#id, part.error)
      case 'receipt':
        return this.#transcript
          ? renderEvent({
              type: 'transcript.text.done',
              text: this.#transcript.text,
              ...renderLogprobs(this.#transcript, this.#call),
              usage: renderUsage(part.receipt),
            })
          : ''
      default:
        return ''
    }
  }

  #writePieces(transcript: Transcript): string {
    const spoken = wantsSpeakers(this.#call) ? listSegments(transcript).map(renderSpoken) : []
    const pieces = this.#hasPieces
      ? []
      : [{ type: 'transcript.text.delta', delta: transcript.text }]
    return [...spoken, ...pieces].map(renderEvent).join('')
  }
}
