import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { MIGRATIONS } from '../../../../src/core/store/sqlite/contents.ts'
import { UNMATCHED } from '../../../../src/core/store/sqlite/inspection/matches.ts'

test('charges are matched with calls by an index, not each with all others', () => {
  const db = new Database(':memory:')
  for (const migration of MIGRATIONS) db.run(migration)
  const plan = db
    .query<{ detail: string }, []>(`explain query plan ${UNMATCHED}`)
    .all()
    .map(({ detail }) => detail)
  expect(plan.filter(detail => /^SCAN (g|l)\b/.test(detail))).toEqual(['SCAN l', 'SCAN g'])
  expect(plan.filter(detail => /^SEARCH (g|l)\b.* \(id=\?\) LEFT-JOIN$/.test(detail))).toHaveLength(
    2,
  )
  db.close()
})
