import { invalid } from '../base/errors.ts'
import { isObject, type Json } from '../base/json.ts'
import { toPrintable, toPrintableJson } from '../base/printable.ts'

/**
 * Renders the fields of an answer that are named, with commas between: a line for each of its rows,
 * with tabs between the fields. A field is one of the answer itself (`key`), else of its data
 * (`name`); a path leads into it (`data_policy.training`, `endpoints.0.tag`). What is null or not
 * there is empty, what is no plain value is JSON. Throws 400 for a field that no row has.
 */
export function renderShape(answer: unknown, fields: string): string[] {
  const names = fields.split(',').map(name => name.trim())
  const whole = isObject(answer) ? answer : {}
  const data = whole.data
  const rows = Array.isArray(data) ? data : [data ?? whole]
  const read = (name: string, row: unknown) =>
    Object.hasOwn(whole, name) && name !== 'data' ? whole[name] : readPath(row, name)
  for (const name of names)
    if (rows.length > 0 && rows.every(row => read(name, row) === undefined))
      throw invalid(
        `--field: expected ${listFields(whole, rows[0])}, found ${name}; the command itself has run`,
      )
  return rows.map(row => names.map(name => renderCell(read(name, row))).join('\t'))
}

/** Renders the named fields of one row of a list, as `renderShape` does, whether it has them or not. */
export const renderRow = (row: object, fields: string): string =>
  readPaths(row, fields).map(renderCell).join('\t')

/** Tells whether an answer is about one thing, and not a list. */
export const isSingle = (answer: unknown): boolean =>
  !(isObject(answer) && Array.isArray(answer.data))

/**
 * Renders the named fields of one thing among others of other kinds, as `renderShape` does. Null
 * where it has none of them.
 */
export function renderSome(row: object, fields: string): string | null {
  const values = readPaths(row, fields)
  return values.every(value => value === undefined) ? null : values.map(renderCell).join('\t')
}

const readPaths = (row: unknown, fields: string): unknown[] =>
  fields.split(',').map(name => readPath(row, name.trim()))

function readPath(row: unknown, path: string): unknown {
  let value = row
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Json)[name]
  }
  return value
}

function listFields(whole: Json, row: unknown): string {
  const names = [...Object.keys(isObject(row) ? row : {}), ...Object.keys(whole)]
  return [...new Set(names)].filter(name => name !== 'data').join(', ')
}

const renderCell = (value: unknown): string =>
  value === null || value === undefined
    ? ''
    : typeof value === 'object'
      ? toPrintableJson(value)
      : toPrintable(String(value))
