/** Keeps the beginning of what a command prints, as text. */
export class OutputText {
  readonly #most: number
  readonly #decoder = new TextDecoder()
  #text = ''
  /** How many bytes came, also of what is dropped. */
  bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  push(bytes: Uint8Array): void {
    this.bytes += bytes.length
    if (this.#text.length < this.#most) this.#text += this.#decoder.decode(bytes, { stream: true })
  }

  /** Returns the text, at most as long as allowed and in whole characters. */
  finish(): string {
    if (this.#text.length < this.#most) this.#text += this.#decoder.decode()
    return cutText(this.#text, this.#most)
  }
}

/** Cuts a text to so many characters, never in the middle of one. */
export const cutText = (text: string, most: number): string =>
  text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, '')
