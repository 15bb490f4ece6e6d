/** Converts a value to its column's type. Booleans become 0 and 1, lists become JSON. */
const toColumn = (value: unknown) =>
  typeof value === 'boolean'
    ? Number(value)
    : Array.isArray(value)
      ? JSON.stringify(value)
      : (value as string | number | bigint | null)

/** Converts a record, or its changed fields, to the columns of a row. */
export const toColumns = <Row>(record: object) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, toColumn(value)])) as Row

/** Parses a list from its column. */
export const parseList = <Item = string>(text: string | null): Item[] | null =>
  text === null ? null : JSON.parse(text)
