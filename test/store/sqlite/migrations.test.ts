import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderSchema } from '../../../scripts/schema.ts'
import { openMac } from '../../../src/base/mac.ts'
import { buildDefaultWorkspace } from '../../../src/resources/workspaces.ts'
import { inspectSeals } from '../../../src/store/sql/seals/inspection.ts'
import { SEALED_TABLES } from '../../../src/store/sql/seals.ts'
import {
  MIGRATIONS,
  migrate,
  openInMemory,
  readVersion,
  SCHEMA,
} from '../../../src/store/sqlite/migrations.ts'
import { takeSteps } from '../../../src/store/sqlite/reader.ts'
import { SealLog } from '../../../src/store/sqlite/seals/log.ts'
import { compareSchemas, openCreated } from '../../../src/store/sqlite/seals/schema.ts'
import { readSealedColumns } from '../../../src/store/sqlite/seals/tables.ts'
import { openSqlite } from '../../../src/store/sqlite.ts'
import { buildKey } from '../../suites/store/rows.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildGeneration } from '../../support/generation.ts'
import { TEST_MAC, TEST_SECRETS } from '../../support/ledger.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-migrations-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let files = 0

/** Returns a database of this version with a workspace, two keys and their audit entries. */
async function openFilled(): Promise<Database> {
  const path = join(root, `${++files}.db`)
  const store = await openSqlite({
    path,
    durability: 'normal',
    busyTimeout: 0,
    secrets: TEST_SECRETS,
  })
  await store.owner({ user_id: 'u', workspace_id: 'w' })
  await store.workspaces.insertIfAbsent(buildDefaultWorkspace('w', 'u', new Date()))
  for (const hash of ['a', 'b'])
    await store.keys.insert(buildKey({ hash, workspace_id: 'w' }), buildAuditEntry({ id: hash }))
  await store.close()
  return new Database(path, { strict: true })
}

/** Lists what the seals of a database show. */
const listSealProblems = (db: Database, mac = TEST_MAC): string[] =>
  Object.values(takeSteps(db, inspectSeals(mac, readSealedColumns(db)))).flat()

/** Lists what the seals show after these migrations are applied. */
function listProblems(db: Database, migrations: string[], mac = TEST_MAC): string[] {
  migrate(db, { ...TEST_SECRETS, mac }, [...MIGRATIONS, ...migrations])
  return listSealProblems(db, mac)
}

const PLANTED: [what: string, migration: string][] = [
  ['a column with a value', "alter table keys add column color text not null default 'blue'"],
  [
    'a column in every sealed table',
    SEALED_TABLES.map(t => `alter table ${t} add column planted integer default 7;`).join('\n'),
  ],
  ['changed rows', "update keys set name = 'changed'"],
  ['a removed row', "delete from keys where hash = 'a'"],
  [
    'an added row',
    'insert into credits (id, created_at, amount, note, user_id) ' +
      "values ('opening', '', 5, null, 'u')",
  ],
  ['a renamed column', 'alter table keys rename column name to title'],
  ['a dropped column', 'alter table keys drop column label'],
  [
    'a rebuilt table',
    `create table rebuilt (
       hash text primary key, name text not null, disabled integer not null,
       more text not null default 'x'
     ) strict;
     insert into rebuilt (hash, name, disabled) select hash, name, disabled from keys;
     drop table keys;
     alter table rebuilt rename to keys`,
  ],
]

test.each(PLANTED)('a migration with %s leaves every row sealed', async (_, migration) => {
  const db = await openFilled()
  expect(listProblems(db, [migration])).toEqual([])
  db.close()
})

test.each(PLANTED)('a migration with %s seals no row of another program', async (_, migration) => {
  const db = await openFilled()
  db.run("update keys set disabled = 1 where hash = 'b'")
  db.run("insert into credits values (9, 'x', '', 1, null, 'u')")
  db.run("delete from workspaces where id = 'nowhere'")
  expect(listProblems(db, [migration])).toEqual([
    'credits 9 was added by another program',
    'keys b was changed by another program',
  ])
  db.close()
})

test('a removed row stays missed after a migration', async () => {
  const db = await openFilled()
  db.run("delete from keys where hash = 'b'")
  expect(listProblems(db, ["update keys set name = 'changed'"])).toEqual(['keys b was removed'])
  db.close()
})

test('sums that counted a call for each correction count calls', async () => {
  const path = join(root, `${++files}.db`)
  const open = () =>
    openSqlite({ path, durability: 'normal', busyTimeout: 0, secrets: TEST_SECRETS })
  const store = await open()
  const settled_at = '2026-03-01T23:59:59.999Z'
  for (const [id, api_type] of Object.entries({
    a: 'completions',
    b: 'correction',
    c: 'correction',
  })) {
    const generation = buildGeneration({ id, api_type, is_byok: true, settled_at })
    await store.generations.record([{ generation, charge: null }])
  }
  await store.rollups.advance(10)
  await store.close()
  const db = new Database(path, { strict: true })
  const noting = db.query<{ name: string }, []>(
    "select name from sqlite_schema where type = 'trigger' and sql like '%insert into changes%'",
  )
  for (const { name } of noting.all()) db.run(`drop trigger ${name}`)
  db.run('drop table changes')
  for (const table of ['usage_hours', 'usage_days', 'usage_endpoint_days'])
    db.run(`update ${table} set calls = 3, byok_calls = 3`)
  db.run('alter table evicted_days drop column corrections')
  for (const name of ['key_hash', 'issuer', 'subject', 'sid'])
    db.run(`alter table sign_ins drop column ${name}`)
  db.run('drop table mcp_logins')
  db.run('drop table call_spend')
  db.run('drop table alerts')
  db.run('drop table alert_notices')
  db.run('drop table response_items')
  db.run('drop table responses')
  db.run('drop index files_by_expiry')
  db.run('alter table files drop column expires_at')
  db.run('alter table batches drop column output_expires_after')
  const rates = ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests']
  for (const column of ['mcp', 'budgets', ...rates])
    db.run(`alter table guardrails drop column ${column}`)
  db.run('alter table budgets drop column soft')
  db.run('alter table videos drop column credential')
  db.run('pragma user_version = 35')
  db.close()
  const migrated = await open()
  expect(await migrated.rollups.verify()).toEqual([])
  const query = { from: 0, until: 1e9, by: [], isByTime: false, conditions: [] }
  for (const grain of ['hour', 'day'] as const)
    expect(await migrated.rollups.sum({ ...query, grain })).toMatchObject([
      { sums: { calls: 1, byok_calls: 1 } },
    ])
  await migrated.close()
})

test('files stay as they are, and may be empty', () => {
  const db = new Database(':memory:', { strict: true })
  migrate(db, TEST_SECRETS, MIGRATIONS.slice(0, 37))
  const insert = 'insert into files values (?, ?, ?, ?, ?, 1, null, ?, ?, null)'
  db.run('pragma foreign_keys = off')
  const row = (id: string, bytes: number) => [id, 'w', 'a.txt', 'text/plain', bytes, 'then', 'sum']
  db.run(insert, row('filled', 5))
  migrate(db, TEST_SECRETS)
  db.run(insert, row('empty', 0))
  expect(db.query('select id, size_bytes, created_at, sha256 from files').all()).toEqual([
    { id: 'filled', size_bytes: 5, created_at: 'then', sha256: 'sum' },
    { id: 'empty', size_bytes: 0, created_at: 'then', sha256: 'sum' },
  ])
})

test('a migration with another secret moves no seal', async () => {
  const db = await openFilled()
  const other = openMac(Buffer.from('another secret'), 'records')
  expect(listProblems(db, ["update keys set name = 'changed'"], other)).not.toEqual([])
  db.close()
})

test('tables that were not sealed are sealed as they stand, the others are not', async () => {
  const db = new Database(join(root, `${++files}.db`), { create: true, strict: true })
  migrate(db, TEST_SECRETS, MIGRATIONS.slice(0, 13))
  db.run("insert into meta values ('user_id', 'u')")
  db.run("delete from seals where noun in ('meta', 'scim_groups')")
  db.run("insert into scim_groups values ('g', 'G', 'g', null, 1, '', '')")
  db.run("insert into credits values (9, 'x', '', 1, null, 'u')")
  migrate(db, TEST_SECRETS)
  expect(listSealProblems(db)).toEqual(['credits 9 was added by another program'])
  db.run("update scim_groups set display_name = 'other'")
  expect(listSealProblems(db)).toContain('scim_groups g was changed by another program')
  db.close()
})

test('a database in memory is what the migrations make of an empty one, each its own', () => {
  const migrated = new Database(':memory:', { strict: true })
  migrate(migrated, TEST_SECRETS)
  const [one, other] = [openInMemory(TEST_SECRETS), openInMemory(TEST_SECRETS)]
  for (const db of [one, other]) expect(describeDatabase(db)).toEqual(describeDatabase(migrated))
  one.run("insert into meta (name, value) values ('user_id', 'u')")
  expect(describeDatabase(other)).toEqual(describeDatabase(migrated))
  const log = new SealLog(other, TEST_MAC)
  expect(listSealProblems(other)).toEqual([])
  expect(log.readOpening()?.ledger).toEqual({ seq: 0, hash: '' })
})

/** Returns the version, the schema, and the rows of all tables; of their seals, only how many. */
function describeDatabase(db: Database) {
  const schema = db
    .query<{ type: string; name: string; sql: string }, []>(
      'select type, name, tbl_name, sql from sqlite_schema order by name',
    )
    .all()
  const tables = schema.filter(({ type }) => type === 'table').map(({ name }) => name)
  const rows = tables.map(table => {
    const all = db.query(`select * from "${table}"`).values()
    return [table, table === 'seal_log' ? all.length : all]
  })
  return [db.query('pragma user_version').get(), schema, rows]
}

describe('schema.sql', () => {
  test('is what the migrations lead to (`bun run schema` writes it)', () => {
    using migrated = openCreated(MIGRATIONS)
    expect(SCHEMA).toEqual([`${renderSchema(migrated)}\n`])
  })

  test('creates every table, index, trigger and row that the migrations do', () => {
    using migrated = openCreated(MIGRATIONS)
    using created = openCreated(SCHEMA)
    const readAll = (db: Database) => {
      const entries = db.query('select type, name, tbl_name, sql from sqlite_schema').all() as {
        type: string
        name: string
      }[]
      const tables = entries.filter(({ type }) => type === 'table')
      return [
        ...entries.map(entry => JSON.stringify(entry)),
        ...tables.map(({ name }) =>
          JSON.stringify([name, db.query(`select * from ${name}`).all()]),
        ),
      ].sort()
    }
    expect(readAll(created)).toEqual(readAll(migrated))
  })

  test('is where a new database begins; an older one gets the migrations that it lacks', () => {
    using created = new Database(':memory:')
    migrate(created, TEST_SECRETS)
    using migrated = new Database(':memory:')
    migrate(migrated, TEST_SECRETS, MIGRATIONS.slice(0, 13))
    migrate(migrated, TEST_SECRETS)
    for (const db of [created, migrated]) {
      expect(compareSchemas(db, MIGRATIONS)).toEqual([])
      expect(readVersion(db)).toBe(MIGRATIONS.length)
    }
  })
})
