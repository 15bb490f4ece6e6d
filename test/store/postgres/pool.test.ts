import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { createDefaultConfig } from '../../../src/config.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { listAudit } from '../../../src/resources/audit.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { connect, run } from '../../../src/store/postgres/connection.ts'
import { waitUntil } from '../../support/chat.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'
import { hasPostgres, startPostgres, startStandby } from '../../support/postgres.ts'
import { openSwitch } from '../../support/switch.ts'

const succeeds = (work: () => Promise<unknown>) => () =>
  work().then(
    () => true,
    () => false,
  )

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-pool-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })

  async function open(url: string) {
    const config = createDefaultConfig()
    const gateway = await openGateway({
      ...{ data: mkdtempSync(join(root, 'data-')), access: 'server' },
      secret: 'a secret of tests that is long enough',
      config: { ...config, storage: { ...config.storage, postgres: { url, connections: 3 } } },
    })
    const make = (name: string) => createKey(gateway, getOperator(gateway), { name })
    return { gateway, make, [Symbol.asyncDispose]: () => gateway.close() }
  }

  describe('connections', () => {
    test('over which nothing comes any more are given up, and no record is lost or there twice', async () => {
      await using way = openSwitch(postgres.url)
      await using opened = await open(way.url)
      const { gateway, make } = opened
      const ids = Array.from({ length: 40 }, (_, i) => `call ${i}`)
      const record = (id: string) =>
        gateway.recorder.record({
          generation: buildGeneration({ id }),
          charge: buildStepCharge({ id }),
        })
      await Promise.all(ids.slice(0, 10).map(record))
      const sent = ids.slice(10, 20).map(record)
      const heard = new Promise<void>(resolve => {
        void gateway.store.shared?.listen(news => news === 'change' && resolve())
      })
      way.lead(postgres.url)
      for (const id of ids.slice(20)) await record(id)
      await Promise.all(sent)
      await waitUntil(succeeds(() => make('after')))
      await gateway.recorder.flush()
      const recorded = await postgres.run('select id from gateway.generations order by rowid')
      expect(recorded).toEqual(ids.map(id => ({ id })))
      // What is told is heard over the new ones too.
      await postgres.run("select pg_notify('gateway', 'another server')")
      await heard
    })

    test('to a database that only follows another one by now are given up', async () => {
      await postgres.run('drop schema gateway cascade')
      await using way = openSwitch(postgres.url)
      await using opened = await open(way.url)
      const { gateway, make } = opened
      await make('before')
      await using standby = await startStandby(postgres)
      way.lead(standby.url)
      await postgres.cut()
      await expect(make('meanwhile')).rejects.toMatchObject({ status: 503 })
      await waitUntil(succeeds(() => gateway.store.version()))
      await expect(make('meanwhile')).rejects.toMatchObject({ status: 503 })
      way.lead(postgres.url)
      await waitUntil(succeeds(() => make('after')))
    })

    test.each([
      [
        'administration',
        'gate',
        (gateway: Gateway, i: number) =>
          createKey(gateway, getOperator(gateway), { name: `key ${i}` }),
      ],
      ['reports', 'audit', (gateway: Gateway) => listAudit(gateway, getOperator(gateway), {})],
    ])('are left for calls where %s wait for long', async (_, table, ask) => {
      await postgres.empty()
      await using opened = await open(postgres.url)
      const { gateway } = opened
      await gateway.ledger.leases?.begin()
      const other = new SQL(postgres.url, { max: 1 })
      let asked: Promise<unknown>[] = []
      await other.begin(async busy => {
        await busy.unsafe(`lock table gateway.${table} in access exclusive mode`)
        asked = Array.from({ length: 12 }, (_, i) => ask(gateway, i))
        const waits = `select from pg_stat_activity where wait_event_type = 'Lock'`
        await waitUntil(async () => (await postgres.run(waits)).length > 0)
        const payer = { key_hash: 'key-1', user_id: 'user-1', workspace_id: 'ws-1' }
        const amounts = { own: 10n, byok: null }
        const bound = { account: 'key key-1' as const, limit: 100n, period: null, byok: false }
        const hold = gateway.ledger.reserveElsewhere?.(
          payer,
          { maximum: amounts, minimum: amounts },
          [{ ...bound, message: 'used up' }],
        )
        expect((await hold)?.amounts.own).toBe(10n)
        const [generation, charge] = [buildGeneration({ id: 'a' }), buildStepCharge({ id: 'a' })]
        await gateway.recorder.record({ generation, charge })
        expect(gateway.recorder.isFailing).toBe(false)
      })
      await other.close()
      await Promise.all(asked)
    })

    test('on which something takes long are kept', async () => {
      const pool = connect(postgres.url, 2)
      const list = async () => {
        const asked = [1, 2].map(() =>
          run<{ pid: number }>(pool, 'select pg_backend_pid() as pid, pg_sleep(0.05)'),
        )
        return (await Promise.all(asked)).map(([row]) => row?.pid).sort()
      }
      const before = await list()
      let isOver = false
      const long = run(pool, 'select pg_sleep(7)').finally(() => {
        isOver = true
      })
      while (!isOver) await run(pool, 'select pg_sleep(0.1)')
      expect(await long).toHaveLength(1)
      expect(await list()).toEqual(before)
      await pool.close()
    })
  })
} else
  describe('connections to Postgres', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
