import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { createRandomIds } from '../../../src/base/ids.ts'
import { isObject } from '../../../src/base/json.ts'
import { Mirror } from '../../../src/base/mirror.ts'
import { assignKeys } from '../../../src/limits/assignments.ts'
import { setBudget } from '../../../src/limits/budgets.ts'
import { addCredit } from '../../../src/limits/credits.ts'
import { getPolicy } from '../../../src/limits/effective.ts'
import { createGuardrail } from '../../../src/limits/guardrails.ts'
import { buildKeyActor, getOperator } from '../../../src/resources/actor.ts'
import { createKey, updateKey } from '../../../src/resources/keys.ts'
import { replaceMethods } from '../../../src/store/methods.ts'
import { openPostgres } from '../../../src/store/postgres.ts'
import { openSqlite } from '../../../src/store/sqlite.ts'
import type { Store } from '../../../src/store/store.ts'
import { ignoreRefusal, listOperations } from '../../support/administration.ts'
import { testGateway } from '../../support/gateway.ts'
import { TEST_SECRET, TEST_SECRETS } from '../../support/ledger.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'
import { createSeededIntegers, LONG, SEED } from '../../support/random.ts'

/** A database that several processes have opened. */
interface Shared {
  open(): Promise<Store>
  /** Runs statements as another program. */
  run(statements: string): Promise<unknown>
}

const directory = mkdtempSync(join(tmpdir(), 'gateway-following-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
let files = 0

function shareSqlite(): Shared {
  const path = join(directory, `${++files}.db`)
  const options = { path, durability: 'normal', busyTimeout: 2_000, secrets: TEST_SECRETS } as const
  return {
    open: () => openSqlite(options),
    async run(statements) {
      using db = new Database(path)
      db.run('pragma foreign_keys = on')
      db.run(statements)
    },
  }
}

const ENGINES: [string, () => Promise<Shared>][] = [['SQLite', async () => shareSqlite()]]
if (await hasPostgres()) {
  const postgres = await startPostgres()
  afterAll(() => postgres[Symbol.asyncDispose]())
  ENGINES.push([
    'Postgres',
    async () => {
      await postgres.empty()
      return {
        open: async () => openPostgres({ url: postgres.url, secrets: TEST_SECRETS }),
        // Nobody else counts what it has done.
        run: statements => postgres.run(`begin; ${statements}; commit`),
      }
    },
  ])
} else test.skip('Postgres is not installed, and cannot be', () => undefined)

const start = async (shared: Shared) =>
  testGateway({ store: await shared.open(), secret: TEST_SECRET, ids: createRandomIds() })

const MIRRORS = ['keys', 'workspaces', 'budgets', 'presets', 'assignments', 'guardrails'] as const

/** Shows all that calls find in memory. */
function show(gateway: Gateway) {
  const { memory } = gateway
  const sort = (values: Iterable<unknown>) => Array.from(values, toText).toSorted()
  return {
    ...Object.fromEntries(MIRRORS.map(noun => [noun, sort(memory[noun].values())])),
    sizes: MIRRORS.map(noun => memory[noun].size),
    alerts: sort(memory.alerts.values()),
    byok: sort(memory.byok.values().map(({ key, isReadable }) => [key, isReadable])),
    destinations: sort(
      memory.destinations.values().map(({ destination, config }) => [destination, config]),
    ),
    credits: memory.credits,
    policies: sort(memory.keys.values().map(key => describePolicy(gateway, key))),
    found: sort(memory.keys.values().map(key => findBySecrets(gateway, key))),
  }
}

type Key = ReturnType<Gateway['memory']['keys']['get']> & object

const toText = (value: unknown) =>
  JSON.stringify(value, (_, one) => {
    if (typeof one === 'bigint') return `${one}n`
    // What a database cannot hold is in the memory of who wrote it until it reads that.
    if (typeof one === 'string') return one.toWellFormed().replaceAll('\0', '\ufffd')
    return isObject(one) ? Object.fromEntries(Object.entries(one).toSorted()) : one
  })

const describePolicy = (gateway: Gateway, key: Key) => [
  key.hash,
  getPolicy(gateway, buildKeyActor(gateway, key)),
]

const findBySecrets = ({ memory, clock }: Gateway, key: Key) =>
  [key.hash, key.secret_hash, key.previous_secret_hash].map(
    secret => secret && memory.keys.findBySecret(secret, clock.now())?.hash,
  )

/** What other programs do, which know nothing of gateways; and what is rolled back. */
const FOREIGN = [
  'update keys set disabled = 1 - disabled',
  'delete from guardrail_keys where id in (select min(id) from guardrail_keys)',
  "update guardrail_members set created_at = '2026-01-01T00:00:00.000Z'",
  'update budgets set limit_usd = limit_usd + 1',
  'delete from guardrails where id in (select min(id) from guardrails)',
  "update presets set description = 'changed'",
  "update preset_versions set system_prompt = 'changed'",
  'delete from changes',
  'delete from changes where seq < (select max(seq) from changes)',
]

/** Finds of which parts of memory the triggers of a schema note changes. */
function listNoted(schema: string, pattern: RegExp): string[] {
  const text = readFileSync(new URL(`../../../src/store/${schema}`, import.meta.url), 'utf8')
  return [...new Set(Array.from(text.matchAll(pattern), ([, noun = '']) => noun))].toSorted()
}

test('the changes of all that is in memory are noted', async () => {
  const gateway = await testGateway()
  const mirrors = Object.entries(gateway.memory).flatMap(([noun, part]) =>
    part instanceof Mirror ? noun : [],
  )
  const noted = [...mirrors, 'credits'].toSorted()
  expect(listNoted('sqlite/schema.sql', /insert into changes \(noun, name\).*?'(\w+)'/g)).toEqual(
    noted,
  )
  expect(listNoted('postgres/schema.sql', /note_change\('(\w+)'/g)).toEqual(noted)
  await gateway.close()
})

describe.each(ENGINES)('a server follows what others change: %s', (engine, share) => {
  const place = engine === 'Postgres' ? 'set local search_path to gateway; ' : ''

  test(`it has all that one has which reads everything (seed ${SEED})`, async () => {
    const shared = await share()
    const [server, terminal, oracle] = [
      await start(shared),
      await start(shared),
      await start(shared),
    ]
    const draw = createSeededIntegers(SEED)
    const pick = <Item>(items: readonly Item[]) => items[draw(items.length)] as Item
    const operations = {
      terminal: listOperations(terminal, draw),
      own: listOperations(server, draw),
    }
    let [reloads, followed] = [0, 0]
    const { read } = server.store.changes
    server.store.changes.read = async () => {
      const news = await read()
      if (news.changes === null) reloads += 1
      else followed += news.changes.length
      return news
    }
    for (let i = 0; i < (LONG ? 1_000 : 60); i++) {
      const count = i % 5 === 0 ? 8 : 1
      const foreign = i % 7 === 6 ? pick(FOREIGN) : ''
      if (foreign) await shared.run(place + foreign)
      if (i % 11 === 10 && engine === 'SQLite')
        await shared.run("begin; update keys set name = 'never'; rollback")
      await Promise.all(
        Array.from({ length: count }, (_, n) =>
          pick(n % 3 === 1 ? operations.own : operations.terminal)().catch(ignoreRefusal),
        ),
      )
      // Where others of Postgres do something, nobody is told of it until a gateway does.
      if (foreign) await addCredit(terminal, getOperator(terminal), { amount: 0.01 })
      await Promise.all([server.catchUp(), terminal.catchUp()])
      await oracle.refresh()
      expect(show(server)).toEqual(show(oracle))
    }
    expect(server.memory.keys.size).toBeGreaterThan(3)
    expect(reloads).toBeGreaterThan(1)
    expect(followed).toBeGreaterThan(30)
    await Promise.all([server, terminal, oracle].map(one => one.close()))
  })

  test('it reads as many rows as were changed, among few keys and among many', async () => {
    const shared = await share()
    const [server, terminal] = [await start(shared), await start(shared)]
    const operator = getOperator(terminal)
    let keys = 0
    const assign = async () => {
      const { data } = await createGuardrail(terminal, operator, { name: 'g' })
      return assignKeys(terminal, operator, data.id, { key_hashes: [hash(keys - 1)] })
    }
    const changes = [
      () => createKey(terminal, operator, { name: 'k' }),
      () => updateKey(terminal, operator, hash(7), { disabled: true }),
      assign,
      () => setBudget(terminal, operator, operator.workspace_id, 'monthly', { limit_usd: 5 }),
    ]
    const counts: number[][] = []
    let count = 0
    countRows(server.store, rows => {
      count += rows
    })
    for (const most of [100, 10_000]) {
      for (; keys < most; keys += 100)
        await shared.run(place + insertKeys(operator.workspace_id, keys, 100))
      await addCredit(terminal, operator, { amount: 1 })
      await Promise.all([server.catchUp(), terminal.refresh()])
      const counted: number[] = []
      for (const change of changes) {
        count = 0
        await change()
        expect(await server.catchUp()).toBe(true)
        counted.push(count)
      }
      expect(server.memory.keys.get(hash(7))?.disabled).toBe(true)
      expect(server.memory.keys.size).toBeGreaterThan(most)
      counts.push(counted)
      await updateKey(terminal, operator, hash(7), { disabled: false })
    }
    const [few = [], many] = counts
    expect(many).toEqual(few)
    expect(Math.max(...few)).toBeLessThan(8)
    await Promise.all([server, terminal].map(one => one.close()))
  })

  test('what it changes while it reads has what others have changed of it', async () => {
    const shared = await share()
    const [server, terminal] = [await start(shared), await start(shared)]
    const { data } = await createKey(terminal, getOperator(terminal), { name: 'key' })
    await server.catchUp()
    await updateKey(terminal, getOperator(terminal), data.hash, { name: 'renamed' })
    let isOnce = true
    replaceMethods(server.store.keys, (name, method) => async (...parameters) => {
      const found = await method(...parameters)
      if (name === 'all' && isOnce) {
        isOnce = false
        await updateKey(server, getOperator(server), data.hash, { disabled: true })
      }
      return found
    })
    await server.catchUp()
    expect(isOnce).toBe(false)
    expect(server.memory.keys.get(data.hash)).toMatchObject({ name: 'renamed', disabled: true })
    await Promise.all([server, terminal].map(one => one.close()))
  })

  test('what it has changed itself it does not read again', async () => {
    const shared = await share()
    const [server, terminal] = [await start(shared), await start(shared)]
    const own = Array.from({ length: 5 }, (_, n) =>
      createKey(server, getOperator(server), { name: `own ${n}` }),
    )
    await Promise.all(own)
    const { data } = await createKey(terminal, getOperator(terminal), { name: 'other' })
    await createKey(server, getOperator(server), { name: 'own' })
    const { changes, take } = await server.store.changes.read()
    expect(changes?.map(({ noun, name }) => [noun, name])).toEqual([['keys', data.hash]])
    // Not taken yet: it may have failed to read the rows.
    expect((await server.store.changes.read()).changes).toEqual(changes)
    take()
    expect((await server.store.changes.read()).changes).toEqual([])
    await Promise.all([server, terminal].map(one => one.close()))
  })
})

const hash = (n: number) => n.toString(16).padStart(64, '0')

const insertKeys = (workspace: string, first: number, count: number) =>
  `insert into keys (hash, name, label, kind, workspace_id, disabled, include_byok_in_limit,
    created_at) values ${Array.from(
      { length: count },
      (_, n) => `('${hash(first + n)}', 'many', 'gw-v1-…', 'inference', '${workspace}', 0, 0,
        '2026-01-01T00:00:00.000Z')`,
    ).join(', ')}`

/** Counts the rows that the nouns of a store are asked for. */
function countRows(store: Store, onRows: (count: number) => void): void {
  const count = (found: unknown) =>
    typeof found === 'object' && found !== null && Symbol.iterator in found
      ? [...(found as Iterable<unknown>)].length
      : 0
  for (const noun of Object.values(store))
    if (typeof noun === 'object')
      replaceMethods(noun, (name, method) => {
        if (name === 'under') return method
        return async (...parameters) => {
          const found = await method(...parameters)
          onRows(count((found as { changes?: unknown } | null)?.changes ?? found))
          return found
        }
      })
}
