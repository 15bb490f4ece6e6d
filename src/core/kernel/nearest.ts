/** Other words are compared with none: anyone may send one, and the work grows with its length. */
const SHORTEST = 3
const LONGEST = 100

/**
 * Finds the known word that a misspelt one most likely means: at most one edit in three characters
 * away, where an edit adds, drops, replaces or swaps one. Case does not count. Undefined where none
 * is that near. Takes time linear in the number of words.
 */
export const findNearest = (word: string, known: Iterable<string>): string | undefined =>
  listNearest(word, known, Math.floor(word.length / 3))[0]

/**
 * Lists the known words that a misspelt one may mean, the nearest first: at most three, none of
 * them more than so many edits away. Takes time linear in the number of words.
 */
export function listNearest(
  word: string,
  known: Iterable<string>,
  most = Math.ceil(word.length / 5),
): string[] {
  if (word.length < SHORTEST || word.length > LONGEST) return []
  const wanted = word.toLowerCase()
  const near: { candidate: string; edits: number }[] = []
  for (const candidate of known) {
    const edits = countEdits(wanted, candidate.toLowerCase(), most)
    if (edits <= most) near.push({ candidate, edits })
  }
  return near
    .sort((a, b) => a.edits - b.edits)
    .slice(0, 3)
    .map(({ candidate }) => candidate)
}

/**
 * Counts the edits between two words: Damerau's and Levenshtein's distance, without overlaps. Of a
 * count above `most` only that is known.
 */
export function countEdits(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1]
      const isSwap = row > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current[column] = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    if (Math.min(...current, ...previous) > most) return most + 1
    beforePrevious = previous
    previous = current
  }
  return previous[b.length] ?? 0
}
