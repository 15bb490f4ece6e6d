import { expect, test } from 'bun:test'
import { readInTurns } from '../../../../src/core/store/sqlite/turns.ts'

const ROWS = Array.from({ length: 2_500 }, (_, n) => ({ place: n * 3 - 100, text: `[${n}]` }))

const createReader = (all: typeof ROWS) => async (after: number, count: number) => {
  const page = all.filter(({ place }) => place > after).slice(0, count)
  const text = page.map(({ text }) => text).join('\n')
  const rows = page.length === 0 ? null : Buffer.from(text)
  return { rows, count: BigInt(page.length), last: page.at(-1)?.place ?? null }
}

const split = (pages: Buffer[]) => pages.flatMap(page => page.toString().split('\n'))

test('rows are read in their order, and others have their turn between pages', async () => {
  const turns: string[] = []
  setImmediate(() => turns.push('other'))
  const reading = readInTurns(createReader(ROWS)).then(pages => {
    turns.push('read')
    return pages
  })
  expect(split(await reading)).toEqual(ROWS.map(({ text }) => text))
  expect(turns).toEqual(['other', 'read'])
})

test.each([0, 1, 1_000, 2_000])('a table of %d rows is read to its end', async length => {
  const rows = ROWS.slice(0, length)
  expect(split(await readInTurns(createReader(rows)))).toEqual(rows.map(({ text }) => text))
})
