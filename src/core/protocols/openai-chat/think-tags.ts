const OPEN = '<think>'
const CLOSE = '</think>'

/** A piece of text, and whether it is thinking or answer. */
export interface Piece {
  thought: boolean
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
  read(text: string): Piece[] {
    if (this.#state === 'text') return said(false, text)
    this.#held += text
    const pieces: Piece[] = []
    while (this.#step(pieces));
    return pieces
  }

  /** Returns what was held back. No more tags can come. */
  end(): Piece[] {
    const rest = said(this.#state === 'thinking', this.#held)
    this.#held = ''
    return rest
  }

  /** Makes one state transition. Returns false when more text is needed. */
  #step(pieces: Piece[]): boolean {
    switch (this.#state) {
      case 'begin':
        return this.#begin()
      case 'opened':
        return this.#skipSpace('thinking')
      case 'thinking':
        return this.#think(pieces)
      case 'closed':
        return this.#skipSpace('text')
      case 'text':
        pieces.push(...said(false, this.#held))
        this.#held = ''
        return false
    }
  }

  #begin(): boolean {
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

  #think(pieces: Piece[]): boolean {
    const end = this.#held.indexOf(CLOSE)
    const sure = end === -1 ? this.#held.length - tailOf(this.#held) : end
    pieces.push(...said(true, this.#held.slice(0, sure)))
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
function tailOf(text: string): number {
  for (let length = Math.min(CLOSE.length - 1, text.length); length > 0; length--)
    if (CLOSE.startsWith(text.slice(-length))) return length
  return 0
}

const said = (thought: boolean, text: string): Piece[] => (text === '' ? [] : [{ thought, text }])
