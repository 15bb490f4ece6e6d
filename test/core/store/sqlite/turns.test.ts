import { expect, test } from 'bun:test'
import { readInTurns } from '../../../../src/core/store/sqlite/turns.ts'

const ROWS = Array.from({ length: 2_500 }, (_, n) => ({ place: n * 3 - 100, name: `n${n % 5}` }))
const readPage = async (after: number, count: number) =>
  ROWS.filter(({ place }) => place > after).slice(0, count)

test('rows are read in their order, and others have their turn between pages', async () => {
  const turns: string[] = []
  setImmediate(() => turns.push('other'))
  const reading = readInTurns(readPage, ({ name }) => name).then(names => {
    turns.push('read')
    return names
  })
  expect(await reading).toEqual(ROWS.map(({ name }) => name))
  expect(turns).toEqual(['other', 'read'])
})

test.each([0, 1, 1_000, 2_000])('a table of %d rows is read to its end', async length => {
  const rows = ROWS.slice(0, length)
  const read = async (after: number, count: number) =>
    rows.filter(({ place }) => place > after).slice(0, count)
  expect(await readInTurns(read, ({ place }) => place)).toEqual(rows.map(({ place }) => place))
})

test('equal texts are shared, and no other value', async () => {
  const known = new Set<string>()
  await readInTurns(readPage, ({ name }, share) => {
    known.add(share(name))
    expect(share(null)).toBeNull()
    return share(`${name}`)
  })
  expect(known).toEqual(new Set(['n0', 'n1', 'n2', 'n3', 'n4']))
})
