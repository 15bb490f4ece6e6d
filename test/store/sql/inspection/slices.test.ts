import { expect, test } from 'bun:test'
import { readAround, type Unreadable } from '../../../../src/store/sql/inspection/slices.ts'
import { readDamage } from '../../../../src/store/sqlite/reader.ts'

const damage = (reason: string) =>
  Object.assign(new Error(reason), { code: 'SQLITE_CORRUPT_INDEX' })

test('what cannot be read is told by runs of rows with one reason, and hides no other row', () => {
  const damaged = new Map([3, 4, 5, 6, 9].map(row => [row, row < 5 ? 'torn' : 'lost']))
  const unreadable: Unreadable[] = []
  function* read(after: number, last: number) {
    return Array.from({ length: last - after }, (_, i) => after + i + 1).map(row => {
      const reason = damaged.get(row)
      if (reason) throw damage(reason)
      return row
    })
  }
  const reading = readAround({ readDamage }, read, [0, 11], unreadable)
  expect(reading.next()).toEqual({ done: true, value: [1, 2, 7, 8, 10, 11] })
  expect(unreadable).toEqual([
    { first: 3, last: 4, reason: 'torn' },
    { first: 5, last: 6, reason: 'lost' },
    { first: 9, last: 9, reason: 'lost' },
  ])
})

test('a fault that is no damage is thrown', () => {
  const busy = Object.assign(new Error('busy'), { code: 'SQLITE_BUSY' })
  const read = () => {
    throw busy
  }
  expect(() => readAround({ readDamage }, read, [0, 9], []).next()).toThrow('busy')
})
