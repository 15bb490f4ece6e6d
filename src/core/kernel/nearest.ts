/** Longer names are compared with nothing: anyone may send one. */
const LONGEST_NAME = 100

/**
 * Finds the names that the given one may be a misspelling of, the nearest first: at most three, and
 * none for a name that is far from all. Case does not count. Takes time in proportion to the number
 * of names, whatever the given one is.
 */
export function findNearest(given: string, names: Iterable<string>): string[] {
  if (given.length > LONGEST_NAME) return []
  const wanted = given.toLowerCase()
  const most = Math.ceil(wanted.length / 5)
  const found: { name: string; distance: number }[] = []
  for (const name of names) {
    const distance = measureDistance(wanted, name.toLowerCase(), most)
    if (distance <= most) found.push({ name, distance })
  }
  return found
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ name }) => name)
}

/**
 * Measures how many letters have to be added, left out or replaced to make one word of the other
 * (Levenshtein's distance). Anything above `most` is only known to be above it.
 */
export function measureDistance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + Number(a[i - 1] !== b[j - 1])
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    if (Math.min(...next) > most) return most + 1
    row = next
  }
  return row[b.length] ?? 0
}
