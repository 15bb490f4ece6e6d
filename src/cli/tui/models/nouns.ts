import { type Column, fit, type Line, renderTable, say } from '../text.ts'

/** How many fields of a row are columns; Enter shows all. */
const MOST_COLUMNS = 8

const renderValue = (value: unknown): string =>
  value === null || value === undefined
    ? '-'
    : typeof value === 'object'
      ? JSON.stringify(value)
      : String(value)

/** Lists the rows that have a text anywhere. */
export const listRows = (rows: object[], filter: string): object[] =>
  filter === ''
    ? rows
    : rows.filter(row => JSON.stringify(row).toLowerCase().includes(filter.toLowerCase()))

/** Renders rows of any noun: a column for each of the first plain fields of the first row. */
export function renderRows(rows: object[], options: { width: number; selected: number }): Line[] {
  const [first] = rows
  if (!first) return [say('None', 'dim')]
  const names = Object.entries(first)
    .filter(([, value]) => typeof value !== 'object' || value === null)
    .map(([name]) => name)
    .sort((a, b) => rankField(a) - rankField(b))
    .slice(0, MOST_COLUMNS)
  const columns = names.map(
    (name, rank): Column<object> => ({
      title: name.toUpperCase(),
      width: Math.max(name.length, 12),
      rank,
      grows: rank < 2,
      cell: row => renderValue((row as Record<string, unknown>)[name]),
    }),
  )
  return renderTable(columns, rows, options)
}

/** What people call a thing goes before what machines call it. */
const rankField = (name: string): number =>
  ['name', 'slug', 'action', 'email', 'interval', 'provider', 'amount'].includes(name)
    ? 0
    : STATES.includes(name)
      ? 1
      : name === 'id' || name.endsWith('_id') || name === 'hash'
        ? 3
        : 2

/** What an operator changes is seen without opening a row. */
const STATES = ['type', 'label', 'status', 'disabled', 'enabled', 'limit_usd', 'reset_interval']

/** Renders every field of one thing. */
export function renderFields(row: object, width: number): Line[] {
  const fields = Object.entries(row)
  const nameWidth = Math.max(0, ...fields.map(([name]) => name.length))
  return fields.map(([name, value]) => [
    { text: name.padEnd(nameWidth + 2), style: 'dim' },
    { text: fit(renderValue(value), Math.max(1, width - nameWidth - 2)), style: 'plain' },
  ])
}
