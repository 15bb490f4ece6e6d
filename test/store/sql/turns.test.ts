import { expect, test } from 'bun:test'
import type { PageOfRows } from '../../../src/base/packed-rows.ts'
import { readInTurns } from '../../../src/store/sql/turns.ts'

const buildRows = (length: number, step: number) =>
  Array.from({ length }, (_, n) => ({ place: n * step - 100, text: `[${n}]` }))

type Rows = ReturnType<typeof buildRows>

const createReader = (all: Rows) => ({
  findNext: async (after: number) => all.find(({ place }) => place > after)?.place ?? null,
  async read(first: number, last: number) {
    const page = all.filter(({ place }) => place >= first && place <= last)
    const text = page.map(({ text }) => text).join('\n')
    return { rows: page.length === 0 ? null : Buffer.from(text), count: page.length }
  },
})

const split = (pages: PageOfRows[]) => pages.flatMap(({ rows }) => rows.toString().split('\n'))

test('rows are read in their order, and others have their turn between pages', async () => {
  const rows = buildRows(2_500, 3)
  const turns: string[] = []
  setImmediate(() => turns.push('other'))
  const reading = readInTurns(createReader(rows)).then(pages => {
    turns.push('read')
    return pages
  })
  expect(split(await reading)).toEqual(rows.map(({ text }) => text))
  expect(turns).toEqual(['other', 'read'])
})

test.each([
  [0, 1],
  [1, 1],
  [1_000, 1],
  [2_000, 1],
  [2_001, 1],
  [5, 1_000_000],
])('a table of %d rows, whose places are %d apart, is read to its end', async (length, step) => {
  const rows = buildRows(length, step)
  const pages = await readInTurns(createReader(rows))
  expect(split(pages)).toEqual(rows.map(({ text }) => text))
  expect(pages.reduce((sum, { count }) => sum + count, 0)).toBe(length)
})
