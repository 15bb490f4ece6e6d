/**
 * Scans the text of one JSON value as it streams, and finds where the object in it ends. It reads
 * each character once.
 */
export class JsonTextScanner {
  /** Whether the value is an object; undefined until it has begun. */
  isObject: boolean | undefined
  /** Whether the object is complete. */
  complete = false
  #depth = 0
  #inText = false
  #escaped = false

  /** Reads the next piece, and returns it without whatever follows the end of the object. */
  read(piece: string): string {
    if (this.complete) return ''
    for (let i = 0; i < piece.length; i++) {
      this.#readCharacter(piece.charCodeAt(i))
      if (this.complete) return piece.slice(0, i + 1)
    }
    return piece
  }

  #readCharacter(character: number): void {
    if (this.#inText) this.#readCharacterInText(character)
    else if (character === QUOTE) this.#inText = true
    else if (character === OPEN_BRACE || character === OPEN_BRACKET) this.#depth += 1
    else if (character === CLOSE_BRACE || character === CLOSE_BRACKET) this.#close()
    if (character > SPACE) this.isObject ??= character === OPEN_BRACE
  }

  #readCharacterInText(character: number): void {
    if (this.#escaped) this.#escaped = false
    else if (character === BACKSLASH) this.#escaped = true
    else if (character === QUOTE) this.#inText = false
  }

  #close(): void {
    this.#depth -= 1
    if (this.#depth === 0 && this.isObject) this.complete = true
  }
}

const SPACE = 0x20
const QUOTE = 0x22
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
