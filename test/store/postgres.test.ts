import type { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { type LedgerRow, sealLedgerRow } from '../../src/limits/chain.ts'
import { rollUp } from '../../src/observability/rollups.ts'
import { buildDefaultWorkspace } from '../../src/resources/workspaces.ts'
import { connect } from '../../src/store/postgres/connection.ts'
import { LOCK_LEDGER } from '../../src/store/postgres/leases.ts'
import { SNAPSHOT, takeSteps } from '../../src/store/postgres/reader.ts'
import { OF_SERVERS, readColumns } from '../../src/store/postgres/seals.ts'
import { openPostgres, type PostgresOptions } from '../../src/store/postgres.ts'
import { inspectSeals } from '../../src/store/sql/seals/inspection.ts'
import type { Store } from '../../src/store/store.ts'
import { buildKey, CREATED, countAudit, readErrorType, WORKSPACE } from '../suites/store/rows.ts'
import { testSeals } from '../suites/store/seals.ts'
import { testStore } from '../suites/store.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { buildGeneration, buildRecordEntry, buildStepCharge } from '../support/generation.ts'
import { TEST_MAC, TEST_SECRETS } from '../support/ledger.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'
import { openSchema } from '../support/statements.ts'

if (await hasPostgres()) {
  const server = await startPostgres()
  /** Stays open to inspect what tests leave. */
  const inspector = connect(server.url, 1)
  afterAll(async () => {
    await inspector.close()
    await server[Symbol.asyncDispose]()
  })

  const open = (more: Partial<PostgresOptions> = {}) =>
    openPostgres({ url: server.url, secrets: TEST_SECRETS, ...more })

  async function openEmpty(more: Partial<PostgresOptions> = {}): Promise<Store> {
    await server.empty()
    return open(more)
  }

  let columns: ReturnType<typeof readColumns> | undefined

  /** Inspects the rows and their seals, without the schema, which no store of these tests changes. */
  async function inspectRows() {
    columns ??= readColumns(inspector)
    const inspection = inspectSeals(TEST_MAC, await columns)
    return (await inspector.begin(SNAPSHOT, one => takeSteps(one, inspection))) as never
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

  testStore(
    'Postgres',
    // As few as a store goes on with: a connection costs Postgres as much as a small test.
    () => openEmpty({ connections: 2 }),
    async () => [await openEmpty(), await open()],
    inspectRows,
  )

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
        and table_name not in ('${OF_SERVERS.join("', '")}')
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

  // The suite changes the schema, too: each has a copy of a database that is made once.
  let copies = 0
  testSeals(
    'Postgres',
    async () => {
      const locate = (name: string) => server.url.replace(/postgres$/, name)
      if (copies++ === 0) {
        await server.run('create database original')
        const store = await openPostgres({ url: locate('original'), secrets: TEST_SECRETS })
        await store.close()
      }
      const name = `copy_${copies}`
      await server.run(`create database ${name} template original strategy file_copy`)
      const url = locate(name)
      return {
        open: secrets => openPostgres({ url, secrets }),
        run: async statement => {
          const program = new SQL(url, { max: 1 })
          const results = await program.unsafe(`set search_path to gateway; ${statement}`)
          await program.close()
          return results.at(-1) as unknown[]
        },
      }
    },
    {
      trigger: 'trigger credits_stay on credits',
      dropTrigger: 'drop trigger credits_stay on credits',
    },
  )

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
    const long = readErrorType(
      store.generations.record(
        Array.from({ length: 2_000 }, (_, i) => ({
          generation: buildGeneration({ id: `gen-${i}` }),
          charge: null,
        })),
      ),
    )
    await server.cut()
    const isDone = (await long) === undefined
    const ids = await store.generations.listIds('gen-', 5_000).catch(() => [])
    expect([0, 2_000]).toContain(ids.length)
    if (isDone) expect(ids).toHaveLength(2_000)
    await store.close()
  })

  test('a batch is one statement where nobody else has moved money, and follows whoever has', async () => {
    await server.empty()
    const [one, other] = [await open(), await open()]
    const countMoves = async () => {
      const [row] = await server.run("select moves from gateway.numbers where name = 'generations'")
      return Number((row as { moves: unknown }).moves)
    }
    let calls = 0
    // A transaction that looks first counts that, and what it moves: a statement that guesses, once.
    const record = async (store: Store) => {
      const before = await countMoves()
      calls += 2
      const ids = [`gen-${calls - 1}`, `gen-${calls}`]
      await store.generations.record(ids.map(id => buildRecordEntry(id)))
      return (await countMoves()) - before
    }
    expect([await record(one), await record(one), await record(one)]).toEqual([2, 1, 1])
    expect([await record(other), await record(other)]).toEqual([2, 1])
    // Guesses in vain, and not again while the other one goes on.
    expect([await record(one), await record(other), await record(one)]).toEqual([2, 2, 2])
    expect([await record(one), await record(one)]).toEqual([2, 1])
    // Whoever lends, or gives credits, has moved money too.
    await server.run(`set search_path to gateway; ${LOCK_LEDGER.sql.replace('?', "'generations'")}`)
    expect([await record(one), await record(one), await record(one)]).toEqual([2, 2, 1])
    // A program from before this was counted says nothing.
    await server.run(`insert into gateway.nodes
      (id, incarnation, name, version, claimed_at, seen_at, schema_version)
      values ('old', 'old', 'old', '0', now(), now(), 3)`)
    expect([await record(one), await record(one)]).toEqual([2, 2])
    await Promise.all([one, other, one, other].map(record))
    const rows: LedgerRow[] = []
    const { records, unmatched } = await one.ledger.inspect(row => rows.push(row))
    expect([records.problems, unmatched]).toEqual([[], []])
    const hashes = rows.map((row, i) => sealLedgerRow(TEST_MAC, rows[i - 1]?.hash ?? '', row))
    expect(rows.map(({ hash }) => hash)).toEqual(hashes)
    expect(rows.map(({ seq }) => seq)).toEqual(Array.from({ length: calls }, (_, i) => i + 1))
    await one.close()
    await other.close()
  })

  describe('what another program has changed in Postgres is found:', () => {
    /** Has four charged calls, two to a transaction; changes something, and tells what is wrong. */
    const findWrong = async (change: string) => {
      await server.empty()
      const store = await open()
      for (const ids of ['ab', 'cd'])
        await store.generations.record(
          [...ids].map(id => ({
            generation: buildGeneration({ id }),
            charge: buildStepCharge({ id }),
          })),
        )
      await rollUp({ store })
      await server.run(`set search_path to gateway; ${change}`)
      await rollUp({ store })
      const rows: LedgerRow[] = []
      const { records, unmatched, integrity } = await store.ledger.inspect(row => rows.push(row))
      expect(integrity).toEqual([])
      const broken = rows.filter(
        (row, i) => row.hash !== sealLedgerRow(TEST_MAC, rows[i - 1]?.hash ?? '', row),
      )
      const sums = await store.rollups.verify()
      await store.close()
      return {
        records: records.problems,
        chain: broken.map(({ seq }) => seq),
        unmatched: unmatched.map(({ id }) => id),
        sums,
      }
    }
    const NOTHING = { records: [], chain: [], unmatched: [], sums: [] }
    type Wrong = Awaited<ReturnType<typeof findWrong>>

    const CHANGES: [what: string, sql: string, wrong: Partial<Wrong>][] = [
      ['nothing', 'select 1', {}],
      [
        'a record',
        "update generations set finish_reason = 'length' where id = 'c'",
        { records: ['record rows 3 to 4 (c to d) are not as written'] },
      ],
      [
        'a record that is gone',
        "delete from generations where id = 'b'",
        {
          records: ['record rows 1 to 2: some are missing'],
          unmatched: ['b'],
          sums: [
            'they have 4 calls, and the records 3',
            '2026-03-04 by hour: the sums of acme/small differ',
          ],
        },
      ],
      [
        'a record that is new',
        `insert into generations select (jsonb_populate_record(one, '{"rowid": 5, "id": "e"}')).*
          from generations as one where id = 'd'`,
        { records: ['record row 5 (e) was added by another program'], unmatched: ['e'] },
      ],
      [
        'a list that is garbled, which keeps no other from being summed',
        `update generations set provider_responses = '{' where id = 'a';
          delete from usage_hours; delete from usage_days; delete from usage_endpoint_days;
          delete from usage_rows; delete from rollup_cursor`,
        {
          records: [
            `record row 1 (a) of ${new URL(server.url).host}/postgres: provider_responses is garbled`,
          ],
        },
      ],
      [
        'a seal that is gone',
        'delete from record_seals where n = 2',
        {
          records: [
            'seals of records are missing before row 3',
            'record rows 3 to 4 (a to d) are not as written',
          ],
        },
      ],
      [
        'the first seal',
        'update record_seals set last_row = 2 where n = 1',
        { records: ['the first seal of records is missing, or of another secret'] },
      ],
      [
        'a charge',
        'update ledger set nanos = nanos + 1 where seq = 3',
        { chain: [3], unmatched: ['c'] },
      ],
      [
        'a charge that is gone',
        'delete from ledger where seq = 2',
        { chain: [3], unmatched: ['b'] },
      ],
      [
        'a sum of an hour',
        'update usage_hours set cost = cost + 1',
        {
          sums: [
            '2026-03-04 by hour: the sums of acme/small differ',
            '2026-03-04 by day: the sums of acme/small differ',
          ],
        },
      ],
      [
        'a sum by endpoint',
        'update usage_endpoint_days set prompt_tokens = prompt_tokens - 1',
        { sums: ['2026-03-04 by endpoint: the sums of acme/small differ'] },
      ],
      [
        'a day',
        'update usage_days set start = start + 1',
        {
          sums: [
            '2026-03-04 by day: the sums of acme/small differ',
            '2026-03-04 by endpoint: the sums of acme/small differ',
            '2026-03-05 by day: the sums of acme/small differ',
            '2026-03-05 by endpoint: the sums of acme/small differ',
          ],
        },
      ],
    ]
    for (const [what, sql, wrong] of CHANGES)
      test(what, async () => {
        expect(await findWrong(sql)).toEqual({ ...NOTHING, ...wrong })
      })
  })
} else
  describe('store: Postgres', () => {
    test.skip('is not installed, and cannot be', () => undefined)
  })
