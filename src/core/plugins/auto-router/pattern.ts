/** What a pattern is held against: a text, as far as it is looked at. */
export type Characters = Pick<string, 'length' | 'startsWith' | 'endsWith' | 'indexOf'>

/** A pattern in which `*` stands for anything, taken apart at its stars. */
export interface Pattern {
  head: string
  /** What must come between, in this order. */
  middle: string[]
  /** Undefined where there is no star: then the head is all. */
  tail: string | undefined
  /** The characters that it has itself. */
  least: number
}

/** Takes a pattern apart. */
export function patternOf(text: string): Pattern {
  const [head = '', ...rest] = text.split('*')
  const tail = rest.pop()
  const middle = rest.filter(piece => piece !== '')
  return {
    head,
    middle,
    tail,
    least: middle.reduce((sum, piece) => sum + piece.length, head.length + (tail?.length ?? 0)),
  }
}

/**
 * Whether a text is like a pattern. Each piece is looked for once, from where the last one ended: what comes first fits as well as what comes
 * later. A text that is shorter than the pattern's own characters is not looked at, however many stars there are.
 */
export function isLike(text: Characters, { head, middle, tail, least }: Pattern): boolean {
  if (text.length < least || !text.startsWith(head)) return false
  if (tail === undefined) return text.length === head.length
  if (!text.endsWith(tail)) return false
  let at = head.length
  for (const piece of middle) {
    const found = text.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return at <= text.length - tail.length
}
