import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { createDefaultConfig } from '../../../src/config.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { connect, run, transact } from '../../../src/store/postgres/connection.ts'
import { refuseUnfit } from '../../../src/store/postgres/opening.ts'
import { CERTIFICATE } from '../../support/certificate.ts'
import { waitUntil } from '../../support/chat.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'
import {
  asUser,
  findFreePort,
  hasPostgres,
  isRoot,
  makeUserDirectory,
  runQuietly,
  startPostgres,
  startStandby,
} from '../../support/postgres.ts'

const POSTGRES = join(import.meta.dir, '../../../src/store/postgres')

test('a Postgres that is no longer maintained is refused', async () => {
  const refusal = (number: number, version: string) => {
    const row = { version, number, encoding: 'UTF8', follows: false }
    return refuseUnfit({ unsafe: async () => [row] } as never, 'db/gateway')
  }
  await expect(refusal(130_022, '13.22')).rejects.toThrow(
    'db/gateway has Postgres 13.22: 14 or later is needed',
  )
  expect(await refusal(140_000, '14.0')).toBeUndefined()
})

if (await hasPostgres()) {
  const certificates = await makeUserDirectory()
  const [ssl_cert_file, ssl_key_file] = [join(certificates, 'cert'), join(certificates, 'key')]
  writeFileSync(ssl_cert_file, CERTIFICATE.cert)
  writeFileSync(ssl_key_file, CERTIFICATE.key, { mode: 0o600 })
  if (isRoot()) await runQuietly(['chown', 'postgres', ssl_cert_file, ssl_key_file])
  const postgres = await startPostgres({ ssl: 'on', ssl_cert_file, ssl_key_file })
  const root = mkdtempSync(join(tmpdir(), 'gateway-edges-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    for (const directory of [root, certificates])
      rmSync(directory, { recursive: true, force: true })
  })
  const opened: Gateway[] = []
  beforeEach(() => postgres.run('drop schema if exists gateway cascade'))
  afterEach(async () => {
    for (const gateway of opened.splice(0)) await gateway.close()
  })

  async function open(url: string): Promise<Gateway> {
    const config = createDefaultConfig()
    const gateway = await openGateway({
      ...{ data: mkdtempSync(join(root, 'data-')), access: 'server' },
      secret: 'a secret of tests that is long enough',
      config: { ...config, storage: { ...config.storage, postgres: { url, connections: 3 } } },
    })
    opened.push(gateway)
    return gateway
  }
  const attempt = (url: string) =>
    open(url).then(
      () => 'opened',
      (thrown: Error) => thrown.message,
    )

  test('a machine that stands still in a transaction keeps no other waiting for long', async () => {
    const pool = connect(postgres.url, 1)
    const ask = 'show idle_in_transaction_session_timeout'
    const inside = await transact(pool, connection => run(connection, ask))
    const after = await run(pool, ask)
    await pool.close()
    const name = 'idle_in_transaction_session_timeout'
    expect([inside, after]).toEqual([[{ [name]: '10s' }], [{ [name]: '0' }]])
    // Others only read, pass on what they are given, or are of a database that nobody else uses yet.
    const sources = [...new Bun.Glob('**/*.ts').scanSync(POSTGRES)]
    const begun = sources.filter(path =>
      /(pool|sql)\.begin\((?!SNAPSHOT)/i.test(readFileSync(join(POSTGRES, path), 'utf8')),
    )
    const known = ['connection.ts', 'copy.ts', 'opening.ts', 'pool.ts', 'schema.ts']
    expect(begun.sort()).toEqual(known)
  })

  test('a replica is refused, and what to name instead', async () => {
    await using standby = await startStandby(postgres)
    const { host } = new URL(standby.url)
    expect(await attempt(standby.url)).toBe(
      `${host}/postgres is a replica, which takes no changes: expected the primary`,
    )
  })

  describe('what the operator has set for the user', () => {
    afterEach(() => postgres.run('alter role postgres reset all'))
    const make = (gateway: Gateway, name: string) =>
      createKey(gateway, getOperator(gateway), { name }).then(
        () => 'made',
        ({ status }: { status: number }) => status,
      )

    test.each(['statement_timeout', 'lock_timeout'])(
      'a %s that has passed is no fault of the gateway',
      async setting => {
        await postgres.run(`alter role postgres set ${setting} = '200ms'`)
        const gateway = await open(postgres.url)
        const other = new SQL(postgres.url, { max: 1 })
        await other.begin(async busy => {
          await busy.unsafe('select 1 from gateway.gate for update')
          expect(await make(gateway, 'late')).toBe(503)
        })
        await other.close()
        expect(await make(gateway, 'in time')).toBe('made')
      },
    )

    test('a database that takes no changes for a while is away', async () => {
      const gateway = await open(postgres.url)
      await postgres.run('alter role postgres set default_transaction_read_only = on')
      await postgres.cut()
      const read = () => gateway.store.version()
      await waitUntil(() =>
        Promise.all([read(), read(), read()]).then(
          () => true,
          () => false,
        ),
      )
      expect(await make(gateway, 'late')).toBe(503)
    })

    test.each(['repeatable read', 'serializable'])(
      'what happens at once takes turns, also where transactions are %s',
      async level => {
        await postgres.run(`alter role postgres set default_transaction_isolation = '${level}'`)
        const gateway = await open(postgres.url)
        const made = await Promise.all(
          Array.from({ length: 12 }, (_, i) => make(gateway, `key ${i}`)),
        )
        expect(new Set(made)).toEqual(new Set(['made']))
      },
    )
  })

  test('a certificate that is not trusted is refused, where it is to be verified', async () => {
    const { host } = new URL(postgres.url)
    expect(await attempt(`${postgres.url}?sslmode=verify-full`)).toMatch(
      new RegExp(
        `^storage.postgres: the certificate of ${host}/postgres is not trusted \\(.+\\): NODE_EXTRA_CA_CERTS`,
      ),
    )
    expect(await attempt(`${postgres.url}?sslmode=require`)).toBe('opened')
  })

  describe('a pooler', () => {
    const whereItIs = test.skipIf(Bun.which('pgbouncer') === null)

    /** Starts PgBouncer before the database. */
    async function startPooler(...settings: string[]) {
      const directory = await makeUserDirectory()
      const port = await findFreePort()
      const users = join(directory, 'users.txt')
      writeFileSync(users, '"postgres" ""\n')
      const own = ['listen_addr=127.0.0.1', `listen_port=${port}`, 'unix_socket_dir=']
      const databases = ['[databases]', `* = host=127.0.0.1 port=${new URL(postgres.url).port}`]
      const lines = [...own, 'auth_type=trust', `auth_file=${users}`, ...settings]
      const file = join(directory, 'pgbouncer.ini')
      writeFileSync(file, [...databases, '[pgbouncer]', ...lines, ''].join('\n'))
      const server = Bun.spawn([...asUser(), 'pgbouncer', file], {
        ...{ stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' },
      })
      await waitUntil(() =>
        Bun.connect({ hostname: '127.0.0.1', port, socket: { data: () => undefined } }).then(
          socket => {
            socket.end()
            return true
          },
          () => false,
        ),
      )
      return {
        url: `postgres://postgres@127.0.0.1:${port}/postgres`,
        async [Symbol.asyncDispose]() {
          server.kill('SIGKILL')
          await server.exited
          rmSync(directory, { recursive: true, force: true })
        },
      }
    }
    const KEEPS = 'ignore_startup_parameters=search_path'

    whereItIs(
      'that gives transactions other sessions is refused, and says what it takes',
      async () => {
        for (const settings of [
          ['pool_mode=session'],
          ['pool_mode=session', KEEPS],
          ['pool_mode=transaction', KEEPS],
          ['pool_mode=statement', KEEPS],
        ]) {
          await using pooler = await startPooler(...settings)
          expect(await attempt(pooler.url)).toMatch(
            /^storage.postgres: the pooler at 127\.0\.0\.1:\d+\/postgres does not keep sessions: name Postgres itself, or have PgBouncer/,
          )
        }
        expect(await postgres.run("select 1 from pg_tables where tablename = 'gate'")).toEqual([])
      },
    )

    whereItIs(
      'that does as it was told there is taken, and one by transaction is not',
      async () => {
        await postgres.run('alter role postgres set search_path = gateway')
        await using sessions = await startPooler('pool_mode=session', KEEPS)
        const [one, other] = [await open(sessions.url), await open(postgres.url).catch(String)]
        expect(String(other)).toContain('Another gateway serves from this database')
        const { data } = await createKey(one, getOperator(one), { name: 'key' })
        expect(await postgres.run('select name from gateway.keys')).toEqual([{ name: data.name }])
        await using transactions = await startPooler('pool_mode=transaction', KEEPS)
        expect(await attempt(transactions.url)).toContain('does not keep sessions')
        for (const gateway of opened.splice(0)) await gateway.close()
        await postgres.run('alter role postgres reset search_path')
      },
    )
  })

  const mayMount = isRoot() && (await canMount())
  test.skipIf(!mayMount)(
    'a database whose disk is full has calls answered, and loses none',
    async () => {
      const disk = await makeUserDirectory()
      Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=24m', 'small', disk])
      await runQuietly(['chown', 'postgres', disk])
      try {
        await postgres.run(`create tablespace small location '${disk}'`)
        await postgres.run('create database small tablespace small')
        const url = postgres.url.replace(/postgres$/, 'small')
        const gateway = await open(url)
        const record = (id: string) =>
          gateway.recorder.record({
            generation: buildGeneration({ id }),
            charge: buildStepCharge({ id }),
          })
        await record('before')
        const other = new SQL(url, { max: 1 })
        await other.unsafe('create table filler (text text)')
        await fill(other)
        const ids = Array.from({ length: 300 }, (_, i) => `call ${i}`)
        for (const id of ids) await record(id)
        expect(gateway.recorder).toMatchObject({ healthy: true, isFailing: true })
        const made = Array.from({ length: 50 }, (_, i) =>
          createKey(gateway, getOperator(gateway), { name: `key ${i}`.padEnd(60, '.') }),
        )
        for (const result of await Promise.allSettled(made))
          if (result.status === 'rejected') expect(result.reason).toMatchObject({ status: 503 })
        await other.unsafe('drop table filler')
        await gateway.recorder.flush()
        const rows = (await other.unsafe('select id from gateway.generations order by rowid')) as {
          id: string
        }[]
        expect(rows.map(({ id }) => id)).toEqual(['before', ...ids])
        await createKey(gateway, getOperator(gateway), { name: 'after' })
        await other.close()
        for (const one of opened.splice(0)) await one.close()
      } finally {
        await postgres.run('drop database if exists small with (force)')
        await postgres.run('drop tablespace if exists small')
        Bun.spawnSync(['umount', disk])
        rmSync(disk, { recursive: true, force: true })
      }
    },
  )

  /** Writes until nothing more fits. */
  async function fill(database: { unsafe(text: string): Promise<unknown> }): Promise<void> {
    for (let rows = 4_000; rows >= 1; rows = Math.floor(rows / 2))
      for (;;)
        try {
          const text = "(select string_agg(md5(random()::text), '') from generate_series(1, 60))"
          await database.unsafe(
            `insert into filler select ${text} from generate_series(1, ${rows})`,
          )
        } catch {
          break
        }
  }

  async function canMount(): Promise<boolean> {
    const directory = mkdtempSync(join(root, 'mount-'))
    const { success } = Bun.spawnSync(['mount', '-t', 'tmpfs', 'x', directory], {
      stderr: 'ignore',
    })
    if (success) Bun.spawnSync(['umount', directory])
    return success
  }
} else
  describe('edges of Postgres', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
