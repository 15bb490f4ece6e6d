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
  const shown = rows.map(gatherRates)
  const isRated = shown.some(row => 'rates' in row)
  const names = [...Object.entries(first), ...(isRated ? [['rates', '']] : [])]
    .filter(
      ([name = '', value]) => !RATES.has(name) && (typeof value !== 'object' || value === null),
    )
    .map(([name = '']) => name)
    .sort((a, b) => rankField(a) - rankField(b))
    .slice(0, MOST_COLUMNS)
  const columns = names.map(
    (name, rank): Column<object> => ({
      title: name.toUpperCase(),
      width: name === 'rates' ? RATES_WIDTH : Math.max(name.length, 12),
      rank,
      grows: rank < 2,
      cell: row => renderValue((row as Record<string, unknown>)[name]),
    }),
  )
  return renderTable(columns, shown, options)
}

/** Of "6,000 requests/min, 4 at once". */
const RATES_WIDTH = 30

/** How rates are told, by their fields. */
const RATES = new Map([
  ['requests_per_minute', 'requests/min'],
  ['tokens_per_minute', 'tokens/min'],
  ['concurrent_requests', 'at once'],
])

/** Tells the rates among fields in one text; empty without any. */
export function describeRates(fields: object): string {
  const limits = fields as Record<string, unknown>
  return [...RATES]
    .flatMap(([field, unit]) => {
      const limit = limits[field]
      return typeof limit === 'number' ? `${limit.toLocaleString('en')} ${unit}` : []
    })
    .join(', ')
}

/** Adds the rates of a row in one field, if it has any. */
function gatherRates(row: object): object {
  const rates = describeRates(row)
  return rates === '' ? row : { ...row, rates }
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
const STATES = [
  'type',
  'label',
  'status',
  'disabled',
  'enabled',
  'limit_usd',
  'reset_interval',
  'rates',
]

/** Renders every field of one thing. */
export function renderFields(row: object, width: number): Line[] {
  const fields = Object.entries(row)
  const nameWidth = Math.max(0, ...fields.map(([name]) => name.length))
  return fields.map(([name, value]) => [
    { text: name.padEnd(nameWidth + 2), style: 'dim' },
    { text: fit(renderValue(value), Math.max(1, width - nameWidth - 2)), style: 'plain' },
  ])
}
