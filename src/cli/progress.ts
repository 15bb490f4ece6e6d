import type { Shape } from './output.ts'

const BAR = 30

/** So many rows are read before anybody looks. */
const FEW = 50_000

/** A line on stderr that says how far long work is. */
interface RowProgress {
  /** Shows how many rows of how many are done; of an unknown number with `null`. */
  show(done: number, total: number | null): void
  /** Clears the line. */
  end(): void
}

/** Where a line is shown, and from how many rows on. */
interface RowPlace {
  isTTY?: boolean
  write?(text: string): unknown
  few?: number
}

const TERMINAL = {
  isTTY: process.stderr.isTTY === true,
  write: (text: string): unknown => process.stderr.write(text),
}

/**
 * Opens a line about so many rows, for a person who watches: nothing is shown where stderr is no
 * terminal, of JSON, or while there are few.
 */
export function openRowProgress(
  { json, field }: Shape,
  { isTTY = TERMINAL.isTTY, write = TERMINAL.write, few = FEW }: RowPlace = {},
): RowProgress {
  const isShown = isTTY && !json && field === undefined
  let shown = ''
  return {
    show(done, total) {
      if (!isShown || (total ?? done) < few) return
      const line = total === null ? `${done} rows` : drawRows(done, total)
      if (line !== shown) write(`\r${line}`)
      shown = line
    },
    end() {
      if (shown !== '') write('\r\u001b[K')
    },
  }
}

function drawRows(done: number, total: number): string {
  const part = Math.min(BAR, Math.floor((BAR * done) / total))
  const percent = Math.min(100, Math.floor((100 * done) / total))
  return `[${'#'.repeat(part)}${'.'.repeat(BAR - part)}] ${percent} % of ${total} rows`
}
