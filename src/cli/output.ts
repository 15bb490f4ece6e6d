import { type ErrorType, GatewayError } from '../base/errors.ts'
import { toPrintable, toPrintableJson } from '../base/printable.ts'
import { describeSystemError } from './system-errors.ts'

/** Exit codes; every other failure is 1. */
const EXIT_CODES: Partial<Record<ErrorType, number>> = {
  invalid_request: 2,
  not_found: 3,
  conflict: 4,
  permission_denied: 5,
  payment_required: 5,
  authentication: 5,
}

/** Prints a failure on stderr, one line for each that it has, and returns the exit code. */
export function printFailure(thrown: unknown): number {
  const exitCode = thrown instanceof GatewayError ? EXIT_CODES[thrown.type] : undefined
  const message =
    describeSystemError(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown))
  for (const line of hasIssues(thrown) ? message.split('\n') : [message])
    process.stderr.write(`gateway: ${toPrintable(line)}\n`)
  return exitCode ?? 1
}

/** Whether each line of the message is about another mistake, in our own words. */
const hasIssues = (thrown: unknown): boolean =>
  thrown instanceof GatewayError && Array.isArray(thrown.metadata.issues)

/** Writes one line to stdout. */
export const print = (line: string): void => void process.stdout.write(`${line}\n`)

/** Writes a text to stdout. Resolves when there is room for more, or when the reader has gone. */
export async function write(text: string): Promise<void> {
  const { stdout } = process
  // A pipe tells once that it has failed: whoever writes after that would wait for good.
  if (stdout.write(text) || !stdout.writable) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const events = ['drain', 'error', 'close']
  const end = () => resolve()
  for (const event of events) stdout.on(event, end)
  await promise
  for (const event of events) stdout.off(event, end)
}

/** Writes one line to stderr: for people, where stdout holds what a script takes. */
export const printNote = (line: string): void => void process.stderr.write(`${line}\n`)

/**
 * Prints the answer as the API returns it, alone on stdout. No control character reaches the
 * terminal.
 */
export const printJson = (answer: unknown): void => print(toPrintableJson(answer, 2))

/** How an answer is printed, where not for people: all of it as JSON, or some fields alone. */
export interface Shape {
  json?: boolean
  field?: string
}

/**
 * Prints the answer as JSON or as its fields if requested, else with `printText`. Throws 400 for a
 * field that it does not have, once a single thing is printed whole: a new key is not shown again.
 */
export async function printResult<Answer>(
  { json, field }: Shape,
  answer: Answer,
  printText: (answer: Answer) => void | Promise<void>,
): Promise<void> {
  if (json) return printJson(answer)
  if (field === undefined) return printText(answer)
  const { isSingle, renderShape } = await import('./shapes.ts')
  try {
    for (const line of renderShape(answer, field)) print(line)
  } catch (unknown) {
    if (isSingle(answer)) printJson(answer)
    throw unknown
  }
}

/**
 * Prints rows under headings, each column as wide as its widest cell. On a terminal the widest are
 * cut until a row fits on a line, times are said from now, and words about how something is doing
 * have a colour. No control character of a cell reaches the terminal.
 */
export function printTable(headings: string[], rows: (string | number | null)[][]): void {
  const { isTTY } = process.stdout
  const now = Date.now()
  const render = (cell: string | number | null) => {
    const text = toPrintable(String(cell ?? '-'))
    return isTTY ? renderRelative(text, now) : text
  }
  const cells = [headings, ...rows].map(row => row.map(render))
  const paint = isTTY && hasColors() ? paintCell : (text: string) => text
  const widths = headings.map((_, column) =>
    Math.max(...cells.map(row => Bun.stringWidth(row[column] ?? ''))),
  )
  const room = isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY
  const fitting = fitWidths(widths, room)
  for (const [index, row] of cells.entries()) {
    const last = row.findLastIndex(cell => cell !== '')
    const fitted = row.slice(0, last + 1).map((cell, column) => {
      const text = fitCell(cell, fitting[column] ?? 0)
      return paint(column === last ? text.trimEnd() : text, index === 0)
    })
    print(fitted.join(GAP))
  }
}

const hasColors = (): boolean => !process.env.NO_COLOR && process.env.TERM !== 'dumb'

/** The colours of words that are a whole cell: how something is doing. */
const COLORS: Record<string, number> = {
  ...paintAll(32, 'ok', 'active', 'on', 'configured', 'completed', 'stop', 'in use'),
  ...paintAll(33, 'disabled', 'paused', 'archived', 'cancelled', 'in_progress', 'flag', 'less'),
  ...paintAll(31, 'WRONG', 'error', 'failed', 'failing', 'expired', 'bad', 'unreadable', 'timeout'),
  ...paintAll(31, 'provider_overloaded', 'provider_unavailable', 'no'),
}

function paintAll(color: number, ...words: string[]): Record<string, number> {
  return Object.fromEntries(words.map(word => [word, color]))
}

function paintCell(text: string, isHeading: boolean): string {
  if (isHeading) return `\u001b[2m${text}\u001b[22m`
  const word = text.trimEnd()
  const color = Object.hasOwn(COLORS, word) ? COLORS[word] : undefined
  return color === undefined ? text : `\u001b[${color}m${text}\u001b[39m`
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const

/** In seconds: what is farther away is said by its date. */
const FAR = 30 * 86_400

/** Says a time in ISO 8601 from now: `3 min ago`, `in 2 d`. Other texts stay as they are. */
export function renderRelative(text: string, now: number): string {
  const seconds = TIME.test(text) ? Math.round((now - Date.parse(text)) / 1000) : Number.NaN
  if (Number.isNaN(seconds)) return text
  const size = Math.abs(seconds)
  if (size >= FAR) return text.slice(0, 10)
  if (size === 0) return 'now'
  const [unit, length] = UNITS.find(([, length]) => size >= length) ?? UNITS[3]
  const count = `${Math.floor(size / length)} ${unit}`
  return seconds > 0 ? `${count} ago` : `in ${count}`
}

const GAP = '  '
const NARROWEST = 4

/** Takes from the widest columns until all fit in a line, or until none can give any more. */
function fitWidths(widths: number[], room: number): number[] {
  const fitting = [...widths]
  const space = room - GAP.length * (widths.length - 1)
  for (let excess = fitting.reduce((a, b) => a + b, 0) - space; excess > 0; excess--) {
    const widest = fitting.indexOf(Math.max(...fitting))
    if ((fitting[widest] ?? 0) <= NARROWEST) break
    fitting[widest] = (fitting[widest] ?? 0) - 1
  }
  return fitting
}

/** Pads a cell to a width, or cuts it there. */
function fitCell(text: string, width: number): string {
  const missing = width - Bun.stringWidth(text)
  if (missing >= 0) return text + ' '.repeat(missing)
  let cut = ''
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (Bun.stringWidth(cut + segment) >= width) break
    cut += segment
  }
  return `${cut}…`.padEnd(cut.length + 1 + width - Bun.stringWidth(cut) - 1)
}

/** Prints the fields of an object, one per line. */
export function printFields(fields: Record<string, unknown>): void {
  const width = Math.max(...Object.keys(fields).map(name => name.length))
  for (const [name, value] of Object.entries(fields))
    print(`${name.padEnd(width)}  ${renderValue(value)}`)
}

const renderValue = (value: unknown): string =>
  value === null || value === undefined
    ? '-'
    : toPrintable(typeof value === 'object' ? JSON.stringify(value) : String(value))

/** Formats an amount in USD with cents, or with as many decimals as it needs. */
export const formatDollars = (usd: number | null): string =>
  usd === null
    ? '-'
    : `${usd < 0 ? '-' : ''}$${Math.abs(usd)
        .toFixed(9)
        .replace(/0{1,7}$/, '')}`
