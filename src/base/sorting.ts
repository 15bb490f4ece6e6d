/** Compares texts by their code units, independent of the locale. */
export const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/** A stored record with its time of creation. */
interface StoredRecord {
  id: string
  created_at: string
}

/** Orders by creation, the oldest first. Ids break ties, so that pages never overlap. */
export const compareOldestFirst = (a: StoredRecord, b: StoredRecord): number =>
  compareTexts(a.created_at, b.created_at) || compareTexts(a.id, b.id)

/** Orders by a time, the newest first. Names break ties, so that pages never overlap. */
export const compareNewestFirst =
  <Time extends string, Name extends string>(time: Time, name: Name) =>
  (a: Record<Time | Name, string>, b: Record<Time | Name, string>): number =>
    compareTexts(b[time], a[time]) || compareTexts(a[name], b[name])

/** More items than these are cheaper to sort with all others. */
const FEW = 1_000

/**
 * Returns the first items of a list in order: so many, without sorting the rest. Fastest where the
 * first ones stand near the beginning.
 */
export function pickFirst<Item>(
  items: readonly Item[],
  count: number,
  compare: (a: Item, b: Item) => number,
): Item[] {
  if (count > FEW || items.length <= count) return items.toSorted(compare).slice(0, count)
  const first = items.slice(0, count).sort(compare)
  let last = first.at(-1)
  for (let at = count; at < items.length && last !== undefined; at++) {
    const item = items[at] as Item
    if (compare(item, last) >= 0) continue
    first.pop()
    first.splice(findPlace(first, item, compare), 0, item)
    last = first.at(-1)
  }
  return first
}

/** Finds where an item belongs in a sorted list: after those that are equal. */
export function findPlace<Item>(
  sorted: readonly Item[],
  item: Item,
  compare: (a: Item, b: Item) => number,
): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (compare(sorted[middle] as Item, item) <= 0) low = middle + 1
    else high = middle
  }
  return low
}
