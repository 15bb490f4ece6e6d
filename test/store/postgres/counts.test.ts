import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/base/clock.ts'
import type { GatewayError } from '../../../src/base/errors.ts'
import { openMac } from '../../../src/base/mac.ts'
import { openSeal } from '../../../src/base/seal.ts'
import { type Config, createDefaultConfig } from '../../../src/config.ts'
import { type Counters, type Grant, openCounters } from '../../../src/limits/counters.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { type NodeCounts, openSharedCounts } from '../../../src/store/postgres/counts.ts'
import { openPostgres } from '../../../src/store/postgres.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'

const NO_BOOKS = {
  reserve: () => {
    throw new Error('No money is counted here')
  },
  reserveElsewhere: null,
  settle: () => undefined,
  release: () => undefined,
} as never

const FREE = { models: ['a/b:free'] }
const PAID = { models: ['a/b'] }

/** One of several processes over one database. */
interface TestNode {
  name: string
  shared: NodeCounts
  counters: Counters
}

if (await hasPostgres()) {
  const postgres = await startPostgres()
  afterAll(() => postgres[Symbol.asyncDispose]())

  beforeAll(async () => {
    const secret = Buffer.from('a secret of tests that is long enough')
    const seal = () => openSeal(secret, 'tests')
    const secrets = { seal, presetSeal: seal, contentSeal: seal, destinationSeal: seal }
    const store = await openPostgres({
      url: postgres.url,
      secrets: { ...secrets, mac: openMac(secret, 'records') },
    })
    await store.close()
  })

  const nodes: TestNode[] = []
  let keys = 0
  let key: string
  beforeEach(() => {
    key = `key-${++keys}`
  })
  afterEach(async () => {
    for (const { shared } of nodes.splice(0)) await shared.close()
    await postgres.run('delete from gateway.nodes')
    await postgres.run('delete from gateway.counts')
    await postgres.run('delete from gateway.places')
  })

  const configure = (limits: Partial<Config['limits']>, more: Partial<Config> = {}): Config => {
    const config = createDefaultConfig()
    return { ...config, ...more, limits: { ...config.limits, free_models: false, ...limits } }
  }

  /** Opens a node that counts for these limits. Its wall clock may be wrong. */
  async function open(config: Config, ahead = 0, freeSoFar = 0): Promise<TestNode> {
    const name = `node-${nodes.length}`
    await postgres.run(
      `insert into gateway.nodes (id, incarnation, name, version, claimed_at, seen_at)
        values ('${name}', '${name}', '${name}', '1', clock_timestamp(), clock_timestamp())
        on conflict (id) do update set seen_at = clock_timestamp(), left_at = null`,
    )
    const { ticks } = systemClock
    const shared = await openSharedCounts({
      ...{ connect: () => connect(postgres.url, 1), incarnation: name, ticks },
    })
    const clock = { ticks, now: () => new Date(Date.now() + ahead) }
    const counters = openCounters(config, clock, NO_BOOKS, freeSoFar, { shared })
    const node = { name, shared, counters }
    nodes.push(node)
    return node
  }

  const openThree = async (config: Config) => [
    await open(config),
    await open(config, 18 * 3_600_000),
    await open(config, -5 * 60_000),
  ]

  const claim = (call = PAID) => ({ actor: { key_hash: key }, call, request: true, place: true })

  /** What became of a call: 200, or the status that it was refused with. */
  const attempt = async (take: () => unknown): Promise<number> => {
    try {
      await take()
      return 200
    } catch (thrown) {
      return (thrown as GatewayError).status
    }
  }
  const count = (statuses: number[], status: number) =>
    statuses.filter(one => one === status).length
  const tally = async (attempts: Promise<number>[]) => {
    const statuses = await Promise.all(attempts)
    return { allowed: count(statuses, 200), refused: count(statuses, 429), all: statuses.length }
  }

  const readMinute = async () => {
    const [row] = await postgres.run(
      'select floor(extract(epoch from clock_timestamp()) / 60)::int as minute',
    )
    return (row as { minute: number }).minute
  }

  /** Repeats what has to be within one minute of the database, with another key. */
  async function withinMinute(use: () => Promise<void>): Promise<void> {
    for (;;) {
      const minute = await readMinute()
      let failure: unknown
      await use().catch(thrown => {
        failure = thrown
      })
      if ((await readMinute()) === minute) {
        if (failure) throw failure
        return
      }
      key = `key-${++keys}`
    }
  }

  describe('a limit by minutes', () => {
    test('holds over three nodes, whatever their clocks, exactly and with few trips', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 600 }))
        const before = three.reduce((sum, { shared }) => sum + shared.trips, 0)
        const calls = Array.from({ length: 3_000 }, (_, i) =>
          attempt(() => three[i % 3]?.counters.take(claim())),
        )
        expect(await tally(calls)).toEqual({ allowed: 600, refused: 2_400, all: 3_000 })
        const trips = three.reduce((sum, { shared }) => sum + shared.trips, 0) - before
        expect(trips).toBeLessThanOrEqual(90)
      }))

    test('is used up also by calls that come one after the other, in few trips', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 600 }))
        const before = three.reduce((sum, { shared }) => sum + shared.trips, 0)
        for (let i = 0; i < 600; i++)
          expect(await attempt(() => three[i % 3]?.counters.take(claim()))).toBe(200)
        const trips = three.reduce((sum, { shared }) => sum + shared.trips, 0) - before
        expect(trips).toBeLessThanOrEqual(120)
        for (const { counters } of three)
          expect(await attempt(() => counters.take(claim()))).toBe(429)
      }))

    test('is for whoever calls: what others have in hand is returned', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 50 }))
        for (const { counters } of three)
          expect(await attempt(() => counters.take(claim()))).toBe(200)
        for (let i = 3; i < 50; i++)
          expect(await attempt(() => three[0]?.counters.take(claim()))).toBe(200)
        for (const { counters } of three)
          expect(await attempt(() => counters.take(claim()))).toBe(429)
      }))

    test('of five holds', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 5 }))
        const calls = Array.from({ length: 30 }, (_, i) =>
          attempt(() => three[i % 3]?.counters.take(claim())),
        )
        expect(await tally(calls)).toEqual({ allowed: 5, refused: 25, all: 30 })
      }))

    test('an exhausted one is not asked for again by each caller', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 2 }))
        const [first] = three
        for (let i = 0; i < 3; i++) await attempt(() => first?.counters.take(claim()))
        const before = first?.shared.trips ?? 0
        for (let i = 0; i < 1_000; i++)
          expect(await attempt(() => first?.counters.take(claim()))).toBe(429)
        expect((first?.shared.trips ?? 0) - before).toBeLessThanOrEqual(10)
      }))

    test('what was not made is given back to all', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 3 }))
        const [first, second] = three
        const grants: Grant[] = []
        for (let i = 0; i < 3; i++) grants.push((await first?.counters.take(claim())) as Grant)
        first?.counters.give(grants[0] as Grant, { isUnmade: true })
        expect(await attempt(() => second?.counters.take(claim()))).toBe(200)
        expect(await attempt(() => first?.counters.take(claim()))).toBe(429)
      }))
  })
} else
  describe('counts of several nodes', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
