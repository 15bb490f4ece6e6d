import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { copyStore } from '../../../src/app/backup/store-copy.ts'
import { examineGateway, type Finding } from '../../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import type { HeldCall } from '../../../src/limits/ledger.ts'
import { listGenerations } from '../../../src/observability/generations.ts'
import { rollUp } from '../../../src/observability/rollups.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey, deleteKey } from '../../../src/resources/keys.ts'
import { WITH_ROWID } from '../../../src/store/copy.ts'
import { openPostgres } from '../../../src/store/postgres.ts'
import { findWaiting } from '../../../src/store/record-log.ts'
import { listCopiedTables } from '../../../src/store/sqlite/copy.ts'
import { lockData } from '../../../src/store/sqlite/lock.ts'
import { runCommand } from '../../support/commands.ts'
import { openDatabase } from '../../support/database.ts'
import { TestClock } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge, PAYER } from '../../support/generation.ts'
import { createSecrets } from '../../support/ledger.ts'
import { hasMounts, NAMESPACE } from '../../support/mounts.ts'
import { hasPostgres, type PostgresServer, startPostgres } from '../../support/postgres.ts'
import { PROGRAM } from '../../support/server.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-copy-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const SECRET = 'the secret of all copies, which is long'
const OTHER = 'another secret of copies, which is long'

let places = 0
const newPlace = () => join(root, `${++places}`)

const copy = (from: string, to: string, secret: string | undefined = SECRET) =>
  copyStore({ from, to, secret })

/** Makes a data directory with keys, and with charged calls that are summed. */
async function makeData(calls = 3): Promise<string> {
  const data = newPlace()
  const gateway = await openGateway({ data, secret: SECRET })
  const operator = getOperator(gateway)
  const hashes: string[] = []
  for (const name of ['a', 'b', 'c'])
    hashes.push((await createKey(gateway, operator, { name })).data.hash)
  // The rows of the others keep their numbers.
  await deleteKey(gateway, operator, hashes[0] ?? '')
  const settled_at = new Date().toISOString()
  const costs = { total_cost: 5n, upstream_inference_cost: 5n }
  for (let i = 0; i < calls; i += 500)
    await gateway.store.generations.record(
      Array.from({ length: Math.min(500, calls - i) }, (_, place) => {
        const id = `gen-${i + place}`
        const title = `“𝄞” it's \\ "q"\n${i + place}`
        return {
          generation: buildGeneration({ id, settled_at, title, latency: 0.1 + place, ...costs }),
          charge: buildStepCharge({ id, settled_at, nanos: 5n, day: toDayNumber(new Date()) }),
        }
      }),
    )
  await rollUp(gateway)
  await gateway.close()
  return data
}

/** What a row has in a column that does not take any text or number. */
const FITTING: Record<string, string | number | null> = {
  'keys.kind': 'inference',
  'presets.status': 'active',
  'members.role': 'org:member',
  'workspace_members.role': 'member',
  'workspace_members.source': 'scim',
  'budgets.interval': 'daily',
  'scim_group_mappings.role': 'admin',
  'scim_sync_jobs.status': 'failed',
  'ledger.source': 'exact',
  'sign_ins.kind': 'link',
  'files.downloadable': 1,
  'rollup_cursor.id': 1,
  'alerts.thresholds': '[]',
  'destinations.regions': '[]',
  'preset_versions.config': '{}',
  'outbox.calls': 1,
  'call_spend.day': 20_000,
  'spend.day': 20_000,
  'outbox.segment': null,
}

/** What is read when a gateway is opened has no text where it may have none. */
const READ = new Set(['presets', 'budgets', 'guardrails', 'byok', 'destinations', 'alerts'])

/** Writes a row into every table that has none, as another program would. */
function plantRows(data: string): void {
  const db = openDatabase(data)
  for (const { name: table } of listCopiedTables()) {
    if (db.query(`select 1 from ${table}`).get()) continue
    const parents = db
      .query<{ from: string; table: string; to: string }, []>(`pragma foreign_key_list(${table})`)
      .all()
    const columns = db
      .query<{ name: string; type: string; notnull: number }, []>(`pragma table_info(${table})`)
      .all()
    const values = columns.map(({ name, type, notnull }, i) => {
      const parent = parents.find(({ from }) => from === name)
      if (parent)
        return Object.values(
          db.query(`select ${parent.to} from ${parent.table}`).get() as object,
        )[0]
      const fitting = FITTING[`${table}.${name}`]
      if (fitting !== undefined) return fitting
      if (READ.has(table) && notnull === 0) return null
      if (type === 'TEXT') return `${table} “𝄞” it's \\ "q"\n${i}`
      return type === 'REAL' ? 0.1 + i : 2n ** 62n + BigInt(i)
    })
    const names = columns.map(({ name }) => `"${name}"`).join(', ')
    const places = values.map(() => '?').join(', ')
    db.query(`insert into ${table} (${names}) values (${places})`).run(...(values as never[]))
  }
  db.close()
}

/** Returns all that a database has. */
function dump(data: string): Record<string, unknown[]> {
  const path = join(data, 'gateway.db')
  using db = new Database(path, { readonly: true, safeIntegers: true })
  const tables = [...listCopiedTables().map(({ name }) => name), 'sqlite_sequence']
  return Object.fromEntries(
    tables.map(name => {
      const rows = db
        .query(`select ${WITH_ROWID.has(name) ? 'rowid, ' : ''}* from ${name}`)
        .values()
      return [name, rows.map(row => Bun.inspect(row)).sort()]
    }),
  )
}

/** Returns what `doctor` says, but where the end is kept, which is beside a database. */
async function examine(gateway: Gateway): Promise<Finding[]> {
  const { data } = await examineGateway(gateway)
  return data.map(({ found, ...one }) =>
    one.check === 'end' ? { ...one, found: '' } : { ...one, found },
  )
}

async function exportAll(gateway: Gateway): Promise<string> {
  const { data } = await listGenerations(gateway, getOperator(gateway), { limit: 500 })
  return data.map(call => JSON.stringify(call)).join('\n')
}

async function lookInto(gateway: Gateway): Promise<{ doctor: Finding[]; exported: string }> {
  const found = { doctor: await examine(gateway), exported: await exportAll(gateway) }
  await gateway.close()
  return found
}

const openData = (data: string) =>
  openGateway({ data, secret: SECRET, requiresOwnSecret: true, migrates: false })

/** A call that a server has begun. */
const HELD: HeldCall = {
  ...{ ...PAYER, id: 'gen-held', request_id: 'r', created_at: '2026-03-04T05:06:07.000Z' },
  ...{ api_type: 'completions', model: 'acme/small', streamed: true, step: 1, byok: false },
  ...{ nanos: 5n, spent: 0n },
}

const readRefusal = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'no refusal',
    (thrown: { type?: string; message: string }) => `${thrown.type}: ${thrown.message}`,
  )

test('a copy of a data directory is equal to it', async () => {
  const [from, to] = [await makeData(), newPlace()]
  plantRows(from)
  const { data } = await copy(from, to)
  expect(data).toMatchObject({ from, to, generations: 3, files: 1 })
  expect(dump(to)).toEqual(dump(from))
  expect(await lookInto(await openData(to))).toEqual(await lookInto(await openData(from)))
  expect(readdirSync(to).filter(name => name.endsWith('.part'))).toEqual([])
})

test('a copy is of one moment, whatever a command writes meanwhile', async () => {
  const [from, to] = [await makeData(), newPlace()]
  const before = dump(from)
  let isWritten = false
  const onProgress = () => {
    if (isWritten) return
    isWritten = true
    using db = openDatabase(from)
    db.run("insert into seal_log values (999, '', '', null)")
  }
  await copyStore({ from, to, secret: SECRET, onProgress })
  expect([isWritten, dump(to)]).toEqual([true, before])
  const gateway = await openData(to)
  expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  await gateway.close()
})

/** What a killed server has left: records in its log, and messages in its spool. */
async function makeKilled(): Promise<string> {
  const [data, killed] = [await makeData(), newPlace()]
  const gateway = await openGateway({
    ...{ data, secret: SECRET, access: 'server', clock: new TestClock() },
  })
  for (const ids of [['w1'], ['w2', 'w3']])
    await gateway.store.generations.record(
      ids.map(id => ({
        ...{ generation: buildGeneration({ id }), charge: null },
        outbox: [{ topic: 'trace', payload: `{"of":"${id}"}`, receivers: ['a'] }],
      })),
    )
  cpSync(data, killed, { recursive: true })
  await gateway.close()
  return killed
}

/** Lists the messages that wait, as their receiver gets them. */
async function listMessages(gateway: Gateway): Promise<string[]> {
  const rows = await gateway.store.outbox.listPending(9)
  const seal = gateway.secrets.destinationSeal()
  return rows.map(({ payload, generation_id }) =>
    payload.startsWith('{') ? payload : (seal.open(payload, generation_id) ?? 'not readable'),
  )
}

test('what a killed server has left in its log and its spool is in the copy', async () => {
  const [killed, to] = [await makeKilled(), newPlace()]
  expect(findWaiting(killed)).not.toBeNull()
  expect((await copy(killed, to)).data.generations).toBe(6)
  using db = openDatabase(to)
  expect(db.query('select 1 from outbox where segment is not null').all()).toEqual([])
  const gateway = await openData(to)
  expect(await listMessages(gateway)).toEqual(['{"of":"w1"}', '{"of":"w2"}', '{"of":"w3"}'])
  expect((await examine(gateway)).filter(({ ok }) => !ok)).toEqual([])
  await gateway.close()
})

describe('store copy refuses', () => {
  test('a place that is none', async () => {
    const [data, file] = [await makeData(), join(root, 'file')]
    writeFileSync(file, '')
    const full = await makeData()
    expect(await readRefusal(copy(data, data))).toMatch(/^invalid_request: .*two places/)
    expect(await readRefusal(copy(data, `${data}/.`))).toMatch(/^invalid_request: .*two places/)
    expect(await readRefusal(copy(newPlace(), newPlace()))).toMatch(/^not_found: There is no data/)
    expect(await readRefusal(copy(file, newPlace()))).toMatch(/expected a directory/)
    expect(await readRefusal(copy(data, file))).toMatch(/expected a directory/)
    expect(await readRefusal(copy(data, full))).toMatch(/^conflict: .*is not empty \(.*gateway.db/)
    for (const url of ['postgres://u:hidden@h', 'postgres://u:hidden@h/', 'postgres://:hidden@/a'])
      for (const work of [copy(data, url), copy(url, newPlace())]) {
        const refusal = await readRefusal(work)
        expect(refusal).toMatch(/^invalid_request: The URL of Postgres/)
        expect(refusal).not.toContain('hidden')
      }
  })

  test('another secret, none, and two', async () => {
    const [data, to] = [await makeData(), newPlace()]
    expect(await readRefusal(copy(data, to, OTHER))).toMatch(/^conflict: .*another secret/)
    expect(await readRefusal(copyStore({ from: data, to, secret: undefined }))).toMatch(
      /^conflict: The secret of this data is missing/,
    )
    expect(existsSync(to)).toBe(false)
    writeFileSync(join(data, 'secret.key'), Buffer.alloc(32, 1), { mode: 0o600 })
    mkdirSync(to, { mode: 0o700 })
    writeFileSync(join(to, 'secret.key'), Buffer.alloc(32, 2), { mode: 0o600 })
    expect(await readRefusal(copyStore({ from: data, to, secret: undefined }))).toMatch(
      /^conflict: .*is another secret than/,
    )
  })

  test('a directory that a server uses, and what a dead one has left', async () => {
    const [data, to] = [await makeData(), newPlace()]
    const unlock = lockData(data)
    expect(await readRefusal(copy(data, to))).toMatch(/^conflict: Another gateway serves/)
    unlock()
    const gateway = await openGateway({ data, secret: SECRET, access: 'server' })
    await gateway.journal.holds.append(HELD).written
    await gateway.close()
    expect(await readRefusal(copy(data, to))).toMatch(/^conflict: .*has left 1 call/)
  })

  test('rows that are missing at the end, and an earlier schema', async () => {
    const [data, old] = [await makeData(), await makeData()]
    const db = openDatabase(data)
    db.run('delete from ledger where seq = (select max(seq) from ledger)')
    db.close()
    expect(await readRefusal(copy(data, newPlace()))).toMatch(/^conflict: .*missing at the end/)
    const earlier = openDatabase(old)
    earlier.run('pragma user_version = 40')
    earlier.close()
    expect(await readRefusal(copy(old, newPlace()))).toMatch(/^conflict: This data has schema 40/)
  })
})

test.skipIf(!hasMounts)('store copy onto a disk that is full leaves nothing', async () => {
  const [from, to] = [await makeData(), newPlace()]
  mkdirSync(to, { mode: 0o700 })
  const script =
    'mount -t tmpfs -o size=200k,mode=0700 small "$0" && "$@"; code=$?; ls -A "$0" >&2; exit $code'
  const child = Bun.spawn(
    [...NAMESPACE, 'sh', '-c', script, to, ...PROGRAM, 'store', 'copy', from, to],
    { env: { ...process.env, GATEWAY_SECRET: SECRET }, stdout: 'ignore', stderr: 'pipe' },
  )
  const stderr = await new Response(child.stderr).text()
  expect(stderr).toContain('Is the disk full?')
  expect([await child.exited, stderr.includes('copy.part'), stderr.includes('gateway.db')]).toEqual(
    [...[1, false, false]],
  )
})

if (await hasPostgres())
  describe('store copy to Postgres', () => {
    let server: PostgresServer
    beforeAll(async () => {
      server = await startPostgres()
    })
    afterAll(() => server[Symbol.asyncDispose]())
    beforeEach(() => server.run('drop schema if exists gateway cascade'))

    const openUrl = async (url = server.url) =>
      openGateway({
        store: await openPostgres({ url, secrets: createSecrets(SECRET) }),
        secret: SECRET,
      })

    const nameUrl = (database: string, user = 'postgres:hidden') =>
      server.url.replace('postgres@', `${user}@`).replace(/postgres$/, database)

    /** Tells whether a schema of a store is in the database. */
    const hasSchema = async () =>
      (await server.run("select 1 from pg_namespace where nspname = 'gateway'")).length > 0

    test('is equal to the data directory, and so is the copy of that', async () => {
      const [from, back] = [await makeData(), newPlace()]
      plantRows(from)
      const { data } = await copy(from, server.url)
      expect(data).toMatchObject({ generations: 3, files: 1 })
      const expected = await lookInto(await openData(from))
      const found = await lookInto(await openUrl())
      expect(found).toEqual(expected)
      expect(await copy(server.url, back)).toMatchObject({ data: { rows: data.rows } })
      expect(dump(back)).toEqual(dump(from))
      expect(await lookInto(await openData(back))).toEqual(expected)
    })

    test('has an equal verdict where nothing is wrong, and is gone on with', async () => {
      const [from, back] = [await makeData(), newPlace()]
      await copy(from, server.url)
      const gateway = await openUrl()
      const before = await examine(gateway)
      expect(before).toEqual(await examine(await openData(from)))
      expect(before.filter(({ ok }) => !ok)).toEqual([])
      await createKey(gateway, getOperator(gateway), { name: 'd' })
      const settled_at = new Date().toISOString()
      const charge = buildStepCharge({
        id: 'x',
        settled_at,
        nanos: 5n,
        day: toDayNumber(new Date()),
      })
      const costs = { total_cost: 5n, upstream_inference_cost: 5n }
      await gateway.store.generations.record([
        { generation: buildGeneration({ id: 'x', settled_at, ...costs }), charge },
      ])
      await rollUp(gateway)
      const expected = await lookInto(gateway)
      expect(expected.doctor.filter(({ ok }) => !ok)).toEqual([])
      await copy(server.url, back)
      expect(await lookInto(await openData(back))).toEqual(expected)
    })

    test('has what a killed server has left, and is copied into another database', async () => {
      await server.run('create database two')
      await copy(await makeKilled(), server.url)
      const two = nameUrl('two')
      expect((await copy(server.url, two)).data.generations).toBe(6)
      const [first, second] = [await openUrl(), await openUrl(two)]
      expect(await listMessages(first)).toEqual(['{"of":"w1"}', '{"of":"w2"}', '{"of":"w3"}'])
      expect(await listMessages(second)).toEqual(await listMessages(first))
      expect(await lookInto(second)).toEqual(await lookInto(first))
    })

    test('is nothing where the process is killed in the middle, and made by another try', async () => {
      const [from, to] = [await makeData(20_000), newPlace()]
      const start = (...sides: string[]) =>
        Bun.spawn([...PROGRAM, 'store', 'copy', ...sides], {
          env: { ...process.env, GATEWAY_SECRET: SECRET },
          stdout: 'ignore',
          stderr: 'ignore',
        })
      const first = start(from, server.url)
      await untilTrue(async () => (await server.run(WRITES)).length > 0)
      first.kill('SIGKILL')
      await first.exited
      await untilTrue(async () => (await server.run(OTHERS)).length === 0)
      expect(await hasSchema()).toBe(false)
      await copy(from, server.url)
      const second = start(server.url, to)
      const part = join(to, 'copy.part', 'gateway.db')
      await untilTrue(
        async () => (statSync(part, { throwIfNoEntry: false })?.size ?? 0) > 1_000_000,
      )
      second.kill('SIGKILL')
      await second.exited
      expect(existsSync(join(to, 'gateway.db'))).toBe(false)
      await copy(server.url, to)
      expect(dump(to)).toEqual(dump(from))
      expect(readdirSync(to).filter(name => name.endsWith('.part'))).toEqual([])
    })

    const WRITES = "select 1 from pg_stat_activity where query like 'insert into generations%'"
    const OTHERS = `select 1 from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`

    test('refuses a database that is not there, full, of another or of no rights', async () => {
      const data = await makeData()
      await server.run("create role guest login password 'hidden'")
      await server.run("create database latin encoding 'LATIN1' template template0")
      const refuse = (url: string) => readRefusal(copy(data, url))
      expect(await refuse(nameUrl('nowhere'))).toMatch(
        /^not_found: There is no database nowhere at/,
      )
      expect(await refuse(nameUrl('postgres', 'nobody:hidden'))).toMatch(
        /^permission_denied: .*nobody/,
      )
      expect(await refuse(nameUrl('postgres', 'guest:hidden'))).toMatch(
        /^permission_denied: .*permission denied for database/,
      )
      expect(await refuse(nameUrl('latin'))).toMatch(/^invalid_request: .*LATIN1: UTF8 is needed/)
      expect(await refuse('postgres://u:hidden@127.0.0.1:1/a')).toMatch(
        /^(service_)?unavailable: 127.0.0.1:1 cannot be reached/,
      )
      expect(await hasSchema()).toBe(false)
      await server.run('create schema gateway')
      await server.run('create table gateway.theirs (a text)')
      expect(await refuse(server.url)).toMatch(/^conflict: .*is not empty.*theirs/)
      expect(await readRefusal(copy(server.url, newPlace()))).toMatch(
        /^not_found: There is no store/,
      )
      await server.run('drop table gateway.theirs')
      await copy(data, server.url)
      expect(await refuse(server.url)).toMatch(/^conflict: .*is not empty.*2 keys, 3 generations/)
      expect(await readRefusal(copy(server.url, `${server.url}`))).toMatch(/two places/)
      const to = newPlace()
      expect(await readRefusal(copy(server.url, to, OTHER))).toMatch(/^conflict: .*another secret/)
      await server.run('drop index gateway.audit_of_time')
      expect(await readRefusal(copy(server.url, to))).toMatch(
        /^conflict: .*audit_of_time is missing/,
      )
      expect(existsSync(to)).toBe(false)
    })

    test('refuses a text that Postgres would change, and names it', async () => {
      const data = await makeData()
      const db = openDatabase(data)
      db.run("update generations set title = 'a' || char(0) || 'b' where id = 'gen-1'")
      db.run("update generations set title = 'a\\u0000b' where id = 'gen-2'")
      db.close()
      expect(await readRefusal(copy(data, server.url))).toMatch(
        /^conflict: generations 2: its title has a zero character/,
      )
      expect(await hasSchema()).toBe(false)
    })

    test('is told by the command, which never says the password', async () => {
      const data = await makeData()
      const env = { GATEWAY_SECRET: SECRET, GATEWAY_POSTGRES_URL: nameUrl('postgres') }
      const run = (...args: string[]) => runCommand(['store', 'copy', ...args], { env })
      const done = await run(data, 'postgres:')
      expect(done.code).toBe(0)
      expect(done.stdout).toMatch(
        /^postgres:\/\/127.0.0.1:\d+\/postgres: \d+ rows, with 2 keys and 3/,
      )
      expect(done.stdout).toContain('Not copied: the secret')
      const again = await run(data, 'postgres:', '--json')
      expect([again.code, done.stdout + done.stderr + again.stdout + again.stderr]).toEqual([
        4,
        expect.not.stringContaining('hidden'),
      ])
      const unset = await runCommand(['store', 'copy', data, 'postgres:'], {
        env: { GATEWAY_SECRET: SECRET },
      })
      expect(unset.stderr).toContain('GATEWAY_POSTGRES_URL, which is not set')
    })
  })
else
  describe('store copy to Postgres', () => {
    test.skip('is not installed, and cannot be', () => undefined)
  })

/** Waits until something is so. */
async function untilTrue(look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) await Bun.sleep(2)
}
