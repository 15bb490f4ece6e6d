import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { type Gateway, type GatewayParts, openGateway } from '../../../src/app/gateway.ts'
import { drainNode, listNodes } from '../../../src/app/nodes.ts'
import { createDefaultConfig } from '../../../src/config.ts'
import type { Bound } from '../../../src/limits/ledger.ts'
import type { RecorderEntry } from '../../../src/observability/generations/store.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { createMemoryBlobs } from '../../../src/store/blobs/memory.ts'
import { PATIENCE } from '../../../src/store/postgres/connection.ts'
import { VERSION } from '../../../src/store/postgres/schema.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { waitUntil } from '../../support/chat.ts'
import { TestClock } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'
import { listLogFiles } from '../../support/log.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'

/** A secret that is long enough for a new store. */
const SECRET = 'a secret of tests that is long enough'

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-nodes-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })

  const opened: Gateway[] = []
  let data: string
  beforeEach(async () => {
    data = mkdtempSync(join(root, 'data-'))
    await postgres.empty()
  })
  afterEach(async () => {
    for (const gateway of opened.splice(0)) await gateway.close()
  })

  /** Opens a gateway over the database. Every one has a clock of its own that stands. */
  async function open({
    url = postgres.url,
    ...more
  }: Partial<GatewayParts> & { url?: string } = {}): Promise<Gateway> {
    const config = createDefaultConfig()
    const storage = { ...config.storage, postgres: { url, connections: 3 } }
    const gateway = await openGateway({
      ...{
        data,
        access: 'server',
        secret: SECRET,
        clock: new TestClock(),
        requiresOwnSecret: true,
      },
      ...more,
      config: { ...config, storage },
    })
    opened.push(gateway)
    return gateway
  }

  const buildEntry = (id: string) => ({
    generation: buildGeneration({ id }),
    charge: buildStepCharge({ id }),
  })
  const listIds = async () =>
    (await postgres.run('select id from gateway.generations order by rowid')).map(
      row => (row as { id: string }).id,
    )

  /** Has a process that goes on in a test be one that has ended. */
  const leave = () => postgres.run('update gateway.nodes set left_at = now()')

  /** Locks what a statement takes, the table of records by default. Returns what ends that. */
  async function hold(
    statement = 'lock table gateway.generations in access exclusive mode',
  ): Promise<(before?: string) => Promise<void>> {
    const holder = new SQL(postgres.url, { max: 1 })
    await holder.unsafe(`begin; ${statement}`)
    return async (before = '') => {
      await holder.unsafe(`${before}; commit`)
      await holder.close()
    }
  }

  describe('while the database is away', () => {
    test('calls are answered, and are on record once when it is back', async () => {
      const gateway = await open()
      await gateway.recorder.record(buildEntry('before'))
      await postgres.stop()
      await Promise.all(['a', 'b', 'c'].map(id => gateway.recorder.record(buildEntry(id))))
      await gateway.recorder.record(buildEntry('d'))
      expect(gateway.recorder).toMatchObject({ healthy: true, isFailing: true })
      await postgres.start()
      await gateway.recorder.flush()
      expect(gateway.recorder).toMatchObject({ healthy: true, isFailing: false })
      expect(await listIds()).toEqual(['before', 'a', 'b', 'c', 'd'])
    })

    test('what a killed server has kept, its next start records once', async () => {
      const gateway = await open()
      await postgres.stop()
      const outbox = [{ topic: 'trace' as const, payload: '{"a":"𝄞"}', receivers: ['dest'] }]
      await gateway.recorder.record({ ...buildEntry('told'), outbox })
      const charge = buildStepCharge({ id: 'runs', step: 1 })
      await gateway.recorder.record({ generation: null, charge })
      const copy = mkdtempSync(join(root, 'killed-'))
      cpSync(data, copy, { recursive: true })
      await postgres.start()
      await gateway.recorder.flush()
      data = copy
      // They are on record by now, which the next start cannot know.
      await leave()
      await open()
      expect(await listIds()).toEqual(['told'])
      expect(await postgres.run('select id, step::int from gateway.ledger order by seq')).toEqual([
        { id: 'told', step: 1 },
        { id: 'runs', step: 1 },
      ])
    })

    test('a call that is kept twice at once is in the log once', async () => {
      const gateway = await open()
      await postgres.stop()
      const entry = buildEntry('a')
      const { generations } = gateway.store
      const both = await Promise.all([generations.keep([entry]), generations.keep([entry])])
      expect([...both, await generations.keep([entry])]).toEqual([[entry], [entry], [entry]])
      const log = listLogFiles(data).map(file => readFileSync(file, 'utf8'))
      expect(log.join('').match(/"record":"/g)).toHaveLength(1)
      await postgres.start()
    })

    test('nobody but the owner of the secret reads or writes what is kept', async () => {
      const gateway = await open()
      await postgres.stop()
      const payload = '{"prompt":"Nobody reads this"}'
      const outbox = [{ topic: 'trace' as const, payload, receivers: ['dest'] }]
      await gateway.recorder.record({ ...buildEntry('told'), outbox })
      const log = listLogFiles(data).map(file => readFileSync(file, 'utf8'))
      expect(log.join('')).toContain('{"record":"')
      expect(log.join('')).not.toMatch(/Nobody reads|gen-|told/)
      await postgres.start()
    })
  })

  test('what a killed server has kept and the store never takes is kept apart from the others', async () => {
    const gateway = await open()
    await postgres.stop()
    const charge = buildStepCharge({ id: 'huge', nanos: 2n ** 70n })
    const huge = { generation: buildGeneration({ id: 'huge' }), charge }
    for (const entry of [buildEntry('a'), huge, buildEntry('b')])
      await gateway.recorder.record(entry)
    await gateway.close()
    await postgres.start()
    await open()
    expect(await listIds()).toEqual(['a', 'b'])
    expect(existsSync(join(data, 'log.garbled'))).toBe(true)
  })

  test('a database that is slow has its batch answered from the log, and written once', async () => {
    const gateway = await open()
    const free = await hold()
    await Promise.all(['a', 'b'].map(id => gateway.recorder.record(buildEntry(id))))
    await gateway.recorder.record(buildEntry('c'))
    expect(gateway.recorder).toMatchObject({ healthy: true, isFailing: true })
    await free()
    await gateway.recorder.flush()
    expect(await listIds()).toEqual(['a', 'b', 'c'])
    expect(await postgres.run('select count(*)::int as rows from gateway.ledger')).toEqual([
      { rows: 3 },
    ])
  })

  test('one that is slow twice in succession has each call once', async () => {
    const { generations } = (await open()).store
    const batch: RecorderEntry[] = []
    for (const id of ['a', 'b']) {
      batch.push(buildEntry(id))
      const free = await hold()
      await expect(generations.record([...batch])).rejects.toThrow('The database is slow')
      await free()
      await waitUntil(async () => (await listIds()).includes(id))
    }
    expect(await generations.record(batch)).toEqual([])
    expect(await listIds()).toEqual(['a', 'b'])
  })

  test('a batch whose connection broke may still be written by the database, and is waited for', async () => {
    const gateway = await open()
    const { generations } = gateway.store
    await generations.record([buildEntry('first')])
    const free = await hold('select from gateway.numbers for update')
    const entry = buildEntry('a')
    const attempt = () =>
      generations.record([entry]).then(
        () => 'recorded',
        ({ message }) => message,
      )
    expect(await attempt()).toBe('The database is slow')
    await postgres.run(
      "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'",
    )
    await waitUntil(async () => (await attempt()) === 'The database cannot be reached')
    expect(await attempt()).toBe('The database is slow')
    // What the database does for a connection of which it does not know that it broke.
    await free(`create temp table late as select * from gateway.generations;
      update late set id = 'a', rowid = rowid + 1;
      insert into gateway.generations select * from late`)
    await waitUntil(async () => (await attempt()) === 'recorded')
    expect(await listIds()).toEqual(['first', 'a'])
  })

  test('a database that has stopped, with its connections open, is said to be unavailable', async () => {
    const gateway = await open()
    await postgres.freeze(true)
    try {
      await expect(gateway.catchUp()).rejects.toThrow('The database does not answer')
      await gateway.recorder.record(buildEntry('a'))
    } finally {
      await postgres.freeze(false)
    }
    await gateway.recorder.flush()
    expect(await listIds()).toEqual(['a'])
    expect(await gateway.catchUp()).toBe(false)
  })

  test('a record that the database never takes is refused alone', async () => {
    const gateway = await open()
    await gateway.recorder.record(buildEntry('a'))
    const entries = [buildEntry('a'), buildEntry('b')]
    const request_id = Array.from({ length: 2_000 }, () => crypto.randomUUID()).join('')
    entries.push({ ...buildEntry('c'), generation: buildGeneration({ id: 'c', request_id }) })
    const results = await Promise.allSettled(entries.map(entry => gateway.recorder.record(entry)))
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected'])
    expect(await listIds()).toEqual(['a', 'b'])
  })

  describe('one server at a time:', () => {
    const elsewhere = () => ({ data: mkdtempSync(join(root, 'other-')) })

    test('another is refused, by name, until the first has ended', async () => {
      const gateway = await open()
      const [first] = (await gateway.store.nodes?.list()) ?? []
      expect(first).toMatchObject({ name: hostname(), left_at: null })
      await expect(open(elsewhere())).rejects.toThrow(
        `Another gateway serves from this database: ${hostname()} (${first?.id}), heard of `,
      )
      const command = await open({ ...elsewhere(), access: 'command' })
      await expect(command.lock()).rejects.toThrow('Another gateway serves from this database')
      await gateway.close()
      expect((await open(elsewhere())).recorder.healthy).toBe(true)
    })

    test('one that is silent for long is followed by another', async () => {
      await open()
      const silence = "update gateway.nodes set seen_at = now() - interval '89 seconds'"
      await postgres.run(silence)
      await expect(open(elsewhere())).rejects.toThrow('Another gateway serves')
      await postgres.run(silence.replace('89', '91'))
      await open(elsewhere())
    })

    test('one that another has followed is told, and takes no call', async () => {
      const gateway = await open()
      const lost = Promise.withResolvers<object>()
      gateway.events.on('node.lost', lost.resolve)
      const [first] = (await gateway.store.nodes?.list()) ?? []
      const { id, incarnation } = first ?? { id: '', incarnation: '' }
      const entry = buildAuditEntry({ action: 'nodes.forget' })
      expect(await gateway.store.nodes?.forget({ id, incarnation: 'the one before' }, entry)).toBe(
        false,
      )
      expect(await gateway.store.nodes?.forget({ id: 'no such node', incarnation }, entry)).toBe(
        false,
      )
      expect(await gateway.store.nodes?.forget({ id, incarnation }, entry)).toBe(true)
      await lost.promise
      expect(gateway.recorder.healthy).toBe(false)
      const { total } = await gateway.store.audit.listPage({ action: 'nodes.forget' }, 0, 10)
      expect(total).toBe(1)
    })

    test('one that the database has not heard for a minute takes no call, by its own clock', async () => {
      const clock = new TestClock()
      const gateway = await open({ clock })
      await postgres.stop()
      clock.pass(60_000)
      expect(gateway.recorder.healthy).toBe(true)
      clock.pass(1)
      expect(gateway.recorder.healthy).toBe(false)
      await postgres.start()
    })

    test('one that has stood still takes nothing of a limit before the database has heard it', async () => {
      const clock = new TestClock()
      const { ledger } = await open({ clock })
      const payer = { key_hash: 'k', user_id: 'u', workspace_id: 'w' }
      const bound: Bound = {
        ...{ account: 'key k', limit: 1_000n, period: null, byok: false, message: 'used up' },
      }
      const amounts = { own: 10n, byok: null }
      const reserve = async (bounds: Bound[]) =>
        (await ledger.reserveElsewhere?.(payer, { maximum: amounts, minimum: amounts }, bounds))
          ?.amounts.own
      expect(await reserve([bound])).toBe(10n)
      const patience = PATIENCE.version
      await postgres.freeze(true)
      try {
        PATIENCE.version = 50
        clock.pass(2_500)
        expect(await reserve([bound])).toBe(10n)
        clock.pass(2_501)
        await expect(reserve([bound])).rejects.toThrow('This server stood still')
        expect(await reserve([])).toBe(10n)
      } finally {
        PATIENCE.version = patience
        await postgres.freeze(false)
      }
      expect(await reserve([bound])).toBe(10n)
      await leave()
      clock.pass(2_501)
      await expect(reserve([bound])).rejects.toThrow('This node has left the others')
    })

    test('a copy of its directory is refused, and is followed by one on the directory itself', async () => {
      const gateway = await open()
      const copy = mkdtempSync(join(root, 'copy-'))
      cpSync(data, copy, { recursive: true })
      await postgres.run("update gateway.nodes set name = 'elsewhere'")
      await expect(open({ data: copy })).rejects.toThrow('serves from this database: elsewhere')
      await postgres.run(`update gateway.nodes set name = '${hostname()}'`)
      await expect(open({ data: copy })).rejects.toThrow('Its data directory is a copy of this one')
      expect(gateway.recorder.healthy).toBe(true)
      const lost = Promise.withResolvers<object>()
      gateway.events.on('node.lost', lost.resolve)
      await postgres.run(
        "update gateway.nodes set incarnation = 'killed', seen_at = now() - interval '2 seconds'",
      )
      await open()
      await lost.promise
    })
  })

  describe('several servers', () => {
    const shared = () => ({ data: mkdtempSync(join(root, 'shared-')), blobs: createMemoryBlobs() })

    test('serve at once where no file is on the disk of one', async () => {
      const gateways = [await open(shared()), await open(shared()), await open(shared())]
      const nodes = (await gateways[0]?.store.nodes?.list()) ?? []
      expect(nodes.map(({ left_at }) => left_at)).toEqual([null, null, null])
      await Promise.all(gateways.map((one, i) => one.recorder.record(buildEntry(`call ${i}`))))
      expect((await listIds()).toSorted()).toEqual(['call 0', 'call 1', 'call 2'])
    })

    test('are drained from any of them, and each but once', async () => {
      const [one, other] = [await open(shared()), await open(shared())]
      const drained = Promise.withResolvers<object>()
      other.events.on('node.drained', drained.resolve)
      const drain = (id?: string) => drainNode(one, getOperator(one), id)
      const id = other.store.nodes?.ownId
      expect(await drain(id)).toEqual({ data: { id: id ?? '' } })
      await drained.promise
      await expect(drain(id)).rejects.toThrow(`${hostname()} (${id}) drains already`)
      await expect(drain('1.5')).rejects.toThrow('There is no node 1.5: gateway nodes list shows')
      await other.close()
      opened.splice(opened.indexOf(other), 1)
      await expect(drain(id)).rejects.toThrow('has ended')
      const command = await open({ ...shared(), access: 'command' })
      await expect(drainNode(command, getOperator(command))).rejects.toThrow(
        'No server serves from this data directory',
      )
      const { entries } = await one.store.audit.listPage({ action: 'nodes.drain' }, 0, 10)
      expect(entries).toMatchObject([{ resource_id: id, after: { state: 'draining' } }])
      await postgres.run("update gateway.nodes set incarnation = 'stopped'")
      await expect(drain()).rejects.toThrow('does not answer: it drains when it hears of it')
      await postgres.run("update gateway.nodes set seen_at = now() - interval '9 seconds'")
      await expect(drain()).rejects.toThrow('does not answer: it was heard of 9 s ago')
    })

    test('drain by themselves where the tables have become those of newer programs', async () => {
      const gateway = await open(shared())
      const drained = Promise.withResolvers<{ reason: string }>()
      gateway.events.on('node.drained', drained.resolve)
      await postgres.run('update gateway.gate set version = 99, oldest = 98')
      expect(await drained.promise).toEqual({ reason: 'the tables are for newer programs alone' })
      expect((await gateway.store.seals.inspect()).schema).toEqual([
        `they are of a newer program (99; this one has ${VERSION}): ask its doctor`,
      ])
    })

    test('show that they drain where a signal has said so', async () => {
      const gateway = await open(shared())
      gateway.traffic.calls.announceDrain()
      await waitUntil(async () => (await listNodes(gateway)).data[0]?.state === 'draining')
    })

    test('leave no place for one with files on its disk, nor for a command that must be alone', async () => {
      await open(shared())
      await expect(open()).rejects.toThrow('Several can where the files of all are in one bucket')
      const command = await open({ ...shared(), access: 'command' })
      await expect(command.lock()).rejects.toThrow('Another gateway serves from this database')
    })
  })

  test('a change that was done too late to be told is read as that of another', async () => {
    const gateway = await open()
    const patience = PATIENCE.write
    const other = new SQL(postgres.url)
    const held = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const holding = other.begin(async connection => {
      await connection.unsafe('select from gateway.gate for update')
      locked.resolve()
      await held.promise
    })
    await locked.promise
    PATIENCE.write = 50
    const making = createKey(gateway, getOperator(gateway), { name: 'late' })
    expect(await making.catch(({ message }) => message)).toBe('The database does not answer')
    PATIENCE.write = patience
    held.resolve()
    await holding
    await other.close()
    const find = () => gateway.memory.keys.filter(({ name }) => name === 'late')
    while (find().length === 0) await gateway.catchUp()
    expect(find()).toHaveLength(1)
  })

  const STEPS = 'src/store/postgres'

  test('changes that are old are removed a thousand at a time', async () => {
    await open()
    const countOld = async (seq: number) => {
      await postgres.run(`select setval('gateway.changes_seq_seq', ${seq}, false)`)
      await postgres.run('update gateway.workspaces set name = name')
      return postgres.run(`select count(*)::int as rows from gateway.changes where seq < 1000`)
    }
    const [before] = await countOld(900)
    expect(before).not.toEqual({ rows: 0 })
    expect(await countOld(11_999)).toEqual([before])
    expect(await countOld(12_000)).toEqual([{ rows: 0 }])
  })

  test('tables of earlier versions are widened, and become those of a new store', async () => {
    await (await open()).close()
    const steps = readdirSync(STEPS).filter(name => /^\d{3}-/.test(name))
    for (const name of steps.toSorted().toReversed())
      await undoStep(readFileSync(join(STEPS, name), 'utf8'))
    await postgres.run('update gateway.gate set version = 1')
    const gateway = await open()
    expect((await gateway.store.seals.inspect()).schema).toEqual([])
    expect(await postgres.run('select version::int from gateway.gate')).toEqual([
      { version: VERSION },
    ])
  })

  /** Takes away what a step makes. */
  async function undoStep(step: string): Promise<void> {
    for (const [, kind, name] of step.matchAll(/^create (function|view) (\w+)/gm))
      await postgres.run(`drop ${kind} gateway.${name} cascade`)
    for (const [, table] of step.matchAll(/create (?:unlogged )?table (\w+)/g))
      await postgres.run(`drop table gateway.${table}`)
    for (const [, table, column] of step.matchAll(/alter table (\w+) add column (\w+)/g))
      await postgres.run(`alter table gateway.${table} drop column ${column}`)
    for (const [, name] of step.matchAll(/create or replace function (\w+)\(\)/g))
      await postgres.run(
        `create or replace function gateway.${name}() returns trigger language plpgsql
          as 'begin return new; end'`,
      )
  }

  describe('what cannot be a store is refused:', () => {
    beforeEach(() => postgres.run('drop schema if exists gateway cascade'))
    const refusal = async (url = postgres.url, more: Partial<GatewayParts> = {}) =>
      open({ url, ...more }).then(
        () => 'opened',
        (thrown: Error) => thrown.message,
      )
    const host = new URL(postgres.url).host

    test('a database that is not there', async () => {
      expect(await refusal(postgres.url.replace(/postgres$/, 'nothing'))).toBe(
        `storage.postgres: There is no database ${host}/nothing: make it (createdb), or name another`,
      )
    })

    test('one that nobody answers for', async () => {
      expect(await refusal('postgres://ops:secret@127.0.0.1:1/gateway')).toMatch(
        /^The database cannot be reached: 127\.0\.0\.1:1\/gateway \(.+\)$/,
      )
    })

    test('a parameter that nobody knows', async () => {
      expect(await refusal(`${postgres.url}?foo=bar`)).toBe(
        `storage.postgres: ${host}/postgres does not know a parameter of the URL`,
      )
    })

    test('a database that does not take every text', async () => {
      await postgres.run("create database latin encoding 'LATIN1' template template0")
      expect(await refusal(postgres.url.replace(/postgres$/, 'latin'))).toBe(
        `${host}/latin has the encoding LATIN1: UTF8 is needed`,
      )
    })

    test('a user without rights', async () => {
      await postgres.run("create role reader login password 'secret'")
      await postgres.run('revoke create on database postgres from public')
      const message = await refusal(postgres.url.replace('postgres@', 'reader:secret@'))
      expect(message).toStartWith('storage.postgres: The user may not make what a store needs in')
      expect(message).not.toContain('secret')
    })

    test('a schema of something else', async () => {
      await postgres.run('create schema gateway')
      await postgres.run('create table gateway.orders (id int)')
      expect(await refusal()).toContain('is of something else: it has the table orders')
    })

    test('tables of another version', async () => {
      await (await open()).close()
      await postgres.run('update gateway.gate set version = 99, oldest = 98')
      expect(await refusal()).toContain('has the tables of another version of gateway (99;')
      await postgres.run('update gateway.gate set oldest = 2')
      expect(await refusal()).toBe('opened')
    })

    test('another secret, and one that is too short for a new store', async () => {
      expect(await refusal(postgres.url, { secret: 'short' })).toContain('at least 32 characters')
      expect(await postgres.run("select 1 from pg_namespace where nspname = 'gateway'")).toEqual([])
      await (await open()).close()
      expect(await refusal(postgres.url, { secret: `${SECRET}!` })).toContain(
        'This data was sealed with another secret than GATEWAY_SECRET',
      )
    })

    test('a new database beside a directory that has data', async () => {
      writeFileSync(join(data, 'gateway.db'), 'something', { mode: 0o600 })
      expect(await refusal()).toContain('copy it there (gateway store copy)')
    })
  })
} else
  describe('nodes of Postgres', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
