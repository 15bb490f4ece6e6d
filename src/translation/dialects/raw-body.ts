/** The body of a response that is not JSON. */
export class RawBody {
  readonly media_type: string
  /** A text, or bytes as they arrive: an early `return` ends the answer early too. */
  readonly content: string | AsyncIterator<Uint8Array>

  constructor(media_type: string, content: string | AsyncIterator<Uint8Array>) {
    this.media_type = media_type
    this.content = content
  }
}
