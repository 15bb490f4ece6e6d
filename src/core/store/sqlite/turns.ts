import { yieldToEventLoop } from '../../kernel/clock.ts'

/** So many rows are read before others get their turn: a millisecond or two. */
const AT_ONCE = 1_000

/** Returns the first text that was equal to this one, so that equal texts are held once. */
export type Share = <Text extends string | null>(text: Text) => Text

/** Reads a page of rows whose place is after the given one, in the order of their places. */
type ReadPage<Row> = (after: number, count: number) => Promise<(Row & { place: number })[]>

/**
 * Reads all rows of a table in turns, in the order of their places, and returns what they are
 * converted to. What another process changes meanwhile may be among them or not.
 */
export async function readInTurns<Row, Value>(
  readPage: ReadPage<Row>,
  convert: (row: Row, share: Share) => Value,
): Promise<Value[]> {
  const share = createShare()
  const values: Value[] = []
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = await readPage(after, AT_ONCE)
    for (const row of rows) values.push(convert(row, share))
    if (rows.length < AT_ONCE) return values
    after = rows.at(-1)?.place ?? after
    await yieldToEventLoop()
  }
}

function createShare(): Share {
  const texts = new Map<string, string>()
  return text => {
    if (text === null) return text
    const known = texts.get(text)
    if (known !== undefined) return known as typeof text
    texts.set(text, text)
    return text
  }
}
