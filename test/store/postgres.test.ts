import type { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { buildDefaultWorkspace } from '../../src/resources/workspaces.ts'
import { openPostgres } from '../../src/store/postgres.ts'
import type { Store } from '../../src/store/store.ts'
import { buildKey, CREATED, countAudit, readErrorType, WORKSPACE } from '../suites/store/rows.ts'
import { testStore } from '../suites/store.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { buildGeneration } from '../support/generation.ts'
import { TEST_SECRETS } from '../support/ledger.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'
import { openSchema } from '../support/statements.ts'

if (await hasPostgres()) {
  const server = await startPostgres()
  afterAll(() => server[Symbol.asyncDispose]())

  const open = async () =>
    (await openPostgres({ url: server.url, secrets: TEST_SECRETS })) as unknown as Store

  async function openEmpty(): Promise<Store> {
    await server.empty()
    return open()
  }

  /** Opens a store with a workspace and a key. */
  async function openWithKey(): Promise<Store> {
    const store = await openEmpty()
    await store.workspaces.insertIfAbsent(
      buildDefaultWorkspace(WORKSPACE, 'user_1', new Date(CREATED)),
    )
    await store.keys.insert(buildKey(), buildAuditEntry())
    return store
  }

  testStore('Postgres', openEmpty, async () => [await openEmpty(), await open()])

  /** Lists the columns of a table: each with its type, and whether it may be null. */
  const describeTables = (columns: { table: string; name: string; type: string }[]) =>
    Object.fromEntries(
      [...Map.groupBy(columns, ({ table }) => table)]
        .map(([table, own]) => [table, own.map(({ name, type }) => `${name} ${type}`)] as const)
        .sort(),
    )

  test('its tables have the columns of those in SQLite, in their order', async () => {
    const store = await openEmpty()
    const own = await server.run(
      `select table_name as table, column_name as name,
        case data_type when 'bigint' then 'INTEGER' when 'double precision' then 'REAL'
        else upper(data_type) end as type
      from information_schema.columns join pg_tables
        on tablename = table_name and schemaname = table_schema
      where table_schema = 'gateway' and column_name <> 'rowid'
        and table_name not in ('gate', 'numbers')
      order by table_name, ordinal_position`,
    )
    const db: Database = openSchema()
    const columns = db
      .query(
        `select s.name as "table", c.name, c.type from sqlite_schema s
        join pragma_table_info(s.name) c
        where s.type = 'table' and s.name not like 'sqlite%' order by s.name, c.cid`,
      )
      .all()
    expect(describeTables(own as never)).toEqual(describeTables(columns as never))
    db.close()
    await store.close()
  })

  test.each([
    ['changes', 'update gateway.keys set disabled = 1', 'keys h1 was changed by another program'],
    ['removes', 'delete from gateway.keys', 'keys h1 was removed'],
    ['adds', "insert into gateway.meta values ('a', 'b')", 'meta a was added by another program'],
  ])('what another program %s is found by its seal', async (_, change, problem) => {
    const store = await openWithKey()
    await server.run(change)
    expect((await store.seals.inspect()).rules).toEqual([problem])
    await store.close()
  })

  test('a log of seals whose end is gone is found', async () => {
    const store = await openWithKey()
    const [row] = (await server.run('select max(n) as last from gateway.seal_log')) as [
      { last: string },
    ]
    await server.run(`delete from gateway.seal_log where n = ${row.last}`)
    expect((await store.seals.inspect()).seals).toEqual([
      'rows were removed together with their seals',
    ])
    await store.close()
  })

  test('what stays on record is neither changed nor removed, by any program', async () => {
    const store = await openWithKey()
    for (const statement of ["update gateway.audit set action = 'a'", 'delete from gateway.audit'])
      expect(server.run(statement)).rejects.toThrow('what is in audit stays on record')
    await store.close()
  })

  test('a connection that is cut is made anew, and nothing is half done', async () => {
    const store = await openWithKey()
    await server.cut()
    let refused = 0
    for (let i = 0; ; i++) {
      const type = await readErrorType(
        store.keys.insert(buildKey({ hash: `more-${i}` }), buildAuditEntry({ id: `a-${i}` })),
      )
      if (type === undefined) break
      expect(type).toBe('unavailable')
      refused += 1
      expect(refused).toBeLessThan(10)
    }
    expect([...(await store.keys.all())]).toHaveLength(2)
    expect(await countAudit(store)).toBe(2)
    await store.close()
  })

  test('a database that cannot be reached is said to be unavailable', async () => {
    const url = 'postgres://postgres@127.0.0.1:1/postgres'
    expect(await readErrorType(openPostgres({ url, secrets: TEST_SECRETS }))).toBe('unavailable')
  })

  test('an end of the server in a transaction leaves nothing of it', async () => {
    const store = await openWithKey()
    const long = store.generations.record(
      Array.from({ length: 2_000 }, (_, i) => ({
        generation: buildGeneration({ id: `gen-${i}` }),
        charge: null,
      })),
    )
    await server.cut()
    const isDone = (await readErrorType(long)) === undefined
    const ids = await store.generations.listIds('gen-', 5_000).catch(() => [])
    expect([0, 2_000]).toContain(ids.length)
    if (isDone) expect(ids).toHaveLength(2_000)
    await store.close()
  })
} else
  describe('store: Postgres', () => {
    test.skip('is not installed, and cannot be', () => undefined)
  })
