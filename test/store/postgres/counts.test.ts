import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { type Clock, systemClock } from '../../../src/base/clock.ts'
import { type GatewayError, invalid } from '../../../src/base/errors.ts'
import { createRandomIds } from '../../../src/base/ids.ts'
import { openMac } from '../../../src/base/mac.ts'
import { openSeal } from '../../../src/base/seal.ts'
import { type Config, createDefaultConfig } from '../../../src/config.ts'
import {
  type CountedWindow,
  type Counters,
  type Grant,
  openCounters,
} from '../../../src/limits/counters.ts'
import { updateGuardrail } from '../../../src/limits/guardrails.ts'
import type { Rate } from '../../../src/limits/rates.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../../src/resources/default-guardrail.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { createWorkspace } from '../../../src/resources/workspaces.ts'
import { createApp } from '../../../src/server/app.ts'
import { createMemoryBlobs } from '../../../src/store/blobs/memory.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { type NodeCounts, openSharedCounts } from '../../../src/store/postgres/counts.ts'
import { openPostgres } from '../../../src/store/postgres.ts'
import { openPools, POOL_SCRIPTS, type Pools } from '../../../src/store/valkey/pools.ts'
import { Valkey } from '../../../src/store/valkey.ts'
import { testGateway } from '../../support/gateway.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'
import { hasValkey, startValkey, type ValkeyServer } from '../../support/valkey.ts'

const NO_BOOKS = {
  reserve: () => {
    throw new Error('No money is counted here')
  },
  reserveElsewhere: null,
  settle: () => undefined,
  release: () => undefined,
} as never

const SECRET = 'a secret of tests that is long enough'
const FREE = { models: ['a/b:free'] }
const PAID = { models: ['a/b'] }

/** A window as short as a test can wait for. */
class ShortWindow implements CountedWindow {
  readonly length: number
  readonly #clock: Clock
  #number = 0
  #count = 0

  constructor(length: number, clock: Clock) {
    this.length = length
    this.#clock = clock
  }

  get number(): number {
    const number = Math.floor(this.#clock.now().getTime() / this.length)
    if (number !== this.#number) this.#count = 0
    this.#number = number
    return number
  }

  getCount(_: string): number {
    return this.number === this.#number ? this.#count : 0
  }

  setCount(_: string, count: number): void {
    this.#count = this.number === this.#number ? count : 0
  }
}

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
    const secret = Buffer.from(SECRET)
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
  async function open(
    config: Config,
    ahead = 0,
    freeSoFar = 0,
    ticks = systemClock.ticks,
    pools?: Pools,
  ): Promise<TestNode> {
    const name = `node-${nodes.length}`
    await postgres.run(
      `insert into gateway.nodes (id, incarnation, name, version, claimed_at, seen_at)
        values ('${name}', '${name}', '${name}', '1', clock_timestamp(), clock_timestamp())
        on conflict (id) do update set seen_at = clock_timestamp(), left_at = null`,
    )
    const shared = await openSharedCounts({
      ...{ connect: () => connect(postgres.url, 1), incarnation: name, ticks, pools },
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
  /** Takes what another node returns, which a busy machine may do later than a call waits for it. */
  const attemptUntilReturned = async (take: () => unknown): Promise<void> => {
    while ((await attempt(take)) !== 200) await Bun.sleep(10)
  }
  const count = (statuses: number[], status: number) =>
    statuses.filter(one => one === status).length
  const tally = async (attempts: Promise<number>[]) => {
    const statuses = await Promise.all(attempts)
    return { allowed: count(statuses, 200), refused: count(statuses, 429), all: statuses.length }
  }

  /** Reads which minute it is at the database, which may be starting. */
  const readMinute = async (): Promise<number> => {
    for (;;)
      try {
        const [row] = await postgres.run(
          'select floor(extract(epoch from clock_timestamp()) / 60)::int as minute',
        )
        return (row as { minute: number }).minute
      } catch {
        await Bun.sleep(10)
      }
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

  async function until(holds: () => Promise<boolean>): Promise<void> {
    while (!(await holds())) await Bun.sleep(10)
  }

  const readTaken = async (name: string): Promise<number> => {
    const [row] = await postgres
      .run(`select taken::int from gateway.counts where name = '${name}'`)
      .catch(() => [])
    return (row as { taken: number } | undefined)?.taken ?? 0
  }

  const countWanted = async (table: string): Promise<number> => {
    const [row] = await postgres.run(
      `select count(*)::int as wanted from gateway.${table} where wanted_at is not null`,
    )
    return (row as { wanted: number }).wanted
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
          await attemptUntilReturned(() => three[0]?.counters.take(claim()))
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
        await attemptUntilReturned(() => second?.counters.take(claim()))
        expect(await attempt(() => first?.counters.take(claim()))).toBe(429)
      }))
  })

  if (await hasValkey())
    describe('a limit by minutes that is split through Valkey', () => {
      let valkey: ValkeyServer
      const clients: Valkey[] = []
      beforeAll(async () => {
        valkey = await startValkey()
      })
      afterAll(() => valkey[Symbol.asyncDispose]())
      afterEach(async () => {
        for (const client of clients.splice(0)) await client.close()
      })

      /** Opens a node whose connection tells when its state changes. */
      async function openPooled(config: Config, prefix = 'tests:') {
        let changed = Promise.withResolvers<void>()
        const onState = () => changed.resolve()
        const url = valkey.url
        const client = await Valkey.open({ url, prefix, scripts: POOL_SCRIPTS, onState })
        clients.push(client)
        const pools = openPools(client, name => name)
        const node = await open(config, 0, 0, systemClock.ticks, pools)
        const awaitState = async (isUp: boolean) => {
          while (client.state.isUp !== isUp) {
            changed = Promise.withResolvers()
            await changed.promise
          }
        }
        return { ...node, client, awaitState }
      }

      const openThreePooled = async (config: Config) => [
        await openPooled(config),
        await openPooled(config),
        await openPooled(config),
      ]

      /** Has twelve callers make calls one after the other. */
      async function call(nodes: TestNode[], calls: number, meanwhile?: (i: number) => unknown) {
        const statuses: number[] = []
        let next = 0
        const run = async () => {
          for (let i = next++; i < calls; i = next++) {
            await meanwhile?.(i)
            statuses.push(await attempt(() => nodes[i % nodes.length]?.counters.take(claim())))
            await Bun.sleep(0)
          }
        }
        await Promise.all(Array.from({ length: 12 }, run))
        return {
          allowed: count(statuses, 200),
          refused: count(statuses, 429),
          all: statuses.length,
        }
      }

      const sum = (nodes: TestNode[]) =>
        nodes.reduce((trips, { shared }) => trips + shared.trips, 0)

      test('is not waited for again and again where Valkey is slow', async () => {
        let looks = 0
        const given = { granted: 0, left: 0, taken: 0, born: 0, isDry: false, isFilling: true }
        const slow: Pools = {
          ...{ isOn: true, add: async () => 'added', noteDry: () => undefined },
          async take() {
            looks += 1
            await Bun.sleep(20)
            return given
          },
        }
        const config = configure({ requests_per_minute: 600 })
        const { counters } = await open(config, 0, 0, systemClock.ticks, slow)
        expect(await attempt(() => counters.take(claim()))).toBe(200)
        expect(looks).toBeLessThanOrEqual(2)
      })

      test('holds exactly, with half the trips', () =>
        withinMinute(async () => {
          const config = configure({ requests_per_minute: 600 })
          const three = await openThreePooled(config)
          const before = sum(three)
          expect(await call(three, 3_000)).toEqual({ allowed: 600, refused: 2_400, all: 3_000 })
          expect(sum(three) - before).toBeLessThanOrEqual(45)
        }))

      test('is used up wherever it lies before anybody is refused', () =>
        withinMinute(async () => {
          const three = await openThreePooled(configure({ requests_per_minute: 50 }))
          for (const { counters } of three)
            expect(await attempt(() => counters.take(claim()))).toBe(200)
          for (let i = 3; i < 50; i++)
            await attemptUntilReturned(() => three[0]?.counters.take(claim()))
          for (const { counters } of three)
            expect(await attempt(() => counters.take(claim()))).toBe(429)
        }))

      test('holds while Valkey is killed and comes back, and no call fails', () =>
        withinMinute(async () => {
          const three = await openThreePooled(configure({ requests_per_minute: 600 }))
          const tally = await call(three, 3_000, async i => {
            if (i === 150) await valkey.stop()
            if (i === 300) {
              await valkey.start()
              await Promise.all(three.map(({ awaitState }) => awaitState(true)))
            }
          })
          expect(tally.allowed).toBeGreaterThan(300)
          expect(tally.allowed).toBeLessThanOrEqual(600)
          expect(tally.allowed + tally.refused).toBe(3_000)
        }))

      test('is usable as a whole, whoever calls what and gives it back', async () => {
        await checkUsable(await openThreePooled(configure({})), 6)
      }, 60_000)

      test('holds while Valkey is emptied, or stands still', () =>
        withinMinute(async () => {
          const three = await openThreePooled(configure({ requests_per_minute: 600 }))
          const tally = await call(three, 2_000, async i => {
            if (i === 100) await valkey.run('FLUSHALL')
            if (i === 200) valkey.freeze(true)
            if (i !== 400) return
            valkey.freeze(false)
            await Promise.all(three.map(({ awaitState }) => awaitState(true)))
          })
          expect(tally.allowed).toBeGreaterThan(300)
          expect(tally.allowed).toBeLessThanOrEqual(600)
          expect(tally.allowed + tally.refused).toBe(2_000)
        }))

      test('is exact without Valkey, and for another gateway beside it', () =>
        withinMinute(async () => {
          const config = configure({ requests_per_minute: 60 })
          const pooled = await openPooled(config)
          const nodes = [pooled, await openPooled(config, 'others:'), await open(config)]
          expect(await call(nodes, 300)).toEqual({ allowed: 60, refused: 240, all: 300 })
        }))

      test('has lines of a batch take half of it at most', () =>
        withinMinute(async () => {
          const three = await openThreePooled(configure({ requests_per_minute: 100 }))
          const statuses: number[] = []
          for (let i = 0; i < 60; i++)
            statuses.push(
              await attempt(() => three[i % 3]?.counters.take({ ...claim(), isInBatch: true })),
            )
          expect(count(statuses, 200)).toBe(50)
          expect(await call(three, 100)).toEqual({ allowed: 50, refused: 50, all: 100 })
        }))
    })

  test('what is left of a window of the database is never used in the next one', async () => {
    const LENGTH = 200
    const LIMIT = 40
    const three = await openThree(configure({}))
    const used = new Map<number, number>()
    const endAt = Date.now() + 12 * LENGTH
    const run = async ({ shared }: TestNode) => {
      const counted = new ShortWindow(LENGTH, shared.clock)
      const window = shared.openWindow('short', counted)
      while (Date.now() < endAt) {
        const before = Math.floor(Date.now() / LENGTH)
        const pending = window.cover('a', 1, LIMIT)
        if (pending) await pending
        else if (counted.getCount('a') < LIMIT) {
          counted.setCount('a', counted.getCount('a') + 1)
          // The clock of the database is that of this machine.
          const now = Math.floor(Date.now() / LENGTH)
          const number = before === now ? now : counted.number
          used.set(number, (used.get(number) ?? 0) + 1)
          await Bun.sleep(Math.random() * 4)
        } else await Bun.sleep(1)
      }
    }
    await Promise.all(three.flatMap(node => [run(node)]))
    expect(used.size).toBeGreaterThan(8)
    expect(Math.max(...used.values())).toBeLessThanOrEqual(LIMIT)
    expect([...used.values()].filter(one => one === LIMIT).length).toBeGreaterThan(5)
  })

  test('a node whose ticks jump, as after a sleep of its machine, learns the time again', () =>
    withinMinute(async () => {
      let jumped = 0
      const config = configure({ requests_per_minute: 12 })
      const ticks = () => systemClock.ticks() + jumped
      const three = [await open(config), await open(config, 0, 0, ticks)]
      for (const by of [60_000, 86_400_000, 0]) {
        jumped = by
        for (const { counters } of three)
          for (let i = 0; i < 2; i++) expect(await attempt(() => counters.take(claim()))).toBe(200)
      }
      expect(await attempt(() => three[0]?.counters.take(claim()))).toBe(429)
    }))

  test('rows that nobody needs are removed', async () => {
    let passed = 0
    const ticks = () => systemClock.ticks() + passed
    const node = await open(configure({ concurrent_requests: 1 }), 0, 0, ticks)
    await node.counters.take(claim())
    await postgres.run(
      `insert into gateway.counts values
        ('old', 1, clock_timestamp() - interval '61 seconds', 1, 1, null),
        ('new', 1, clock_timestamp() - interval '30 seconds', 1, 1, null)`,
    )
    await postgres.run(`insert into gateway.places values ('dead', '{"gone":1}', null)`)
    passed = 60_001
    const list = async (table: string) =>
      (await postgres.run(`select name from gateway.${table} order by name`)).map(
        row => (row as { name: string }).name,
      )
    await until(async () => (await list('places')).length === 1)
    expect(await list('places')).toEqual([key])
    expect(await list('counts')).toEqual(['new'])
  })

  /** Has nodes take and give back what chance says. */
  async function checkUsable(three: TestNode[], numRuns: number): Promise<void> {
    const call = fc.record({
      node: fc.nat(2),
      calls: fc.integer({ min: 1, max: 30 }),
      unmade: fc.nat(5),
    })
    const rounds = fc.array(call, { minLength: 1, maxLength: 12 })
    const property = fc.asyncProperty(fc.integer({ min: 1, max: 80 }), rounds, (limit, made) =>
      withinMinute(async () => {
        key = `key-${++keys}`
        for (const { counters } of three)
          counters.reconfigure(configure({ requests_per_minute: limit }), null)
        let used = 0
        let most = 0
        const make = async ({ node, calls, unmade }: (typeof made)[number]) => {
          const counters = three[node]?.counters
          const grants: Grant[] = []
          await Promise.all(
            Array.from({ length: calls }, () =>
              attempt(async () => {
                grants.push((await counters?.take(claim())) as Grant)
                used += 1
                most = Math.max(most, used)
              }),
            ),
          )
          for (const grant of grants.slice(0, unmade)) {
            used -= 1
            counters?.give(grant, { isUnmade: true })
          }
        }
        await Promise.all(made.slice(0, 3).map(make))
        for (const round of made.slice(3)) await make(round)
        // What one has given back, others find within a moment.
        await until(async () => {
          await make({ node: 0, calls: limit, unmade: 0 })
          return used >= limit
        })
        await make({ node: 1, calls: 3, unmade: 0 })
        expect(most).toBe(limit)
      }),
    )
    await fc.assert(property, { numRuns })
  }

  test('no limit is passed and all of it is usable, whoever calls what and gives it back', async () => {
    await checkUsable(await openThree(configure({})), 25)
  }, 120_000)

  describe('calls at once', () => {
    const three = () => openThree(configure({ concurrent_requests: 3 }))
    const enter = async (node: TestNode | undefined) =>
      (await node?.counters.take({ ...claim(), request: false })) as Grant
    const listHolders = async () => {
      const [row] = await postgres.run(
        `select coalesce(sum(value::int), 0)::int as held
          from gateway.places, jsonb_each_text(holders) where name = '${key}'`,
      )
      return (row as { held: number }).held
    }

    test('are no more than the limit over three nodes, and each that ends makes room', async () => {
      const [first, second, third] = await three()
      const all = [first, second, third]
      const leave: (() => void)[] = []
      const calls = Array.from({ length: 30 }, (_, i) =>
        attempt(async () => {
          const grant = await enter(all[i % 3])
          leave.push(() => all[i % 3]?.counters.give(grant))
        }),
      )
      expect(await tally(calls)).toEqual({ allowed: 3, refused: 27, all: 30 })
      expect(await listHolders()).toBe(3)
      for (const end of leave) end()
      // Where there was none, none is looked for at once.
      for (const node of [second, third, first])
        await until(async () => (await attempt(() => enter(node))) === 200)
      expect(await attempt(() => enter(second))).toBe(429)
    })

    test('one after the other at changing nodes are never refused', async () => {
      const nodes = await openThree(configure({ concurrent_requests: 1 }))
      for (let i = 0; i < 30; i++) {
        const node = nodes[i % 3]
        node?.counters.give(await enter(node))
      }
      expect(await attempt(() => enter(nodes[0]))).toBe(200)
    })

    test('of a node that is gone make room for others, and only then', async () => {
      const [first, second] = await three()
      for (let i = 0; i < 3; i++) await enter(first)
      expect(await attempt(() => enter(second))).toBe(429)
      const silence = "update gateway.nodes set seen_at = clock_timestamp() - interval '89 seconds'"
      await postgres.run(`${silence} where name = '${first?.name}'`)
      const asked = second?.shared.trips ?? 0
      while ((second?.shared.trips ?? 0) <= asked)
        expect(await attempt(() => enter(second))).toBe(429)
      await postgres.run(`${silence.replace('89', '91')} where name = '${first?.name}'`)
      await until(async () => (await attempt(() => enter(second))) === 200)
      // One that does not count as serving gets nothing, and is not refused for its limit.
      expect(await attempt(() => enter(first))).toBe(503)
    })

    test('that a node has in hand are no more its own once it was silent for long', async () => {
      const config = configure({ concurrent_requests: 120 })
      let slept = 0
      const first = await open(config, 0, 0, () => systemClock.ticks() + slept)
      await enter(first)
      const second = await open(config)
      const setSeen = (seconds: number) =>
        postgres.run(
          `update gateway.nodes set seen_at = clock_timestamp() - ${seconds} * interval '1 second'
            where name = '${first.name}'`,
        )
      await setSeen(91)
      slept = 91_000
      const calls = Array.from({ length: 121 }, () => attempt(() => enter(second)))
      expect(await tally(calls)).toEqual({ allowed: 120, refused: 1, all: 121 })
      await setSeen(0)
      expect(await attempt(() => enter(first))).toBe(429)
    })

    test('wait in their turn for those of other nodes', async () => {
      const [first, second] = await openThree(configure({ concurrent_requests: 1 }))
      const grant = await enter(first)
      const waiting = second?.counters.takeInTurn(
        { ...claim(), request: false },
        new Cancellation(),
      )
      await until(async () => (await countWanted('places')) > 0)
      first?.counters.give(grant)
      expect(await waiting).toMatchObject({ hasPlace: true, isOpen: true })
      expect(await attempt(() => enter(first))).toBe(429)
    })

    test('that are given up while they wait take nothing', async () => {
      const [first, second] = await openThree(configure({ concurrent_requests: 1 }))
      const grant = await enter(first)
      const cancellation = new Cancellation()
      const waiting = second?.counters.takeInTurn({ ...claim(), request: false }, cancellation)
      await until(async () => (await countWanted('places')) > 0)
      cancellation.cancel(invalid('left'))
      await expect(waiting).rejects.toThrow('left')
      first?.counters.give(grant)
      await until(async () => (await listHolders()) === 0)
    })

    test('a limit of many is asked for in parts, and returned to whoever needs it', async () => {
      const [first, second] = await openThree(configure({ concurrent_requests: 120 }))
      for (let i = 0; i < 20; i++) first?.counters.give(await enter(first))
      expect(first?.shared.trips).toBe(1)
      const calls = Array.from({ length: 121 }, () => attempt(() => enter(second)))
      const { allowed } = await tally(calls)
      expect(allowed).toBeLessThanOrEqual(120)
      for (let i = allowed; i < 120; i++) await attemptUntilReturned(() => enter(second))
      expect(await attempt(() => enter(second))).toBe(429)
    })
  })

  describe('rates of guardrails', () => {
    const rate = (more: Partial<Rate>): Rate[] => [
      {
        ...{ scope: 'workspace', account: `workspace ${key}`, guardrail: { id: 'g', name: 'g' } },
        ...{ requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
        ...more,
      },
    ]
    const whole = { isInBatch: false, place: true }

    test('hold over three nodes', () =>
      withinMinute(async () => {
        const three = await openThree(configure({}))
        const rates = rate({ requests_per_minute: 100, concurrent_requests: 90 })
        const calls = Array.from({ length: 300 }, (_, i) =>
          attempt(() => three[i % 3]?.counters.rates.take(rates, whole)),
        )
        expect(await tally(calls)).toEqual({ allowed: 90, refused: 210, all: 300 })
        for (const { counters } of three) {
          const [{ requests_per_minute, concurrent_requests }] = counters.rates.describe(
            rates,
          ) as never as [Record<string, { remaining: number }>]
          expect(requests_per_minute?.remaining).toBeGreaterThanOrEqual(0)
          expect(concurrent_requests?.remaining).toBe(0)
        }
      }))

    test('of tokens hold over three nodes, and what a turn did not take is for others', () =>
      withinMinute(async () => {
        const [first, second, third] = await openThree(configure({}))
        const rates = rate({ tokens_per_minute: 10_000 })
        const take = async (node: TestNode | undefined, tokens: number) =>
          node?.counters.rates.takeTokens(rates, tokens, false)
        expect(await attempt(() => take(third, 10_001))).toBe(400)
        const hold = await take(first, 6_000)
        expect(await attempt(() => take(second, 4_001))).toBe(429)
        expect(await attempt(() => take(second, 4_000))).toBe(200)
        if (hold) first?.counters.rates.settleTokens(hold, 1_000)
        expect(await attempt(() => take(third, 5_000))).toBe(200)
        expect(await attempt(() => take(third, 1))).toBe(429)
      }))

    test('of tokens count what a turn took beyond, at all nodes', () =>
      withinMinute(async () => {
        const [first, second] = await openThree(configure({}))
        const rates = rate({ tokens_per_minute: 1_000 })
        const hold = await first?.counters.rates.takeTokens(rates, 100, false)
        if (hold) first?.counters.rates.settleTokens(hold, 950)
        await until(async () => (await readTaken(`rate-tokens workspace ${key}`)) >= 950)
        expect(await attempt(() => second?.counters.rates.takeTokens(rates, 51, false))).toBe(429)
        expect(await attempt(() => second?.counters.rates.takeTokens(rates, 50, false))).toBe(200)
      }))
  })

  describe('calls of free models in a day', () => {
    const config = configure({ free_models: { requests_per_day: 1_200 } })
    const takeFree = (node: TestNode | undefined) =>
      attempt(() => node?.counters.take({ ...claim(FREE), place: false }))

    test('are limited over all nodes, with those on record, and are told by each', async () => {
      const three = [
        await open(config, 0, 500),
        await open(config, 0, 500),
        await open(config, 0, 500),
      ]
      const calls = Array.from({ length: 1_000 }, (_, i) => takeFree(three[i % 3]))
      expect(await tally(calls)).toEqual({ allowed: 700, refused: 300, all: 1_000 })
      for (const node of three) {
        expect(await takeFree(node)).toBe(429)
        expect(node.counters.getFreeUsage()).toEqual({ limit: 1_200, used: 1_200 })
      }
    })

    test('that a node has in hand are returned when it ends', async () => {
      const [first, second] = await openThree(config)
      expect(await takeFree(first)).toBe(200)
      expect(await readTaken('free-day ')).toBe(100)
      await first?.shared.close()
      expect(await readTaken('free-day ')).toBe(1)
      const calls = Array.from({ length: 1_200 }, () => takeFree(second))
      expect(await tally(calls)).toEqual({ allowed: 1_199, refused: 1, all: 1_200 })
    })

    test('that a node has in hand are returned when it rests', async () => {
      const [first] = await openThree(config)
      expect(await takeFree(first)).toBe(200)
      await until(async () => (await readTaken('free-day ')) === 1)
    })

    test('are known after another config is applied', async () => {
      const [first] = await openThree(config)
      expect(await takeFree(first)).toBe(200)
      first?.counters.reconfigure(config, 50)
      await first?.shared.close()
      expect(await readTaken('free-day ')).toBe(1)
    })
  })

  describe('while the database is away', () => {
    test('what is in hand is used, others are refused with 503, and it goes on by itself', () =>
      withinMinute(async () => {
        const [first, second] = await openThree(configure({ requests_per_minute: 1_200 }))
        expect(await attempt(() => first?.counters.take(claim()))).toBe(200)
        await postgres.stop()
        const calls = Array.from({ length: 200 }, () =>
          attempt(() => first?.counters.take(claim())),
        )
        const statuses = await Promise.all(calls)
        expect(count(statuses, 200)).toBe(99)
        expect(count(statuses, 503)).toBe(101)
        await expect(Promise.resolve(first?.counters.take(claim()))).rejects.toMatchObject({
          ...{ status: 503, retryAfter: 1 },
        })
        expect(await attempt(() => second?.counters.take(claim()))).toBe(503)
        await postgres.start()
        await until(async () => (await attempt(() => second?.counters.take(claim()))) === 200)
        expect(await attempt(() => first?.counters.take(claim()))).toBe(200)
      }))

    test('what its crash has emptied, nodes tell again', () =>
      withinMinute(async () => {
        const three = await openThree(configure({ requests_per_minute: 120 }))
        for (let i = 0; i < 60; i++)
          expect(await attempt(() => three[i % 3]?.counters.take(claim()))).toBe(200)
        const taken = await readTaken(`requests ${key}`)
        await postgres.stop()
        await postgres.start()
        await until(async () => (await readTaken(`requests ${key}`)) === taken)
        const calls = Array.from({ length: 300 }, (_, i) =>
          attempt(() => three[i % 3]?.counters.take(claim())),
        )
        expect(await tally(calls)).toEqual({ allowed: 60, refused: 240, all: 300 })
      }))

    test('places that calls are in outlive its crash', async () => {
      const [first, second] = await openThree(configure({ concurrent_requests: 1 }))
      const grant = (await first?.counters.take(claim())) as Grant
      await postgres.stop()
      await postgres.start()
      await until(async () => (await attempt(() => second?.counters.take(claim()))) === 429)
      first?.counters.give(grant)
      await until(async () => (await attempt(() => second?.counters.take(claim()))) === 200)
    })

    test('one that does not answer keeps nobody waiting', () =>
      withinMinute(async () => {
        const [first] = await openThree(configure({ requests_per_minute: 12 }))
        await postgres.freeze(true)
        try {
          const startedAt = systemClock.ticks()
          expect(await attempt(() => first?.counters.take(claim()))).toBe(503)
          for (let i = 0; i < 100; i++)
            expect(await attempt(() => first?.counters.take(claim()))).toBe(503)
          expect(systemClock.ticks() - startedAt).toBeLessThan(2_000)
        } finally {
          await postgres.freeze(false)
        }
        await until(async () => (await attempt(() => first?.counters.take(claim()))) === 200)
      }))

    test('what protects this host alone is counted by it', () =>
      withinMinute(async () => {
        const config = configure({ management_per_minute: 5 })
        const [first] = await openThree(config)
        const manage = () => attempt(() => first?.counters.countManagement({ key_hash: key }))
        expect(await manage()).toBe(200)
        await postgres.stop()
        const statuses = await Promise.all(Array.from({ length: 10 }, manage))
        expect(count(statuses, 200)).toBe(4)
        await postgres.start()
      }))
  })

  describe('servers', () => {
    const MODEL = { id: 'acme/tiny', endpoints: [{ provider: 'sandbox', model: 'echo' }] }
    const opened: Gateway[] = []
    const directories: string[] = []
    afterEach(async () => {
      for (const gateway of opened.splice(0)) await gateway.close()
      for (const directory of directories.splice(0)) rmSync(directory, { recursive: true })
    })

    /** Opens a server over the database, whose wall clock is ahead. */
    async function serve(config: object, ahead: number) {
      const data = mkdtempSync(join(tmpdir(), 'gateway-counts-'))
      directories.push(data)
      const gateway = await testGateway({
        ...{ data, access: 'server', secret: SECRET, blobs: createMemoryBlobs() },
        ids: createRandomIds(),
        clock: { ticks: systemClock.ticks, now: () => new Date(Date.now() + ahead) },
        config: {
          models: [MODEL],
          storage: { postgres: { url: postgres.url, connections: 3 } },
          ...config,
        },
      })
      opened.push(gateway)
      return { gateway, app: createApp(gateway) }
    }

    type Served = Awaited<ReturnType<typeof serve>>

    /** Opens three servers, and makes a key that all know. */
    /** Serves at three nodes, and makes a key in a workspace that has had no calls. */
    async function serveThree(limits: object) {
      const three = [
        await serve({ limits }, 0),
        await serve({ limits }, 18 * 3_600_000),
        await serve({ limits }, 0),
      ]
      const [first] = three as [Served]
      const operator = getOperator(first.gateway)
      const team = { name: 'Team', slug: `team-${++keys}` }
      const { id: workspace_id } = (await createWorkspace(first.gateway, operator, team)).data
      const made = await createKey(first.gateway, operator, { name: 'k', workspace_id })
      for (const { gateway } of three) await gateway.catchUp()
      return [three, made.key, workspace_id] as const
    }

    const ask = ({ app }: Served, plaintext: string, path: string, body?: object) =>
      app.handle(
        new Request(`http://localhost/api/v1${path}`, {
          method: body ? 'POST' : 'GET',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${plaintext}` },
          ...(body ? { body: JSON.stringify(body) } : {}),
        }),
      )

    /** Makes a call, and reads its answer. */
    async function chat(served: Served, plaintext: string): Promise<Response> {
      const messages = [{ role: 'user', content: 'Hi' }]
      const body = { model: MODEL.id, messages }
      const answer = await ask(served, plaintext, '/chat/completions', body)
      await answer.text()
      return answer
    }

    /** Makes a call, again where a busy machine keeps the database from answering in time. */
    async function insist(served: Served, plaintext: string): Promise<Response> {
      for (;;) {
        const answer = await chat(served, plaintext)
        if (answer.status !== 503) return answer
      }
    }

    test('hold a key to its requests of a minute together', () =>
      withinMinute(async () => {
        const [three, plaintext] = await serveThree({ requests_per_minute: 40 })
        const answers = await Promise.all(
          Array.from({ length: 90 }, (_, i) => insist(three[i % 3] as Served, plaintext)),
        )
        const statuses = answers.map(({ status }) => status)
        expect([count(statuses, 200), count(statuses, 429)]).toEqual([40, 50])
        for (const { status, headers } of answers) {
          if (status === 200) continue
          expect(headers.get('x-ratelimit-remaining')).toBe('0')
          expect(Number(headers.get('retry-after'))).toBeWithin(1, 61)
          const reset = Number(headers.get('x-ratelimit-reset')) - Date.now()
          expect(reset).toBeWithin(-1_000, 60_001)
        }
      }))

    test('hold a workspace to the rates of its guardrail together, and say where it stands', () =>
      withinMinute(async () => {
        const [three, plaintext, workspace_id] = await serveThree({})
        const [first, ahead] = three as [Served, Served]
        const rates = { requests_per_minute: 10, tokens_per_minute: 1_000_000 }
        const id = getDefaultGuardrailId(workspace_id)
        await updateGuardrail(first.gateway, getOperator(first.gateway), id, rates)
        for (const { gateway } of three) await gateway.catchUp()
        const answers: Response[] = []
        for (let i = 0; i < 12; i++) answers.push(await insist(three[i % 3] as Served, plaintext))
        expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(200), 429, 429])
        const reset = answers[1]?.headers.get('x-ratelimit-reset-requests') ?? ''
        expect(Number.parseInt(reset, 10)).toBeWithin(0, 61)
        const shown = (await (await ask(ahead, plaintext, '/key')).json()) as {
          data: { rate_limits: { requests_per_minute: object }[] }
        }
        expect(shown.data.rate_limits[0]?.requests_per_minute).toMatchObject({
          ...{ limit: 10, used: 10, remaining: 0 },
        })
      }))

    test('refuse what they cannot count, without a trace of it', () =>
      withinMinute(async () => {
        const [three, plaintext] = await serveThree({ requests_per_minute: 24 })
        const [first] = three as [Served]
        await postgres.stop()
        const answer = await chat(first, plaintext)
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
        await postgres.start()
        await until(async () => (await chat(first, plaintext)).status === 200)
        expect(first.gateway.traffic.counters.exportRunning().size).toBe(0)
      }))
  })
} else
  describe('counts of several nodes', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
