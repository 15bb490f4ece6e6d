import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { forgetNode } from '../../../src/app/nodes.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import { createDefaultConfig } from '../../../src/config.ts'
import type { Bound, HeldCall, Hold, Payer } from '../../../src/limits/ledger.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createMemoryBlobs } from '../../../src/store/blobs/memory.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { createLeaseStore } from '../../../src/store/postgres/leases.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { waitUntil } from '../../support/chat.ts'
import { buildGeneration } from '../../support/generation.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'
import { openSwitch } from '../../support/switch.ts'

/** A node, and how the calls of a test are made there. */
interface Node {
  gateway: Gateway
  /** Sets money aside; null where too little is left. */
  reserve(payer: Payer, nanos: bigint, bounds: Bound[], least?: bigint): Promise<Hold | null>
  /** Makes a call that costs so much. Returns whether it was made. */
  call(payer: Payer, bounds: Bound[], most: bigint, cost: bigint): Promise<boolean>
}

const payer: Payer = { key_hash: 'key-1', user_id: 'user-1', workspace_id: 'ws-1' }

const buildBound = (
  account: Bound['account'],
  limit: bigint,
  more: Partial<Bound> = {},
): Bound => ({
  ...{ account, limit, period: null, byok: false, message: `${account} is used up` },
  ...more,
})

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-leases-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })
  const opened = new Set<Gateway>()
  beforeEach(() => postgres.empty())
  afterEach(async () => {
    for (const gateway of opened) await gateway.close()
    opened.clear()
  })
  let calls = 0

  async function open(
    data = mkdtempSync(join(root, 'node-')),
    access: 'server' | 'command' = 'server',
  ): Promise<Node> {
    const config = createDefaultConfig()
    const storage = { ...config.storage, postgres: { url: postgres.url, connections: 3 } }
    const gateway = await openGateway({
      ...{ data, access, secret: 'a secret of tests that is long enough' },
      ...{ blobs: createMemoryBlobs(), config: { ...config, storage } },
    })
    opened.add(gateway)
    const { ledger, recorder } = gateway
    await ledger.leases?.begin()
    const reserve: Node['reserve'] = async (by, nanos, bounds, least = nanos) => {
      const estimate = {
        maximum: { own: nanos, byok: null },
        minimum: { own: least, byok: null },
      }
      try {
        return (await ledger.reserveElsewhere?.(by, estimate, bounds)) ?? null
      } catch (thrown) {
        if ((thrown as { type?: string }).type === 'payment_required') return null
        throw thrown
      }
    }
    return {
      ...{ gateway, reserve },
      async call(by, bounds, most, cost) {
        const hold = await reserve(by, most, bounds)
        if (!hold) return false
        const id = `gen-${++calls}`
        const now = new Date()
        const charge = {
          ...{ ...by, id, step: 1, day: toDayNumber(now), settled_at: now.toISOString() },
          ...{ byok: false, nanos: cost, source: 'exact' as const },
        }
        ledger.settle(hold, charge)
        await recorder.record({ generation: buildGeneration({ id, total_cost: cost }), charge })
        return true
      },
    }
  }

  const openThree = async (): Promise<[Node, Node, Node]> => [
    await open(),
    await open(),
    await open(),
  ]

  const readMoney = async (text: string): Promise<bigint> => {
    const [row] = (await postgres.run(`select coalesce((${text}), 0)::text as nanos`)) as {
      nanos: string
    }[]
    return BigInt(row?.nanos ?? 0)
  }
  const readSpent = () => readMoney('select sum(nanos) from gateway.spend')

  /** Lists meters whose use is not what was spent and lent of them, and those beyond a limit. */
  async function listFaults(limits: Record<string, bigint>): Promise<unknown[]> {
    const rows = (await postgres.run(`select meter, used::text, (coalesce((select sum(nanos)
        from gateway.spend where case split_part(meter, ' ', 2) when 'key' then key_hash
          when 'workspace' then workspace_id else '' end = split_part(meter, ' ', 3)), 0)
      + coalesce((select sum(amount) from gateway.leases l where l.meter = a.meter), 0))::text
        as expected from gateway.accounts a`)) as {
      meter: string
      used: string
      expected: string
    }[]
    return rows.filter(
      ({ meter, used, expected }) =>
        used !== expected || BigInt(used) > (limits[meter] ?? 2n ** 62n),
    )
  }

  test('three nodes spend a limit to its end, and never more at any moment', async () => {
    const nodes = await openThree()
    const limit = 10_000n
    const whole = 25_000n
    const payers = [1, 2, 3].map(i => ({ ...payer, key_hash: `key-${i}` }))
    const listBounds = ({ key_hash }: Payer) => [
      buildBound(`key ${key_hash}`, limit),
      buildBound('workspace ws-1', whole),
    ]
    const limits = { 'own workspace ws-1': whole } as Record<string, bigint>
    for (const { key_hash } of payers) limits[`own key ${key_hash}`] = limit
    let isOver = false
    const watch = (async () => {
      for (; !isOver; await Bun.sleep(5)) expect(await listFaults(limits)).toEqual([])
    })()
    let refused = 0
    const callers = nodes.flatMap(node =>
      payers.flatMap(by =>
        [1, 2].map(async () => {
          while (await node.call(by, listBounds(by), 100n, BigInt(Math.ceil(Math.random() * 100))));
          refused += 1
        }),
      ),
    )
    await Promise.all(callers)
    isOver = true
    await watch
    expect(refused).toBe(callers.length)
    const spent = await readSpent()
    expect(spent).toBeLessThanOrEqual(whole)
    // Each node may be left with less than a call needs of it.
    expect(spent).toBeGreaterThan(whole - 3n * 100n)
    expect(await readMoney('select sum(nanos) from gateway.ledger')).toBe(spent)
    expect(await readMoney('select sum(total_cost) from gateway.generations')).toBe(spent)
    for (const { gateway } of nodes)
      await waitUntil(() => gateway.ledger.getSpent('workspace ws-1', null, false) === spent)
  })

  test('what is plenty is asked for seldom', async () => {
    const { call } = await open()
    const bounds = [buildBound('key key-1', 10n ** 12n)]
    let asked = 0
    for (let i = 0; i < 200; i++) {
      const [row] = (await postgres.run('select lent from gateway.nodes')) as { lent: string }[]
      asked = row?.lent ? (JSON.parse(row.lent) as { number: number }).number : 0
      expect(await call(payer, bounds, 1_000n, 900n)).toBe(true)
    }
    expect(asked).toBeLessThanOrEqual(20)
  })

  describe('what one node has on lease', () => {
    test('is given to another that has too little', async () => {
      const [a, b] = await openThree()
      const bounds = [buildBound('key key-1', 1_000n)]
      expect(await a.call(payer, bounds, 400n, 100n)).toBe(true)
      // All but what was spent is in the hands of the first.
      expect(await readMoney('select amount from gateway.leases where amount > 0')).toBe(700n)
      expect(await b.call(payer, bounds, 800n, 800n)).toBe(true)
      expect(await readSpent()).toBe(900n)
    })

    test('stays with what is set aside there, until that is over', async () => {
      const [a, b] = await openThree()
      const bounds = [buildBound('key key-1', 1_000n)]
      const hold = await a.reserve(payer, 400n, bounds)
      expect(hold?.amounts.own).toBe(400n)
      expect(await b.reserve(payer, 700n, bounds)).toBeNull()
      expect((await b.reserve(payer, 600n, bounds))?.amounts.own).toBe(600n)
    })

    test('comes back when the node ends', async () => {
      const [a] = await openThree()
      await a.call(payer, [buildBound('key key-1', 1_000n)], 400n, 100n)
      opened.delete(a.gateway)
      await a.gateway.close()
      expect(await readMoney('select used from gateway.accounts')).toBe(100n)
      expect(await readMoney('select sum(amount) from gateway.leases')).toBe(0n)
    })

    test('comes back when a killed node has started again, or was forgotten', async () => {
      const data = mkdtempSync(join(root, 'killed-'))
      const a = await open(data)
      const b = await open()
      await a.call(payer, [buildBound('key key-1', 1_000n)], 400n, 100n)
      await b.call(payer, [buildBound('workspace ws-1', 1_000n)], 400n, 50n)
      const [first] = (await b.gateway.store.nodes?.list()) ?? []
      await postgres.run(
        `update gateway.nodes set left_at = now() where id = '${a.gateway.store.nodes?.ownId}'`,
      )
      await open(data)
      expect(await listFaults({})).toEqual([])
      expect(
        await readMoney("select used from gateway.accounts where meter = 'own key key-1'"),
      ).toBe(150n)
      expect(first).toBeDefined()
      const [own] = (await postgres.run(
        'select id, incarnation from gateway.nodes where id in (select node from gateway.leases)',
      )) as { id: string; incarnation: string }[]
      expect(
        await b.gateway.store.nodes?.forget(own ?? { id: '', incarnation: '' }, buildAuditEntry()),
      ).toBe(true)
      expect(await readMoney('select sum(amount) from gateway.leases')).toBe(0n)
      expect(await listFaults({})).toEqual([])
    })
  })

  test('what ran at a node that does not come back is charged when it is forgotten', async () => {
    const { gateway, reserve } = await open()
    const hold = await reserve(payer, 500n, [buildBound('key key-1', 1_000n)])
    expect(hold?.amounts.own).toBe(500n)
    const held: HeldCall = {
      ...{ ...payer, id: 'gen-dead', request_id: 'request-dead', step: 1, byok: false },
      ...{ created_at: new Date().toISOString(), api_type: 'completions', model: 'acme/small' },
      ...{ streamed: true, nanos: 500n, spent: 0n },
    }
    await gateway.ledger.leases?.noteRunning([{ held, spent: 120n }])
    const [node] = (await gateway.store.nodes?.list()) ?? []
    await postgres.run("update gateway.nodes set incarnation = 'of a process that was killed'")
    const command = await open(undefined, 'command')
    const forget = (hasEnded?: boolean) =>
      forgetNode(command.gateway, getOperator(command.gateway), node?.id ?? '', { hasEnded })
    await expect(forget(true)).rejects.toThrow(`serves: gateway nodes drain ${node?.id} stops it`)
    await postgres.run("update gateway.nodes set seen_at = now() - interval '10 seconds'")
    await expect(forget()).rejects.toThrow(
      /was heard of 1\d s ago: .* forgotten in \d\d s, or now if its process has ended: --ended$/,
    )
    expect(await readMoney('select sum(amount) from gateway.leases')).toBeGreaterThan(0n)
    await forget(true)
    expect(await readSpent()).toBe(120n)
    expect(await readMoney('select used from gateway.accounts')).toBe(120n)
    expect(await readMoney('select sum(amount) from gateway.leases')).toBe(0n)
    const [record] = await postgres.run('select id, "usageSource" from gateway.generations')
    expect(record).toEqual({ id: 'gen-dead', usageSource: 'estimated' })
    await forget()
    expect(await readSpent()).toBe(120n)
  })

  test('what a node has not given back at its end comes back when it is forgotten', async () => {
    const a = await open()
    const [node] = (await a.gateway.store.nodes?.list()) ?? []
    await a.reserve(payer, 500n, [buildBound('key key-1', 1_000n)])
    await a.gateway.close()
    opened.delete(a.gateway)
    expect(await readMoney('select sum(amount) from gateway.leases')).toBe(500n)
    const { gateway } = await open(undefined, 'command')
    await forgetNode(gateway, getOperator(gateway), node?.id ?? '')
    expect(await readMoney('select sum(amount) from gateway.leases')).toBe(0n)
    expect(await listFaults({})).toEqual([])
  })

  test('what is charged before a node lends is counted once there', async () => {
    const data = mkdtempSync(join(root, 'early-'))
    const { gateway } = await open(data)
    await gateway.recorder.record({
      generation: buildGeneration({ id: 'gen-early' }),
      charge: {
        ...{ ...payer, id: 'gen-early', step: 1, day: toDayNumber(new Date()), byok: false },
        ...{ settled_at: new Date().toISOString(), nanos: 70n, source: 'exact' },
      },
    })
    gateway.ledger.charge({ ...payer, day: toDayNumber(new Date()), byok: false, nanos: 70n })
    // It begins once what an earlier process has left is charged.
    await gateway.ledger.leases?.begin()
    await gateway.ledger.leases?.beat()
    expect(gateway.ledger.getSpent('key key-1', null, false)).toBe(70n)
  })

  test('limits of windows that are long over are forgotten, with what nobody has of them', async () => {
    const { gateway, call } = await open()
    const bounds = [buildBound('end_user key key-1 somebody', 1_000n, { period: 'daily' })]
    const by: Payer = { ...payer, subaccounts: ['end_user key key-1 somebody'] }
    expect(await call(by, bounds, 100n, 100n)).toBe(true)
    await gateway.ledger.leases?.end()
    await gateway.store.shared?.sweep()
    expect(await readMoney('select count(*) from gateway.accounts')).toBe(1n)
    await postgres.run('update gateway.accounts set first_day = first_day - 40')
    await gateway.store.shared?.sweep()
    expect(await readMoney('select count(*) from gateway.accounts')).toBe(0n)
    expect(await readMoney('select count(*) from gateway.leases')).toBe(0n)
    expect(await call(by, bounds, 901n, 901n)).toBe(false)
    expect(await call(by, bounds, 900n, 900n)).toBe(true)
  })

  test('servers that have ended leave nothing that each question would read', async () => {
    const { gateway, call } = await open()
    const bounds = [buildBound('key key-1', 1_000n)]
    await call(payer, bounds, 10n, 5n)
    for (let i = 0; i < 3; i++) {
      const other = await open()
      expect(await other.call(payer, bounds, 10n, 5n)).toBe(true)
      await other.gateway.ledger.leases?.end()
      await other.gateway.close()
      opened.delete(other.gateway)
    }
    await gateway.store.shared?.sweep()
    expect(await postgres.run('select node from gateway.leases')).toEqual([
      { node: gateway.store.nodes?.ownId },
    ])
    expect(await listFaults({ 'own key key-1': 1_000n })).toEqual([])
  })

  test('a limit that was lowered holds with the next call', async () => {
    const [a] = await openThree()
    await a.call(payer, [buildBound('key key-1', 10_000n)], 100n, 100n)
    expect(await a.call(payer, [buildBound('key key-1', 150n)], 100n, 100n)).toBe(false)
    expect(await a.call(payer, [buildBound('key key-1', 150n)], 50n, 50n)).toBe(true)
    expect(await readSpent()).toBe(150n)
  })

  test('a call that costs more than was set aside is counted for all', async () => {
    const [a, b] = await openThree()
    const bounds = [buildBound('key key-1', 1_000n)]
    expect(await a.call(payer, bounds, 500n, 900n)).toBe(true)
    expect(await b.call(payer, bounds, 200n, 200n)).toBe(false)
    expect(await b.call(payer, bounds, 100n, 100n)).toBe(true)
    expect(await listFaults({ 'own key key-1': 1_000n })).toEqual([])
  })

  test('windows count what was spent in them', async () => {
    const [a, b] = await openThree()
    await a.call(payer, [], 500n, 500n)
    const day = toDayNumber(new Date())
    await postgres.run(`update gateway.spend set day = ${day - 40}`)
    await a.call(payer, [], 100n, 100n)
    const bounds = [
      buildBound('key key-1', 300n, { period: 'monthly' }),
      buildBound('key key-1', 850n),
    ]
    expect(await b.call(payer, bounds, 250n, 250n)).toBe(false)
    expect(await b.call(payer, bounds, 200n, 200n)).toBe(true)
    expect(await a.call(payer, bounds.slice(1), 50n, 50n)).toBe(true)
    expect(await a.call(payer, bounds.slice(1), 1n, 1n)).toBe(false)
  })

  test('what another program has changed of it is found', async () => {
    const { gateway, call } = await open()
    const inspect = async () =>
      (await gateway.store.ledger.inspect(() => undefined)).integrity.join('\n')
    const accounts = ['key key-1', 'member user-1', 'workspace ws-1', 'all'] as const
    const bounds = accounts.flatMap(account => [
      buildBound(account, 10_000n),
      buildBound(account, 10_000n, { byok: true, period: 'weekly' }),
    ])
    for (let i = 0; i < 3; i++) expect(await call(payer, bounds, 100n, 70n)).toBe(true)
    expect(await inspect()).toBe('')
    for (const [meter, change] of [
      ['own all', 'used - 1'],
      ['any workspace ws-1', 'used - 1000'],
    ] as const) {
      await postgres.run(`update gateway.accounts set used = ${change} where meter = '${meter}'`)
      expect(await inspect()).toContain(`the limits of ${meter} count`)
    }
    await postgres.run("insert into gateway.leases values ('own key other', 'nobody', 5)")
    expect(await inspect()).toContain('nobody has own key other on lease, and is no node')
  })

  test('an answer that was not heard is found, and one that never was is not', async () => {
    await open()
    const [node] = (await postgres.run('select id, incarnation from gateway.nodes')) as {
      id: string
      incarnation: string
    }[]
    const pool = connect(postgres.url, 1)
    const store = createLeaseStore(pool, node ?? { id: '', incarnation: '' })
    const limits = new Map([['' as const, 1_000n]])
    const request = { meter: 'own all' as const, limits, returned: 0n, least: 10n, wanted: 10n }
    const lent = await store.exchange(7, [request])
    expect(lent).toEqual([{ meter: 'own all', amount: 10n, left: 990n, isElsewhere: false }])
    expect(await store.findAnswer(7)).toEqual(lent)
    expect(await store.findAnswer(8)).toBeNull()
    await pool.close()
  })

  test('others wait for few trips while a node is lent something', async () => {
    await open()
    const [node] = (await postgres.run('select id, incarnation from gateway.nodes')) as {
      id: string
      incarnation: string
    }[]
    await using way = openSwitch(postgres.url)
    const pool = connect(way.url, 1)
    const store = createLeaseStore(pool, node ?? { id: '', incarnation: '' })
    const limits = new Map([['' as const, 1_000n]])
    const request = { meter: 'own all' as const, limits, returned: 0n, least: 10n, wanted: 10n }
    // Statements are prepared by what comes first.
    await store.exchange(1, [request])
    await store.exchange(2, [request])
    const before = way.trips
    await store.exchange(3, [request])
    // That it begins, what it asks, what it changes, and that it ends.
    expect(way.trips - before).toBeLessThanOrEqual(4)
    await pool.close()
  })

  describe('while the database is away', () => {
    test('what is in hand is spent, and more is 503', async () => {
      const { gateway, reserve, call } = await open()
      const bounds = [buildBound('key key-1', 10_000n)]
      expect(await call(payer, bounds, 100n, 10n)).toBe(true)
      const inHand =
        gateway.ledger.leases?.getAvailable({ account: 'key key-1', byok: false }) ?? 0n
      expect(inHand).toBeGreaterThan(100n)
      await postgres.stop()
      expect((await reserve(payer, 100n, bounds))?.amounts.own).toBe(100n)
      await expect(reserve(payer, inHand, bounds)).rejects.toThrow('The database cannot be reached')
      await postgres.start()
      expect((await reserve(payer, inHand, bounds))?.amounts.own).toBe(inHand)
    })
  })
} else
  describe('leases of Postgres', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
