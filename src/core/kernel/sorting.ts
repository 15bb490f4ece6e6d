/** Compares texts by their code units, whatever the locale. */
export const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/** What a store keeps with its time. */
interface Created {
  id: string
  created_at: string
}

/** Orders by creation, the oldest first. Ids break ties, so that pages never overlap. */
export const oldestFirst = (a: Created, b: Created): number =>
  compareTexts(a.created_at, b.created_at) || compareTexts(a.id, b.id)

/** Makes the order by a time, the newest first. Names break ties, so that pages never overlap. */
export const newestFirst =
  <Time extends string, Name extends string>(time: Time, name: Name) =>
  (a: Record<Time | Name, string>, b: Record<Time | Name, string>): number =>
    compareTexts(b[time], a[time]) || compareTexts(a[name], b[name])
