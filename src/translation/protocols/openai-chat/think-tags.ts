const OPEN = '<think>'
const CLOSE = '</think>'

/** A piece of text, and whether it is thinking or answer. */
export interface TextPiece {
  isThinking: boolean
  text: string
}

/**
 * Separates thinking from text for servers that put it between `<think>` and `</think>` at the
 * beginning of an answer, however the tags are split across chunks. Holds back what could still
 * become a tag, never more than a tag's length.
 */
export class ThinkTags {
  #state: 'begin' | 'opened' | 'thinking' | 'closed' | 'text' = 'begin'
  #held = ''

  /** Returns the pieces that this text completes. */
  read(text: string): TextPiece[] {
    if (this.#state === 'text') return toPieces(false, text)
    this.#held += text
    const pieces: TextPiece[] = []
    while (this.#step(pieces));
    return pieces
  }

  /** Returns what was held back. No more tags can come. */
  end(): TextPiece[] {
    const pieces = toPieces(this.#state === 'thinking', this.#held)
    this.#held = ''
    return pieces
  }

  /** Makes one state transition. Returns false when more text is needed. */
  #step(pieces: TextPiece[]): boolean {
    switch (this.#state) {
      case 'begin':
        return this.#readBeginning()
      case 'opened':
        return this.#skipSpace('thinking')
      case 'thinking':
        return this.#readThinking(pieces)
      case 'closed':
        return this.#skipSpace('text')
      case 'text':
        pieces.push(...toPieces(false, this.#held))
        this.#held = ''
        return false
    }
  }

  #readBeginning(): boolean {
    const start = this.#held.trimStart()
    if (start.startsWith(OPEN)) {
      this.#state = 'opened'
      this.#held = start.slice(OPEN.length)
      return true
    }
    if (OPEN.startsWith(start)) return false
    this.#state = 'text'
    return true
  }

  #readThinking(pieces: TextPiece[]): boolean {
    const end = this.#held.indexOf(CLOSE)
    const sure = end === -1 ? this.#held.length - countTagPrefix(this.#held) : end
    pieces.push(...toPieces(true, this.#held.slice(0, sure)))
    this.#held = this.#held.slice(end === -1 ? sure : end + CLOSE.length)
    if (end !== -1) this.#state = 'closed'
    return end !== -1
  }

  // The line breaks beside a tag belong to neither the thinking nor the answer.
  #skipSpace(next: 'thinking' | 'text'): boolean {
    this.#held = this.#held.trimStart()
    if (this.#held === '') return false
    this.#state = next
    return true
  }
}

/** Counts how many of the last characters could begin the closing tag. */
function countTagPrefix(text: string): number {
  for (let length = Math.min(CLOSE.length - 1, text.length); length > 0; length--)
    if (CLOSE.startsWith(text.slice(-length))) return length
  return 0
}

const toPieces = (isThinking: boolean, text: string): TextPiece[] =>
  text === '' ? [] : [{ isThinking, text }]
