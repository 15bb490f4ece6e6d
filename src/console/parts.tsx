/** @jsxImportSource preact */
import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Place, setQuery } from './route.ts'

/** What is being loaded, was loaded, or could not be. */
export interface Loaded<Value> {
  value: Value | undefined
  error: Error | undefined
  reload: () => void
}

/**
 * Loads something, and again when one of `of` changes. What came before stays until then, and an
 * answer that is overtaken by a later one is forgotten.
 */
export function useLoaded<Value>(load: () => Promise<Value>, of: unknown[]): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, 'reload'>>({
    value: undefined,
    error: undefined,
  })
  const latest = useRef(0)
  const reload = useCallback(() => {
    latest.current += 1
    const mine = latest.current
    const set = (next: Omit<Loaded<Value>, 'reload'>) => {
      if (latest.current === mine) setState(next)
    }
    load().then(
      value => set({ value, error: undefined }),
      error => set({ value: undefined, error }),
    )
  }, of)
  useEffect(() => reload(), [reload])
  return { ...state, reload }
}

/** What is said while something loads, and where it cannot be loaded. */
export function Waiting({ error, reload }: Pick<Loaded<unknown>, 'error' | 'reload'>) {
  if (!error)
    return (
      <p class="quiet" role="status">
        Loading …
      </p>
    )
  return (
    <div class="notice bad" role="alert">
      <p>{error.message}</p>
      <button type="button" onClick={reload}>
        Try again
      </button>
    </div>
  )
}

/** Why something did not work, where it was asked for. */
export const Problem = ({ error }: { error: Error | null | undefined }) =>
  error ? (
    <p class="notice bad" role="alert">
      {error.message}
    </p>
  ) : null

/** A column of a table: its heading, and what it shows of a row. */
export interface Column<Row> {
  title: string
  show: (row: Row) => ComponentChildren
  /** What it is in CSV, where it shows more than text. */
  text?: (row: Row) => string
  isNumber?: boolean
}

/** A table that a narrow screen can scroll. */
export function Table<Row>({
  caption,
  columns,
  rows,
  empty = 'Nothing here yet.',
}: {
  caption: string
  columns: Column<Row>[]
  rows: Row[]
  empty?: string
}) {
  if (rows.length === 0) return <p class="quiet">{empty}</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" tabIndex={0} aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? 'number' : ''}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {columns.map(({ title, show, isNumber }) => (
                <td key={title} class={isNumber ? 'number' : ''}>
                  {show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** Saves a table as a file of comma-separated values. */
export function saveCsv<Row>(name: string, columns: Column<Row>[], rows: Row[]): void {
  const line = (cells: string[]) => cells.map(quote).join(',')
  const text = [
    line(columns.map(({ title }) => title)),
    ...rows.map(row => line(columns.map(({ show, text }) => text?.(row) ?? String(show(row))))),
  ].join('\r\n')
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  const anchor = Object.assign(document.createElement('a'), { href: url, download: `${name}.csv` })
  anchor.click()
  URL.revokeObjectURL(url)
}

// A cell that begins like a formula would be one in a spreadsheet.
function quote(cell: string): string {
  const safe = /^[=+\-@\t\r]/.test(cell) && Number.isNaN(Number(cell)) ? `'${cell}` : cell
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** A field for the words that a list is searched for: the address has them. */
export const Find = ({ place, label = 'Find' }: { place: Place; label?: string }) => (
  <label>
    {label}{' '}
    <input
      type="search"
      value={place.query.get('find') ?? ''}
      onInput={event => setQuery(place, { find: event.currentTarget.value })}
    />
  </label>
)

/** A text with a button that copies it. */
export function Copyable({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false)
  const copy = () => {
    navigator.clipboard?.writeText(text).then(
      () => setDone(true),
      () => setDone(false),
    )
  }
  return (
    <section class="copyable" aria-label={label}>
      <pre>{text}</pre>
      <button type="button" onClick={copy}>
        {done ? 'Copied' : 'Copy'}
      </button>
    </section>
  )
}

/** A question before what cannot be undone. */
export function Confirm({
  title,
  children,
  action,
  onConfirm,
  onCancel,
}: {
  title: string
  children: ComponentChildren
  action: string
  onConfirm: () => Promise<void>
  onCancel: () => void
}) {
  const [error, setError] = useState<Error | null>(null)
  return (
    <Dialog title={title} onCancel={onCancel}>
      <div>{children}</div>
      <Problem error={error} />
      <div class="actions">
        <button type="button" class="danger" onClick={() => onConfirm().catch(setError)}>
          {action}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}

/** A dialog over the page: the keyboard stays in it until it is closed. */
export function Dialog({
  title,
  children,
  onCancel,
}: {
  title: string
  children: ComponentChildren
  onCancel?: () => void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onCancel={event => {
        event.preventDefault()
        onCancel?.()
      }}
    >
      <h2>{title}</h2>
      {children}
    </dialog>
  )
}
