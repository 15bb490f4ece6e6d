import { yieldToEventLoop } from '../../kernel/clock.ts'
import { PAGE } from '../../kernel/packed-rows.ts'

/** Rows as one text, one a line; null if there are none. */
export interface PageOfRows {
  rows: Uint8Array | null
  /** How many. */
  count: number | bigint
  /** The place of the last one. */
  last: number | bigint | null
}

/** Reads a page of rows whose place is after the given one, in the order of their places. */
type ReadPage = (after: number, count: number) => Promise<PageOfRows>

/**
 * Reads all rows of a table in turns, in the order of their places. What another process changes
 * meanwhile may be among them or not.
 */
export async function readInTurns(readPage: ReadPage): Promise<Buffer[]> {
  const pages: Buffer[] = []
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const { rows, count, last } = await readPage(after, PAGE)
    if (rows) pages.push(Buffer.from(rows.buffer, rows.byteOffset, rows.byteLength))
    if (Number(count) < PAGE) return pages
    after = Number(last)
    await yieldToEventLoop()
  }
}
