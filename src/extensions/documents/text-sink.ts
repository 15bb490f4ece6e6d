/** The most characters of a document's text: about a million tokens. */
export const LONGEST_TEXT = 4 * 1024 * 1024

// biome-ignore lint/suspicious/noControlCharactersInRegex: signs without a glyph or a meaning.
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g

/** Pieces are joined when there are so many: a piece by itself keeps all that it was cut from. */
const MOST_PIECES = 4_096

/** Gathers the text of a document, and stops at the bound. */
export class TextSink {
  readonly #limit: number
  readonly #texts: string[] = []
  #pieces: string[] = []
  #length = 0
  /** Whether more came than there was room for. */
  isCut = false
  /** How many pages the document has; null if it has none. */
  pages: number | null = null

  constructor(limit = LONGEST_TEXT) {
    this.#limit = limit
  }

  /** Adds a piece. Returns false once there is no room for more. */
  add(piece: string): boolean {
    const room = this.#limit - this.#length
    if (piece.length > room) this.isCut = true
    if (room <= 0) return false
    if (this.#pieces.push(piece.length > room ? piece.slice(0, room) : piece) === MOST_PIECES)
      this.#join()
    this.#length += Math.min(piece.length, room)
    return !this.isCut
  }

  /** Returns what was gathered, without empty lines in a row. */
  toText(): string {
    this.#join()
    const lines = this.#texts.join('').replace(CONTROLS, '').split('\n')
    const trimmed = lines.map(line => line.trimEnd().replaceAll(' \t', '\t'))
    return trimmed
      .filter((line, i) => line !== '' || trimmed[i - 1] !== '')
      .join('\n')
      .trim()
  }

  #join(): void {
    this.#texts.push(this.#pieces.join(''))
    this.#pieces = []
  }
}
