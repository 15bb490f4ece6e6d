/** A value as a column keeps it. SQL has neither booleans nor lists: they are 0 and 1, and JSON. */
export const columnOf = (value: unknown) =>
  typeof value === 'boolean'
    ? Number(value)
    : Array.isArray(value)
      ? JSON.stringify(value)
      : (value as string | number | bigint | null)

/** A record, or what changes of it, as the columns of a row. */
export const columnsOf = <Row>(record: object) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, columnOf(value)])) as Row

/** A list out of its column. */
export const listOf = <Item = string>(text: string | null): Item[] | null =>
  text === null ? null : JSON.parse(text)
