/** How deep JSON may be nested. */
export const DEEPEST = 512

/** The text is nested deeper. */
export class TooDeepError extends Error {}

/** At most this many pieces are looked at: prose may have brackets of its own. */
const MOST_SLICES = 16

/**
 * Lists the pieces of a text that may be JSON, in the order in which they begin: each starts with a
 * bracket and reaches to the one that closes it, or to the end. The whole text is among them if it
 * starts with a bracket. Takes time linear in the length of the text. Throws `TooDeepError`.
 */
export function listSlices(text: string): string[] {
  const slices: string[] = []
  let at = 0
  while (slices.length < MOST_SLICES) {
    const start = findOpening(text, at)
    if (start === -1) break
    const end = findClosing(text, start)
    slices.push(text.slice(start, end))
    at = end
  }
  return slices
}

function findOpening(text: string, from: number): number {
  for (let i = from; i < text.length; i++) if (text[i] === '{' || text[i] === '[') return i
  return -1
}

/** Finds the end of what begins at `start`: behind the closing bracket, or the end of the text. */
function findClosing(text: string, start: number): number {
  let depth = 0
  let isQuoted = false
  for (let i = start; i < text.length; i++) {
    const character = text[i]
    if (isQuoted) {
      if (character === '\\') i += 1
      else if (character === '"') isQuoted = false
    } else if (character === '"') isQuoted = true
    else if (character === '{' || character === '[') {
      depth += 1
      if (depth > DEEPEST) throw new TooDeepError()
    } else if (character === '}' || character === ']') {
      depth -= 1
      if (depth === 0) return i + 1
    }
  }
  return cutFence(text, start)
}

/** Finds where the fence of a block of code ends that was opened before; else the text's end. */
function cutFence(text: string, start: number): number {
  if (!text.slice(0, start).includes('```')) return text.length
  const fence = text.indexOf('```', start)
  return fence === -1 ? text.length : fence
}
