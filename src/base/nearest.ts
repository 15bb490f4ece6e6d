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
  const rows = createRows(word.length + most)
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) > most) continue
    const edits = countEdits(wanted, candidate.toLowerCase(), most, rows)
    if (edits <= most) near.push({ candidate, edits })
  }
  return near
    .sort((a, b) => a.edits - b.edits)
    .slice(0, 3)
    .map(({ candidate }) => candidate)
}

/**
 * Counts the edits between two words: Damerau's and Levenshtein's distance, without overlaps. Of a
 * count above `most` only that is known. Takes time linear in the length times `most`.
 */
export function countEdits(
  a: string,
  b: string,
  most: number,
  rows: Rows = createRows(b.length),
): number {
  const tooMany = most + 1
  if (Math.abs(a.length - b.length) > most) return tooMany
  let [beforePrevious, previous, current] = rows
  for (let column = 0; column <= b.length; column++) previous[column] = column
  for (let row = 1; row <= a.length; row++) {
    if (fillRow(current, { row, a, b, most, beforePrevious, previous }) > most) return tooMany
    ;[beforePrevious, previous, current] = [previous, current, beforePrevious]
  }
  return Math.min(previous[b.length] ?? 0, tooMany)
}

/** Three rows of a table of edits, which its rows take in turn. */
type Rows = [Uint16Array, Uint16Array, Uint16Array]

const createRows = (columns: number): Rows => [
  new Uint16Array(columns + 2),
  new Uint16Array(columns + 2),
  new Uint16Array(columns + 2),
]

/** The rows of a table of edits before one, and the words that it compares. */
interface RowsBefore {
  row: number
  a: string
  b: string
  most: number
  beforePrevious: Uint16Array
  previous: Uint16Array
}

/**
 * Fills in a row of a table of edits: the columns at most so many away, as all others need more
 * edits. Returns the least of this row and the one before, from which a swap may still go on.
 */
function fillRow(current: Uint16Array, rowsBefore: RowsBefore): number {
  const { row, a, b, most, beforePrevious, previous } = rowsBefore
  const [from, to] = [Math.max(1, row - most), Math.min(b.length, row + most)]
  current[from - 1] = from === 1 ? row : most + 1
  let least = current[from - 1] ?? 0
  for (let column = from; column <= to; column++) {
    const isSame = a[row - 1] === b[column - 1]
    const isSwap = row > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
    const above = (previous[column] ?? 0) + 1
    const left = (current[column - 1] ?? 0) + 1
    const across = (previous[column - 1] ?? 0) + (isSame ? 0 : 1)
    const swapped = isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : across
    const edits = Math.min(above, left, across, swapped)
    current[column] = edits
    least = Math.min(least, edits, previous[column] ?? 0)
  }
  current[to + 1] = most + 1
  return least
}
