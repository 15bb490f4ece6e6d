import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { createWriters } from '../../../src/store/sqlite/write.ts'

test('S-02 what is shown once is on the disk before: its transaction waits, others do not', async () => {
  const db = new Database(':memory:')
  db.run('pragma synchronous = normal')
  const read = () => (db.query('pragma synchronous').get() as { synchronous: number }).synchronous
  const seen: number[] = []
  const note = () => {
    seen.push(read())
    return []
  }
  await createWriters(db, note, null).writeDurably()
  await createWriters(db, note, null).write()
  const fail = () => {
    throw new Error('refused')
  }
  const { writeDurably } = createWriters(db, fail, null)
  expect(await writeDurably().catch(({ message }) => message)).toBe('refused')
  expect([seen, read()]).toEqual([[2, 1], 1])
  db.close()
})
