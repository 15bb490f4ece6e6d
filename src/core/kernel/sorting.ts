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
