import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.ts'
import { hashLedgerRow, type LedgerRow, sealLedgerRow } from '../../src/limits/chain.ts'
import type { StepCharge } from '../../src/limits/ledger.ts'
import { buildDefaultWorkspace } from '../../src/resources/workspaces.ts'
import { RECORD_COLUMNS, toValues } from '../../src/store/sql/generations/rows.ts'
import { lockData } from '../../src/store/sqlite/lock.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import { testSeals } from '../suites/store/seals.ts'
import { testStore } from '../suites/store.ts'
import { buildAuditEntry } from '../support/audit.ts'
import {
  buildGeneration,
  buildRecordEntry,
  buildStepCharge,
  buildStepEntry,
  PAYER,
} from '../support/generation.ts'
import { TEST_MAC, TEST_SECRETS } from '../support/ledger.ts'
import { explainPlan, listStatements, openSchema, watchStatements } from '../support/statements.ts'

watchStatements()

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
let files = 0

const newPath = () => join(directory, `${++files}.db`)
const open = (path: string, busyTimeout = 0) =>
  openSqlite({ path, durability: 'normal', busyTimeout, secrets: TEST_SECRETS })

/** Returns the path of a new store that is migrated: to copy one is a tenth of the migrations. */
async function copyNew(): Promise<string> {
  const path = newPath()
  copyFileSync(await template, path)
  return path
}

const template = createTemplate()

async function createTemplate(): Promise<string> {
  const path = newPath()
  await (await open(path)).close()
  return path
}

afterAll(() => rmSync(directory, { recursive: true, force: true }))

const byokKey = {
  ...{
    id: 'b',
    workspace_id: 'w',
    provider: 'openai',
    name: null,
    label: '...',
    sealed: '',
    sort_order: 0,
    created_at: '',
  },
  ...{
    disabled: false,
    is_fallback: false,
    is_byok_only: false,
    is_required: false,
    declared_zdr: null,
  },
  ...{ allowed_models: null, allowed_api_key_hashes: null, allowed_user_ids: null },
}

/*
 * A transaction that begins by reading cannot always go on to write: SQLite refuses it at once when
 * another connection has written meanwhile. In these tests one that does so fails always.
 */
const { transaction } = Database.prototype
beforeAll(() => {
  Database.prototype.transaction = forbidUpgrades as typeof transaction
})
afterAll(() => {
  Database.prototype.transaction = transaction
})

function forbidUpgrades(this: Database, work: (...args: unknown[]) => unknown) {
  const begun = transaction.call(this, work)
  const deferred = (...args: unknown[]) => {
    if (this.inTransaction) return begun(...args)
    this.run('pragma query_only = on')
    try {
      return begun(...args)
    } finally {
      this.run('pragma query_only = off')
    }
  }
  const { immediate, exclusive } = begun
  return Object.assign(deferred, { deferred, default: deferred, immediate, exclusive })
}

test('S-06 a transaction that reads first and then writes is found by these tests', () => {
  const db = new Database(':memory:')
  db.run('create table a (b)')
  const write = db.transaction(() => db.run('insert into a values (1)'))
  expect(() => write()).toThrow('readonly')
  expect(() => write.deferred()).toThrow('readonly')
  expect(write.immediate()).toMatchObject({ changes: 1 })
  db.close()
})

test('the row of a record has each field in the column of its name', () => {
  // No two fields are the same.
  const names = Object.keys(buildGeneration())
  const unlike = Object.fromEntries(names.map((name, place) => [name, place + 2]))
  const row = toValues({ ...unlike, contentFilters: [41], steps: [] } as never)
  const expected = names.map(name => {
    if (name === 'contentFilters') return '[41]'
    if (name === 'steps') return '[]'
    return ['provider_responses', 'total_cost', 'upstream_inference_cost'].includes(name)
      ? `${unlike[name]}`
      : (unlike[name] ?? null)
  })
  expect(row).toEqual(expected)
  expect(names).toEqual([...RECORD_COLUMNS])
})

test('S-17 a store has the version and the settings that its promises need', async () => {
  const opened: Database[] = []
  const { run, query } = Database.prototype
  Database.prototype.run = function (this: Database, ...args: Parameters<typeof run>) {
    opened.push(this)
    return run.apply(this, args)
  }
  try {
    const store = await open(newPath())
    const db = opened[0] as Database
    const read = (name: string) => Object.values(db.query(`pragma ${name}`).get() as object)[0]
    const names = ['journal_mode', 'foreign_keys', 'trusted_schema', 'cell_size_check']
    expect(names.map(read)).toEqual(['wal', 1, 0, 1])
    expect(read('journal_size_limit')).toBeLessThanOrEqual(64 * 1024 * 1024)
    await store.close()
    Database.prototype.query = function (this: Database, sql: string) {
      const old = sql.includes('sqlite_version') ? "select '3.51.2' as version" : sql
      return query.call(this, old)
    } as typeof query
    expect(open(newPath())).rejects.toThrow('SQLite 3.51.2 is too old: 3.51.3 is needed')
  } finally {
    Object.assign(Database.prototype, { run, query })
  }
})

testStore('SQLite in memory', () => open(':memory:'))
testStore(
  'SQLite in a file',
  async () => open(await copyNew()),
  async () => {
    const path = newPath()
    return Promise.all([open(path, 1_000), open(path, 1_000)])
  },
)
testStore('SQLite in a file, fully durable', async () =>
  openSqlite({
    ...{ path: await copyNew(), durability: 'full', busyTimeout: 0, secrets: TEST_SECRETS },
  }),
)

describe('SQLite in a file', () => {
  test('written records are there after closing and reopening', async () => {
    const path = newPath()
    const before = await open(path)
    await before.generations.record([buildRecordEntry('a')])
    await before.close()
    const after = await open(path)
    expect((await after.generations.byId('a'))?.id).toBe('a')
    expect(await after.ledger.listTotals()).toEqual([{ ...PAYER, byok: false, nanos: 4_500n }])
    await after.close()
  })

  test('a deleted provider key leaves its row, without the sealed credential', async () => {
    const path = newPath()
    const store = await open(path)
    await store.workspaces.insertIfAbsent(buildDefaultWorkspace('w', 'u', new Date()))
    await store.byok.insert({ ...byokKey, sealed: 'sealed-canary' }, buildAuditEntry())
    await store.byok.remove('b', '2026-03-05T00:00:00.000Z', buildAuditEntry())
    await store.close()
    const db = new Database(path)
    expect(db.query('select id, sealed, deleted_at from byok').all()).toEqual([
      { id: 'b', sealed: null, deleted_at: '2026-03-05T00:00:00.000Z' },
    ])
    db.close()
  })

  test('no statement can update or delete audit entries and credits', async () => {
    const path = newPath()
    const store = await open(path)
    await store.audit.append(buildAuditEntry())
    await store.credits.insert(
      { id: 'c', created_at: '', amount: 1n, note: null, user_id: 'u' },
      buildAuditEntry(),
    )
    await store.close()
    const db = new Database(path)
    for (const statement of [
      'delete from audit',
      "update audit set actor = 'x'",
      "update audit set before = '{}'",
    ])
      expect(() => db.run(statement)).toThrow('stays on record')
    for (const statement of ['delete from credits', 'update credits set amount = 1'])
      expect(() => db.run(statement)).toThrow('stays on record')
    expect(db.query('select count(*) as count from audit').get()).toEqual({ count: 2 })
    db.close()
  })

  test('S-05 without a busy timeout a locked store refuses at once until it is unlocked', async () => {
    const path = newPath()
    const store = await open(path)
    const other = new Database(path)
    other.run('begin immediate')
    // A busy timeout of five seconds would outlast this test.
    for (let i = 0; i < 20; i++)
      expect(await store.generations.record([buildRecordEntry('a')]).catch(() => 'refused')).toBe(
        'refused',
      )
    other.run('commit')
    await store.generations.record([buildRecordEntry('a')])
    expect((await store.generations.byId('a'))?.id).toBe('a')
    other.close()
    await store.close()
  })

  test('S-11 a file of the first schema is migrated, and keeps its records', async () => {
    const path = newPath()
    const old = new Database(path, { create: true })
    old.run(
      await Bun.file(
        join(import.meta.dir, '../../src/store/sqlite/migrations/001-first.sql'),
      ).text(),
    )
    old.run('pragma user_version = 1')
    const {
      preset_id: _,
      contentFilters: __,
      data_region: ___,
      router: ____,
      steps: _____,
      response_cache_source_id: ______,
      batch_id: _______,
      provider_responses,
      ...known
    } = buildGeneration({ id: 'a' })
    const row = { ...known, provider_responses: JSON.stringify(provider_responses) }
    const names = Object.keys(row)
    old
      .query(`insert into generations (${names}) values (${names.map(() => '?')})`)
      .run(...(Object.values(row) as never[]))
    old.close()
    const store = await open(path)
    expect(await store.generations.byId('a')).toEqual(
      buildGeneration({ id: 'a', preset_id: null, data_region: 'global', router: null }),
    )
    expect(await store.presets.all()).toEqual([])
    await store.close()
  })

  test('a chain from before steps is continued and stays valid', async () => {
    const path = newPath()
    const old = new Database(path, { create: true, strict: true })
    const migrations = join(import.meta.dir, '../../src/store/sqlite/migrations')
    for (const name of readdirSync(migrations).toSorted().slice(0, 11))
      old.run(await Bun.file(join(migrations, name)).text())
    old.run('pragma user_version = 11')
    const insert = old.query(
      `insert into ledger
      (id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash)
      values ($id, '2026-03-04T05:06:08.000Z', 'k', 'user_1', 'w', 0, 4500, $source, $hash)`,
    )
    const [opening, first] = ['opening-k', 'gen-1'].map(id => ({
      ...buildStepCharge({ id, workspace_id: 'w' }),
    }))
    const before = hashLedgerRow('', { ...(opening as StepCharge), source: 'opening' })
    insert.run({ id: 'opening-k', source: 'opening', hash: null })
    insert.run({ id: 'gen-1', source: 'exact', hash: hashLedgerRow(before, first as StepCharge) })
    old.close()
    const store = await open(path)
    await store.generations.record([buildStepEntry('gen-2', 1), buildStepEntry('gen-2', 2)])
    const rows: LedgerRow[] = []
    await store.ledger.inspect(row => rows.push(row))
    expect(rows.map(({ seq, id, step }) => [seq, id, step])).toEqual([
      [1, 'opening-k', 1],
      [2, 'gen-1', 1],
      [3, 'gen-2', 1],
      [4, 'gen-2', 2],
    ])
    let hash = ''
    for (const row of rows) {
      hash = row.seq > 2 ? sealLedgerRow(TEST_MAC, hash, row) : hashLedgerRow(hash, row)
      expect([row.seq, row.hash ?? hash]).toEqual([row.seq, hash])
    }
    await store.close()
  })

  test('S-11 a file of a newer program is refused and left unchanged', async () => {
    const path = newPath()
    await (await open(path)).close()
    const db = new Database(path)
    db.run('pragma user_version = 999')
    db.close()
    expect(open(path)).rejects.toThrow('newer gateway')
    const after = new Database(path)
    expect(after.query('pragma user_version').get()).toEqual({ user_version: 999 })
    after.close()
  })

  test.each([
    ['with tables of its own', ['create table diary (day)', 'pragma user_version = 3']],
    ['that its header names', ['pragma application_id = 1', 'create table meta (name)']],
  ])('a database of another program, %s, is refused and left unchanged', async (_, statements) => {
    const path = newPath()
    const db = new Database(path)
    for (const statement of statements) db.run(statement)
    db.close()
    const before = await Bun.file(path).bytes()
    expect(open(path)).rejects.toThrow('another program')
    expect(await Bun.file(path).bytes()).toEqual(before)
  })

  test('S-08 a file that is no database is refused and left unchanged', async () => {
    const path = newPath()
    const text = 'not a database, but somebody’s diary'.repeat(100)
    writeFileSync(path, text)
    expect(open(path)).rejects.toThrow()
    expect(await Bun.file(path).text()).toBe(text)
  })

  test('a directory instead of the file is refused', () => {
    const path = newPath()
    mkdirSync(path)
    expect(open(path)).rejects.toThrow()
  })
})

describe('S-15 the lock of a data directory', () => {
  test('keeps a second server out until it is released', () => {
    const data = join(directory, 'locked')
    const unlock = lockData(data)
    let thrown: unknown
    try {
      lockData(data)
    } catch (error) {
      thrown = error
    }
    expect(GatewayError.from(thrown)).toMatchObject({
      type: 'conflict',
      message: `Another gateway serves from ${data}`,
    })
    unlock()
    lockData(data)()
  })
})

/** Of these there are as many rows as calls, or as what waits. */
const GROWING = /\b(outbox|deliveries|failed_deliveries|generations|ledger|transcripts|refusals)\b/

/** These sort a few rows of them. */
const SORTED_FEW = [
  // The rows of one segment of the spool, of which little waits.
  /^select \* from outbox where segment = \?/,
  // What one destination has refused, of which the newest are kept.
  /^select "sequence" from "failed_deliveries" where "destination_id" = \?/,
  // The calls of one request.
  /from "generations" where \("id" = \? or \("request_id" = \?/,
]

// After the suites, whose statements it looks at.
test('no statement sorts what grows with calls to read a part of it', () => {
  const db = openSchema()
  const plans = listStatements()
    .filter(text => GROWING.test(text) && !SORTED_FEW.some(few => few.test(text)))
    .map(text => ({ text, plan: explainPlan(db, text) }))
  const reading = plans.filter(({ plan }) => plan.some(step => /^SEARCH deliveries/.test(step)))
  expect(reading.length).toBeGreaterThan(3)
  const isSort = (step: string) => step === 'USE TEMP B-TREE FOR ORDER BY'
  expect(plans.filter(({ plan }) => plan.some(isSort)).map(({ text }) => text)).toEqual([])
  db.close()
})

testSeals(
  'SQLite',
  async () => {
    const path = await copyNew()
    return {
      open: secrets => openSqlite({ path, durability: 'normal', busyTimeout: 1_000, secrets }),
      async run(statement) {
        using db = new Database(path)
        return db.query(statement).all()
      },
    }
  },
  {
    trigger: 'trigger credits_are_not_changed',
    dropTrigger: 'drop trigger credits_are_not_changed',
  },
)
