import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { UNMATCHED } from '../../../src/store/sql/inspection.ts'
import { MIGRATIONS } from '../../../src/store/sqlite/migrations.ts'

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

describe('a charge', () => {
  const row = (id: string, step = 1, more: Record<string, number> = {}) => {
    const [names, values] = [Object.keys(more).map(name => `, ${name}`), Object.values(more)]
    return `insert into ledger
      (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source ${names})
      values ('${id}', ${step}, '', 'k', 'u', 'w', 0, 5, 'exact' ${values.map(one => `, ${one}`)})`
  }
  let db: Database
  afterEach(() => db.close())

  const openAt = (migrations: string[]) => {
    db = new Database(':memory:')
    for (const migration of migrations) db.run(migration)
  }

  test('of one step of a call is refused a second time, whoever inserts or renames it', () => {
    openAt(MIGRATIONS)
    db.run(row('gen-1'))
    db.run(row('gen-1', 2, { several: 1 }))
    db.run(row('gen-2'))
    const refused = /UNIQUE constraint failed: ledger\.id, ledger\.step/
    expect(() => db.run(row('gen-1'))).toThrow(refused)
    expect(() => db.run(row('gen-1', 2))).toThrow(refused)
    expect(() => db.run("update ledger set id = 'gen-1' where id = 'gen-2'")).toThrow(refused)
    expect(() => db.run(row('gen-1', 1, { again: 7 }))).toThrow('a call is charged once')
  })

  test('that was there twice before stays where it is, and no third one joins it', () => {
    const before = 32
    openAt(MIGRATIONS.slice(0, before))
    for (const id of ['gen-1', 'gen-2', 'gen-1', 'gen-1']) db.run(row(id))
    db.run(MIGRATIONS[before] ?? '')
    expect(db.query('select seq, id, again from ledger order by seq').values()).toEqual([
      [1, 'gen-1', 0],
      [2, 'gen-2', 0],
      [3, 'gen-1', 3],
      [4, 'gen-1', 4],
    ])
    expect(() => db.run(row('gen-1'))).toThrow('UNIQUE')
  })
})
