import type { Answer } from '../../language/answer.ts'
import type { ImageCall, ImagePart, Picture } from '../../language/image.ts'
import type { Receipt } from '../../language/usage.ts'
import type { Streaming } from '../dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from '../events.ts'
import { renderImageUsage, renderPicture, renderSize } from './response.ts'

const DONE = 'data: [DONE]\n\n'

/**
 * How pictures stream (wire reference E.2): previews as they are drawn, then each picture, the last
 * one with the usage. Answers of providers that draw without previews are not streamed.
 */
export const imageStreaming: Streaming<'image', unknown> = {
  leavesWholeAnswers: true,
  renderKeepAlive: () => ': keep-alive\n\n',
  streamEvents(answer, call) {
    const writer = new ImageStreamWriter(answer, call)
    return writeEvents(answer, parts => parts.map(part => writer.write(part)).join(''))
  },
  renderFailure: ({ id }, error) => renderErrorEvent(id, error) + DONE,
}

/** Writes the parts of an answer as events. The last picture waits for the usage. */
class ImageStreamWriter {
  readonly #id: string
  readonly #created: number
  readonly #call: ImageCall
  #pending: Picture | null = null

  constructor({ id, created }: Pick<Answer<'image'>, 'id' | 'created'>, call: ImageCall) {
    this.#id = id
    this.#created = created
    this.#call = call
  }

  // OpenAI's clients know the events by what they have asked for.
  get #noun(): string {
    return this.#call.isEdit ? 'image_edit' : 'image_generation'
  }

  write(part: ImagePart): string {
    switch (part.type) {
      case 'preview':
        return renderEvent({
          type: `${this.#noun}.partial_image`,
          b64_json: part.data,
          partial_image_index: part.index,
        })
      case 'picture':
        return this.#hold(part)
      case 'error':
        return this.#renderPending(null) + renderErrorEvent(this.#id, part.error)
      case 'receipt':
        return this.#renderPending(part.receipt) + DONE
      default:
        return ''
    }
  }

  #hold(picture: Picture): string {
    const text = this.#renderPending(null)
    this.#pending = picture
    return text
  }

  #renderPending(receipt: Receipt | null): string {
    const picture = this.#pending
    if (!picture) return ''
    this.#pending = null
    return renderEvent({
      type: `${this.#noun}.completed`,
      ...renderPicture(picture),
      ...renderSize(this.#call, picture),
      created: this.#created,
      ...(receipt ? { usage: renderImageUsage(receipt) } : {}),
    })
  }
}
