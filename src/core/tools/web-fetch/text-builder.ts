/** Builds a text of lines. Spaces and empty lines in a row become one. */
export class TextBuilder {
  readonly #most: number
  readonly #pieces: string[] = []
  #size = 0
  /** How many line ends come before the next text, and whether a space does. */
  #lines = 0
  #hasSpace = false

  constructor(mostCharacters: number) {
    this.#most = mostCharacters
  }

  get isFull(): boolean {
    return this.#size >= this.#most
  }

  /** Adds a text; `isPre` keeps its spaces and lines. */
  add(text: string, isPre: boolean): void {
    if (this.isFull) return
    if (isPre) {
      this.#push(text)
      return
    }
    const words = text.replace(SPACES, ' ')
    if (words === ' ') {
      this.#hasSpace = true
      return
    }
    if (words === '') return
    if (words.startsWith(' ')) this.#hasSpace = true
    this.#push(words.trim())
    this.#hasSpace = words.endsWith(' ')
  }

  /** Adds a mark at the beginning of a line or of a cell. */
  addMark(mark: string): void {
    if (this.isFull) return
    this.#push(mark.trimEnd())
    this.#hasSpace = true
  }

  /** Begins a new line; with 2, after an empty one. */
  break(lines: number): void {
    this.#lines = Math.max(this.#lines, lines)
  }

  toString(): string {
    return this.#pieces.join('').slice(0, this.#most).trim()
  }

  #push(text: string): void {
    const gap =
      this.#pieces.length === 0 ? '' : '\n'.repeat(this.#lines) || (this.#hasSpace ? ' ' : '')
    this.#lines = 0
    this.#hasSpace = false
    this.#pieces.push(gap + text)
    this.#size += gap.length + text.length
  }
}

const SPACES = /[ \t\n\r\f\u00a0]+/g
