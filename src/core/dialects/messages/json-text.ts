/** Follows the text of one JSON value as it comes, and tells where an object in it ends. Looks at each character once. */
export class JsonText {
  /** What begins here is an object; undefined until something has begun. */
  isObject: boolean | undefined
  /** The object is whole. */
  complete = false
  #depth = 0
  #inText = false
  #escaped = false

  /** Takes the next piece, and gives back what of it belongs to the object: all, but for what comes after its end. */
  read(piece: string): string {
    if (this.complete) return ''
    for (let i = 0; i < piece.length; i++) {
      this.#see(piece.charCodeAt(i))
      if (this.complete) return piece.slice(0, i + 1)
    }
    return piece
  }

  #see(character: number): void {
    if (this.#inText) this.#seeInText(character)
    else if (character === QUOTE) this.#inText = true
    else if (character === OPEN_BRACE || character === OPEN_BRACKET) this.#depth += 1
    else if (character === CLOSE_BRACE || character === CLOSE_BRACKET) this.#close()
    if (character > SPACE) this.isObject ??= character === OPEN_BRACE
  }

  #seeInText(character: number): void {
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
