/** The operations on a text that matching needs, so that tests can count them. */
export type Characters = Pick<string, 'length' | 'startsWith' | 'endsWith' | 'indexOf'>

/** A pattern in which `*` matches anything, split at its stars. */
export interface SlugPattern {
  head: string
  /** The pieces that must come between head and tail, in this order. */
  middle: string[]
  /** Undefined if there is no star: then the head is the whole pattern. */
  tail: string | undefined
  /** The number of characters without the stars. */
  minLength: number
}

/** Splits a pattern at its stars. */
export function parsePattern(text: string): SlugPattern {
  const [head = '', ...rest] = text.split('*')
  const tail = rest.pop()
  const middle = rest.filter(piece => piece !== '')
  return {
    head,
    middle,
    tail,
    minLength: middle.reduce((sum, piece) => sum + piece.length, head.length + (tail?.length ?? 0)),
  }
}

/**
 * Tells whether a text matches a pattern. Each piece is searched for once, from the end of the one
 * before: the first match leaves the most room for the rest. A text that is shorter than the
 * pattern's own characters is not searched, however many stars there are.
 */
export function matchesPattern(
  text: Characters,
  { head, middle, tail, minLength }: SlugPattern,
): boolean {
  if (text.length < minLength || !text.startsWith(head)) return false
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
