/** Other words are compared with none: the distance takes time by both lengths. */
const SHORTEST = 3
const LONGEST = 100

/**
 * Finds the known word that a misspelt one most likely means: at most one edit in three characters
 * away, where an edit adds, drops, replaces or swaps one. Case does not count. Undefined where none
 * is that near. Takes time linear in the number of words.
 */
export function findNearest(word: string, known: Iterable<string>): string | undefined {
  if (word.length < SHORTEST || word.length > LONGEST) return undefined
  const wanted = word.toLowerCase()
  const most = Math.floor(wanted.length / 3)
  let nearest: { word: string; distance: number } | undefined
  for (const candidate of known) {
    if (Math.abs(candidate.length - wanted.length) > most) continue
    const distance = countEdits(wanted, candidate.toLowerCase())
    if (distance <= most && distance < (nearest?.distance ?? Number.POSITIVE_INFINITY))
      nearest = { word: candidate, distance }
  }
  return nearest?.word
}

/** Counts the edits between two words: Damerau's and Levenshtein's distance, without overlaps. */
function countEdits(a: string, b: string): number {
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
    beforePrevious = previous
    previous = current
  }
  return previous[b.length] ?? 0
}
