import { Database } from 'bun:sqlite'
import { afterAll, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEvents } from '../../src/base/events.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import type { App } from '../../src/observability/rollups/apps.ts'
import { type SessionCell, TURN_RANGES } from '../../src/observability/rollups/sessions.ts'
import {
  type CallSums,
  type Comparison,
  openRollupKeeper,
  type RollupStore,
  recomputeRollups,
  rollUp,
  SUM_DIMENSIONS,
  type SumDimension,
  type SumQuery,
} from '../../src/observability/rollups.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { buildGeneration } from '../support/generation.ts'
import { TEST_SECRETS } from '../support/ledger.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { createRandomCalls } from '../support/random-calls.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-rollups-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
let files = 0
const newPath = () => join(directory, `${++files}.db`)
const open = (path: string) =>
  openSqlite({ path, durability: 'normal', busyTimeout: 0, secrets: TEST_SECRETS })
const toEntries = (calls: Generation[]) => calls.map(generation => ({ generation, charge: null }))

const EVERYTHING: SumQuery = {
  grain: 'hour',
  from: 0,
  until: 9_999_999,
  by: [],
  isByTime: false,
  conditions: [],
}

const OF_TWO = { sessions: 2, workspaces: 0, workspace_id: null }
const COMPARISONS = ['eq', 'neq', 'in', 'not_in', 'gt', 'gte', 'lt', 'lte'] as const
const VALUES = ['', 'k1', 'k2', 'w1', 'acme/two', 'standard', 'free', '0', '1', '2', 'local/up']

/** Builds a query about some of the hours or days that random calls are in. */
function buildQuery(integers: (below: number) => number): SumQuery {
  const grain = integers(2) === 0 ? 'hour' : 'day'
  const first = grain === 'day' ? 20_500 : 20_500 * 24
  const length = grain === 'day' ? 40 : 40 * 24
  const from = first + integers(length)
  const pickDimension = () => SUM_DIMENSIONS[integers(SUM_DIMENSIONS.length)] ?? 'model'
  return {
    grain,
    from,
    until: from + integers(length),
    by: [...new Set(Array.from({ length: integers(3) }, pickDimension))],
    isByTime: integers(2) === 0,
    conditions: Array.from({ length: integers(2) }, () => ({
      dimension: pickDimension(),
      comparison: COMPARISONS[integers(COMPARISONS.length)] ?? 'eq',
      values: [VALUES[integers(VALUES.length)] ?? ''],
    })),
  }
}

const readSorted = async ({ rollups }: Store, query: SumQuery) =>
  (await rollups.sum(query)).map(renderSums).sort()

const renderSums = (sums: object): string =>
  JSON.stringify(sums, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))

/** The apps of random calls, by their address and title. */
const APPS: Record<string, Omit<App, 'id'>> = {
  'https://a.example/ A': { identity: 'address a.example', name: 'A', slug: 'a-example' },
  'https://a.example null': { identity: 'address a.example', name: 'a.example', slug: 'a-example' },
  'https://a.example/b A': { identity: 'address a.example/b', name: 'A', slug: 'a-example-b' },
  'null A': { identity: 'title a', name: 'A', slug: 'a' },
  'http://localhost:3000 Mine': { identity: 'local mine', name: 'Mine', slug: 'mine' },
}
const JUDGES: Record<Comparison, (text: string, value: string) => boolean> = {
  ...{ eq: (text, value) => text === value, in: (text, value) => text === value },
  ...{ neq: (text, value) => text !== value, not_in: (text, value) => text !== value },
  ...{ gt: (text, value) => text > value, gte: (text, value) => text >= value },
  ...{ lt: (text, value) => text < value, lte: (text, value) => text <= value },
}
const HOUR = 3_600_000
const DAY = 24 * HOUR

/** Counts calls in a walk over all of them, with nothing of what rolls them up. */
class Recount {
  readonly calls: Generation[]
  readonly apps: App[] = []

  constructor(calls: Generation[]) {
    this.calls = calls
    for (const call of calls) {
      const app = readApp(call)
      if (app && !this.findApp(call)) this.apps.push({ id: this.apps.length + 1, ...app })
    }
  }

  findApp(call: Generation): App | undefined {
    return this.apps.find(({ identity }) => identity === readApp(call)?.identity)
  }

  /** Sums the calls that a query means, as `readSorted` renders sums. */
  sum({ grain, from, until, by, isByTime, conditions }: SumQuery): string[] {
    const groups = new Map<string, CallSums>()
    for (const call of this.calls) {
      const start = Math.floor(Date.parse(call.settled_at) / (grain === 'hour' ? HOUR : DAY))
      const isMeant = conditions.every(({ dimension, comparison, values: [value = ''] }) =>
        JUDGES[comparison](this.#read(call, dimension), value),
      )
      if (start < from || start >= until || !isMeant) continue
      const values = by.map(name => this.#read(call, name))
      const name = JSON.stringify({ start: isByTime ? start : null, values }).slice(0, -1)
      groups.set(name, addUp(groups.get(name), call))
    }
    return [...groups].map(([name, sums]) => `${name},"sums":${renderSums(sums)}}`).sort()
  }

  /** Lists the cells of a week with two sessions or more. */
  listCells(week: number): SessionCell[] {
    const ofWeek = this.calls.filter(
      call =>
        Math.floor((Date.parse(call.settled_at) + 3 * DAY) / (7 * DAY)) === week &&
        call.session_id !== null &&
        this.findApp(call),
    )
    const sessions = Map.groupBy(ofWeek, call =>
      JSON.stringify([this.findApp(call)?.slug, call.model, call.key_hash, call.session_id]),
    )
    const cells = new Map<string, Omit<SessionCell, 'median'> & { costs: number[] }>()
    for (const calls of sessions.values()) {
      const turns = calls.filter(call => call.error_type === null && !call.cancelled).length
      if (turns === 0 || calls.some(isUnpriced)) continue
      const [first] = calls as [Generation]
      const [app, { model }] = [this.findApp(first) as App, first]
      const range = turns >= 50 ? 3 : turns >= 10 ? 2 : turns >= 2 ? 1 : 0
      const turn_range = TURN_RANGES[range]
      const name = `${app.slug}\0${model}\0${range}`
      const cell = cells.get(name) ?? { app, model, turn_range, sessions: 0, costs: [] }
      cells.set(name, cell)
      cell.sessions += 1
      cell.costs.push(calls.reduce((sum, call) => sum + readCost(call), 0))
    }
    return [...cells]
      .filter(([, cell]) => cell.sessions >= 2)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, { costs, ...cell }]) => ({ ...cell, median: findMedian(costs) }))
  }

  #read(call: Generation, name: SumDimension): string {
    if (name === 'app_id') return String(this.findApp(call)?.id ?? 0)
    if (name === 'endpoint_id') return call.provider_responses.at(-1)?.endpoint_id ?? ''
    if (name === 'is_byok') return call.is_byok ? '1' : '0'
    if (name === 'variant') return call.model.split(':')[1] ?? 'standard'
    return call[name] ?? ''
  }
}

const readApp = ({ http_referer, title }: Generation) => APPS[`${http_referer} ${title}`]

const addUp = (sums: CallSums | undefined, call: Generation): CallSums => ({
  calls: (sums?.calls ?? 0) + 1,
  byok_calls: (sums?.byok_calls ?? 0) + (call.is_byok ? 1 : 0),
  failed_calls: (sums?.failed_calls ?? 0) + (call.error_type && !call.cancelled ? 1 : 0),
  cancelled_calls: (sums?.cancelled_calls ?? 0) + (call.cancelled ? 1 : 0),
  filtered_calls: (sums?.filtered_calls ?? 0) + (call.contentFilters.length > 0 ? 1 : 0),
  prompt_tokens: (sums?.prompt_tokens ?? 0) + call.native_tokens_prompt,
  completion_tokens: (sums?.completion_tokens ?? 0) + call.native_tokens_completion,
  reasoning_tokens: (sums?.reasoning_tokens ?? 0) + call.native_tokens_reasoning,
  cached_tokens: (sums?.cached_tokens ?? 0) + call.native_tokens_cached,
  cost: (sums?.cost ?? 0n) + (call.total_cost ?? 0n),
  byok_cost: (sums?.byok_cost ?? 0n) + ((call.is_byok && call.upstream_inference_cost) || 0n),
  upstream_cost: (sums?.upstream_cost ?? 0n) + (call.upstream_inference_cost ?? 0n),
})

const isUnpriced = (call: Generation) =>
  call.error_type === null &&
  (call.is_byok ? call.upstream_inference_cost : call.total_cost) === null

const readCost = (call: Generation) =>
  Number(call.total_cost ?? 0n) + (call.is_byok ? Number(call.upstream_inference_cost ?? 0n) : 0)

function findMedian(costs: number[]): number {
  const sorted = costs.toSorted((a, b) => a - b)
  const half = Math.floor(sorted.length / 2)
  const [low = 0, high = 0] = sorted.slice(sorted.length % 2 === 0 ? half - 1 : half, half + 1)
  return sorted.length % 2 === 0 ? (low + high) / 2 : low
}

const KILLED = join(import.meta.dir, '../support/killed-rollup.ts')

/** Begins a slice and undoes it before its end, as a database does for a process that is killed. */
async function advanceAndDie({ rollups }: Store, limit: number): Promise<void> {
  const { prototype } = Database
  const { query } = prototype
  prototype.query = function (this: Database, sql: string) {
    if (sql.startsWith('insert into rollup_cursor')) throw new Error('killed')
    return query.call(this, sql)
  } as typeof query
  const advancing = rollups.advance(limit)
  prototype.query = query
  await advancing.catch(error => expect(error.message).toBe('killed'))
}

/** Has another process roll up and be killed in the middle. */
async function killAnother(path: string, integers: (below: number) => number): Promise<void> {
  const when = integers(2) === 0 ? 'within' : 'after'
  const command = [process.execPath, KILLED, path, String(integers(3)), when]
  const killed = Bun.spawn(command)
  await killed.exited
  expect(killed.signalCode).toBe('SIGKILL')
}

test(
  'after random operations and crashes the roll-ups equal a recount of the records',
  async () => {
    const integers = createSeededIntegers(SEED)
    const makeCall = createRandomCalls(integers)
    const path = newPath()
    let store = await open(path)
    const recorded: Generation[] = []
    for (let i = 0; i < (LONG ? 10_000 : 300); i++) {
      const what = integers(12)
      if (what < 5) {
        const calls = Array.from({ length: 1 + integers(6) }, makeCall)
        await store.generations.record(toEntries(calls))
        recorded.push(...calls)
      } else if (what < 8) await store.rollups.advance(1 + integers(9))
      else if (what === 8) {
        await store.close()
        store = await open(path)
      } else if (what < 11) await advanceAndDie(store, 1 + integers(9))
      // A process of its own takes a tenth of a second.
      else if (LONG && integers(10) === 0) await killAnother(path, integers)
      else if (integers(4) === 0) await store.rollups.reset()
    }
    const recount = new Recount(recorded)
    await rollUp({ store })
    expect(await store.rollups.verify()).toEqual([])
    for (let i = 0; i < 60; i++) {
      const query = buildQuery(integers)
      expect([query, await readSorted(store, query)]).toEqual([query, recount.sum(query)])
    }
    expect(await readSorted(store, EVERYTHING)).toEqual(recount.sum(EVERYTHING))
    let cells = 0
    for (let week = 2928; week < 2945; week++) {
      const expected = recount.listCells(week)
      expect(await store.rollups.listSessionCells(week, OF_TWO)).toEqual(expected)
      cells += expected.length
    }
    expect(cells).toBeGreaterThan(0)
    expect(await store.rollups.listApps()).toEqual(recount.apps)
    await store.close()
  },
  LONG ? 1_200_000 : undefined,
)

test.each([
  ['0', 'within'],
  ['2', 'after'],
  ['2', 'within'],
])(
  'a process that is killed after %s slices, %s the next, counts nothing twice',
  async (slices, when) => {
    const path = newPath()
    const makeCall = createRandomCalls(createSeededIntegers(SEED))
    const before = await open(path)
    await before.generations.record(toEntries(Array.from({ length: 30 }, makeCall)))
    await before.close()
    const killed = Bun.spawn([process.execPath, KILLED, path, slices, when])
    await killed.exited
    expect(killed.signalCode).toBe('SIGKILL')
    const store = await open(path)
    expect(await store.rollups.verify()).toEqual([])
    await rollUp({ store })
    expect(await store.rollups.verify()).toEqual([])
    expect((await store.rollups.sum(EVERYTHING))[0]?.sums.calls).toBe(30)
    await store.close()
  },
)

test('a clock that jumps over the borders of an hour, a day, a week and a year counts all once', async () => {
  const times = [
    // Sunday, the last of an hour, a day and a week; then the first of the next.
    ...['2026-03-08T23:59:59.999Z', '2026-03-09T00:00:00.000Z'],
    // Back behind the border that was rolled up already, and far away in both directions.
    ...['2026-03-08T23:59:59.998Z', '2031-01-01T00:00:00.000Z', '1971-12-31T23:59:59.999Z'],
    ...['2026-03-09T00:00:00.001Z', '2025-12-31T23:59:59.999Z', '2026-03-08T22:00:00.000Z'],
  ]
  for (const sliceOf of [1, 3, 99]) {
    const store = await open(newPath())
    for (const [i, settled_at] of times.entries()) {
      const call = { id: `gen-${i}`, created_at: settled_at, settled_at, total_cost: BigInt(1 + i) }
      await store.generations.record(toEntries([buildGeneration(call)]))
      if (i % 2 === 1) await store.rollups.advance(sliceOf)
    }
    await rollUp({ store })
    expect(await store.rollups.verify()).toEqual([])
    const read = async (grain: 'hour' | 'day') =>
      (await store.rollups.sum({ ...EVERYTHING, grain, isByTime: true }))
        .map(({ start, sums }) => [start, sums.calls])
        .sort(([a], [b]) => Number(a) - Number(b))
    const count = (size: number) => {
      const slots = times.map(time => Math.floor(Date.parse(time) / size))
      return [...Map.groupBy(slots, slot => slot)]
        .map(([slot, { length }]) => [slot, length])
        .sort(([a], [b]) => Number(a) - Number(b))
    }
    expect(await read('hour')).toEqual(count(3_600_000))
    expect(await read('day')).toEqual(count(86_400_000))
    await store.close()
  }
})

test('two processes that roll up at once count every call once', async () => {
  const path = newPath()
  const [one, other] = [await open(path), await open(path)]
  const makeCall = createRandomCalls(createSeededIntegers(SEED))
  await one.generations.record(toEntries(Array.from({ length: 50 }, makeCall)))
  const advance = async (store: Store) => {
    while ((await store.rollups.advance(3)) > 0);
  }
  await Promise.all([advance(one), advance(other)])
  expect(await one.rollups.verify()).toEqual([])
  await Promise.all([one.close(), other.close()])
})

test('records of two processes in turns are counted once, whoever adds them', async () => {
  const path = newPath()
  const stores = [await open(path), await open(path)] as const
  const makeCall = createRandomCalls(createSeededIntegers(SEED))
  const integers = createSeededIntegers(SEED)
  for (let i = 0; i < (LONG ? 2_000 : 200); i++) {
    const store = stores[integers(2) as 0 | 1]
    if (integers(3) === 0) await store.rollups.advance(1 + integers(5))
    else
      await store.generations.record(toEntries(Array.from({ length: 1 + integers(4) }, makeCall)))
  }
  await rollUp({ store: stores[0] })
  expect(await stores[1].rollups.verify()).toEqual([])
  expect(await stores[1].rollups.advance(5)).toBe(0)
  await Promise.all(stores.map(store => store.close()))
})

test('what a process has recorded and never added is read from the records', async () => {
  const makeCall = createRandomCalls(createSeededIntegers(SEED))
  const store = await open(newPath())
  const calls = Array.from({ length: 1_003 }, makeCall)
  await store.generations.record(toEntries(calls))
  await rollUp({ store })
  expect(await store.rollups.verify()).toEqual([])
  expect(await readSorted(store, EVERYTHING)).toEqual(new Recount(calls).sum(EVERYTHING))
  await store.close()
})

test('a difference is found, and gone once the roll-ups are computed again', async () => {
  const path = newPath()
  const store = await open(path)
  await store.generations.record(toEntries([buildGeneration()]))
  await rollUp({ store })
  const db = new Database(path)
  db.run('update usage_hours set cost = cost + 1')
  expect((await store.rollups.verify()).length).toBeGreaterThan(0)
  await recomputeRollups({ store })
  expect(await store.rollups.verify()).toEqual([])
  db.run('delete from usage_endpoint_days')
  expect((await store.rollups.verify()).length).toBeGreaterThan(0)
  await recomputeRollups({ store })
  // Records that are gone cannot be counted again, so their sums are kept.
  db.run('delete from generations')
  await expect(recomputeRollups({ store })).rejects.toMatchObject({ type: 'conflict' })
  expect(await store.rollups.sum(EVERYTHING)).toHaveLength(1)
  db.close()
  await store.close()
})

test('calls that come while others are rolled up begin no second run', async () => {
  const gate = Promise.withResolvers<number>()
  const rollups = { advance: () => gate.promise } as Partial<RollupStore> as RollupStore
  using advance = spyOn(rollups, 'advance')
  const events = openEvents()
  const keeper = openRollupKeeper({ store: { rollups }, events })
  const generation = buildGeneration()
  for (let i = 0; i < 2_000; i++) events.publish('generation.finished', generation)
  expect(advance).toHaveBeenCalledTimes(1)
  gate.resolve(0)
  await keeper.close()
})

test('calls are rolled up by five hundred, in the background', async () => {
  const store = await open(':memory:')
  const events = openEvents()
  const keeper = openRollupKeeper({ store, events })
  const generation = buildGeneration()
  await store.generations.record([{ generation, charge: null }])
  for (let i = 1; i < 500; i++) events.publish('generation.finished', generation)
  expect(await store.rollups.sum(EVERYTHING)).toEqual([])
  events.publish('generation.finished', generation)
  await keeper.close()
  expect(await store.rollups.sum(EVERYTHING)).toHaveLength(1)
  await store.close()
})
