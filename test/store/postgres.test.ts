import { afterAll, describe, expect, test } from 'bun:test'
import { type LedgerRow, sealLedgerRow } from '../../src/limits/chain.ts'
import { rollUp } from '../../src/observability/rollups.ts'
import { openPostgres } from '../../src/store/postgres.ts'
import type { Store } from '../../src/store/store.ts'
import { testStore } from '../suites/store.ts'
import { buildGeneration, buildStepCharge } from '../support/generation.ts'
import { TEST_MAC, TEST_SECRETS } from '../support/ledger.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'

if (await hasPostgres()) {
  const server = await startPostgres()
  afterAll(() => server[Symbol.asyncDispose]())
  const open = async () =>
    (await openPostgres({ url: server.url, secrets: TEST_SECRETS })) as unknown as Store
  testStore(
    'Postgres',
    async () => {
      await server.empty()
      return open()
    },
    async () => {
      await server.empty()
      return [await open(), await open()]
    },
  )

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
      await server.tamper(`set search_path to gateway; ${change}`)
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
