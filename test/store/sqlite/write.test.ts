import { expect, test } from 'bun:test'
import { ChangeFeed } from '../../../src/store/sql/changes.ts'
import { createWriters } from '../../../src/store/sqlite/write.ts'
import { openSchema } from '../../support/statements.ts'

test('S-02 what is shown once is on the disk before: its transaction waits, others do not', async () => {
  const db = openSchema()
  const feed = await ChangeFeed.open(async () => [])
  db.run('pragma synchronous = normal')
  const read = () => (db.query('pragma synchronous').get() as { synchronous: number }).synchronous
  const seen: number[] = []
  const note = () => {
    seen.push(read())
    return []
  }
  await createWriters(db, { seal: note, feed, path: null }).writeDurably()
  await createWriters(db, { seal: note, feed, path: null }).write()
  const fail = () => {
    throw new Error('refused')
  }
  const { writeDurably } = createWriters(db, { seal: fail, feed, path: null })
  expect(await writeDurably().catch(({ message }) => message)).toBe('refused')
  expect([seen, read()]).toEqual([[2, 1], 1])
  db.close()
})
