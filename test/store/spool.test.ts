import { Database } from 'bun:sqlite'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { restore } from '../../src/app/backup/restore.ts'
import { backUp } from '../../src/app/backup.ts'
import { examineSpool } from '../../src/app/doctor.ts'
import { type Gateway, type GatewayParts, openGateway } from '../../src/app/gateway.ts'
import { parseConfig } from '../../src/config.ts'
import { Log } from '../../src/store/log.ts'
import { openRecordLog } from '../../src/store/record-log.ts'
import { Spool } from '../../src/store/spool.ts'
import { moveSpool } from '../../src/store/sqlite/outbox/messages.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { openDatabaseNow } from '../support/database.ts'
import { TestClock } from '../support/gateway.ts'
import { buildRecordEntry, buildStepEntry } from '../support/generation.ts'
import { TEST_SECRETS } from '../support/ledger.ts'
import { listWaitingLines, TEST_MACS } from '../support/log.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-spool-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let data: string
let opened: { close(): Promise<void> }[] = []
beforeEach(() => {
  data = mkdtempSync(join(root, 'data-'))
})
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

/** Opens a gateway whose time stands: every record after the first comes while calls come fast. */
async function open(more: Partial<GatewayParts> = {}): Promise<Gateway> {
  const gateway = await openGateway({ data, access: 'server', clock: new TestClock(), ...more })
  opened.push(gateway)
  return gateway
}

/** Opens the store of a server with segments of this many bytes. */
async function openSmall(largest: number): Promise<Store> {
  const store = await openSqlite({
    path: join(data, 'gateway.db'),
    ...{ durability: 'normal', busyTimeout: 0, secrets: TEST_SECRETS, ticks: () => 0 },
    recordLog: openRecordLog(data, new Log(data, TEST_MACS), TEST_MACS, true),
    spool: new Spool(data, 'write', largest),
  })
  opened.push(store)
  return store
}

/** Copies what the process would leave, were it killed now. */
function killNow(): string {
  const copy = mkdtempSync(join(root, 'killed-'))
  cpSync(data, copy, { recursive: true })
  return copy
}

const render = (id: string, more = '') => JSON.stringify({ facts: { words: `of ${id}${more}` } })

const buildEntry = (id: string, receivers = ['a'], more = '') => ({
  ...buildRecordEntry(id),
  outbox: [{ topic: 'trace', payload: render(id, more), hasContent: true, receivers }],
})

type Recording = { store: Pick<Store, 'generations'> }

/** Records calls in one batch, with a message each. */
const record = ({ store }: Recording, ids: string[], receivers = ['a'], more = '') =>
  store.generations.record(ids.map(id => buildEntry(id, receivers, more)))

/** Lists what waits, with messages as texts. */
const listTexts = async (
  { deliveries }: Pick<Store, 'deliveries'>,
  ...query: Parameters<Store['deliveries']['listWaiting']>
) =>
  (await deliveries.listWaiting(...query)).map(row => ({
    ...row,
    payload: Buffer.from(row.payload).toString(),
  }))

/** Lists what waits: the number, the call, and whether the message is as it was. */
const list = async ({ store }: { store: Pick<Store, 'deliveries'> }, id = 'a', limit = 1_000) =>
  (await listTexts(store, id, 0, limit, 100_000_000)).map(
    ({ sequence, generation_id, payload }) => [
      sequence,
      generation_id,
      payload.startsWith(render(generation_id).slice(0, -3)) ? 'whole' : payload,
    ],
  )

const folder = (directory = data) => join(directory, 'spool')
const listSegments = (directory = data) =>
  existsSync(folder(directory)) ? readdirSync(folder(directory)).sort() : []

/** The calls of a row, its segment, and whether it has a payload. */
type Place = [string[], number | null, boolean]

/** Lists where the messages of each row are, without asking the store. */
function listPlaces(directory = data): Place[] {
  const db = openDatabaseNow(directory, { readonly: true })
  const rows = db.query('select generation_id, segment, payload from outbox order by sequence')
  const places = rows.all() as { generation_id: string; segment: number | null; payload: string }[]
  db.close()
  return places.map(
    ({ generation_id, segment, payload }): Place => [
      generation_id.split('\n'),
      segment,
      payload !== '',
    ],
  )
}

const seal = TEST_SECRETS.destinationSeal
const REFUSAL = { reason: 'No', status: 400, failed_at: '2026-03-04T05:06:09.000Z' }

describe('messages of calls that come fast', () => {
  test('wait in the spool, encrypted together, and their rows only name the place', async () => {
    const gateway = await open()
    const written = await record(gateway, ['a', 'b', 'c'], ['a', 'b'])
    const bytes = 3 * render('a').length
    expect(written).toEqual([{ receivers: ['a', 'b'], count: 3, bytes }])
    expect(listPlaces()).toEqual([[['a', 'b', 'c'], 1, false]])
    expect(listSegments()).toEqual(['1'])
    expect(statSync(join(folder(), '1')).mode & 0o777).toBe(0o600)
    expect(statSync(folder()).mode & 0o777).toBe(0o700)
    for (const name of ['gateway.db', 'gateway.db-wal', 'spool/1', 'log.1'])
      if (existsSync(join(data, name)))
        expect(readFileSync(join(data, name)).includes('words')).toBe(false)
    for (const id of ['a', 'b'])
      expect(await list(gateway, id)).toEqual([
        [1, 'a', 'whole'],
        [2, 'b', 'whole'],
        [3, 'c', 'whole'],
      ])
  })

  test('of several receivers are apart, and each batch is where it was recorded', async () => {
    const gateway = await open()
    await gateway.store.generations.record([
      buildEntry('one', ['a']),
      buildEntry('two', ['b']),
      buildEntry('three', ['a']),
    ])
    await record(gateway, ['four'], ['a', 'b'])
    expect(await list(gateway, 'a')).toEqual([
      [1, 'one', 'whole'],
      [2, 'three', 'whole'],
      [4, 'four', 'whole'],
    ])
    expect(await list(gateway, 'b')).toEqual([
      [3, 'two', 'whole'],
      [4, 'four', 'whole'],
    ])
  })

  test('wait with their records in the log, and are seen by all who ask', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await record(gateway, ['b', 'c'])
    expect(listPlaces()).toEqual([[['a'], 1, false]])
    expect(listWaitingLines(data)).toHaveLength(3)
    expect(await gateway.store.deliveries.count()).toMatchObject([
      { destination_id: 'a', waiting: 3, bytes: 3 * render('a').length },
    ])
    expect((await list(gateway)).map(([, id]) => id)).toEqual(['a', 'b', 'c'])
  })

  test('wait on while a full batch is read and settled, and are in one that is not', async () => {
    const gateway = await open()
    const { deliveries, generations } = gateway.store
    for (const id of ['a', 'b']) {
      await record(gateway, [id])
      await generations.flush()
    }
    await record(gateway, ['c'])
    const inDatabase = () => listPlaces().map(([ids]) => ids.join())
    expect(await list(gateway, 'a', 1)).toEqual([[1, 'a', 'whole']])
    expect(inDatabase()).toEqual(['a', 'b'])
    await deliveries.finish('a', [1], REFUSAL.failed_at)
    expect(inDatabase()).toEqual(['b'])
    expect((await list(gateway)).map(([, id]) => id)).toEqual(['b', 'c'])
    expect(inDatabase()).toEqual(['b', 'c'])
  })

  test('keep their segments while they wait, also where all before them has left', async () => {
    const store = await openSmall(5_000)
    const long = ' '.repeat(4_000)
    await record({ store }, ['a'], ['a'], long)
    await store.generations.flush()
    // One more in the first segment, and one in the second.
    for (const id of ['b', 'c']) await record({ store }, [id], ['a'], long)
    await store.deliveries.finish('a', [1], REFUSAL.failed_at)
    expect([listPlaces(), listSegments()]).toEqual([[], ['1', '2']])
    expect((await list({ store })).map(([, id, how]) => [id, how])).toEqual([
      ['b', 'whole'],
      ['c', 'whole'],
    ])
    await store.deliveries.finish('a', [2], REFUSAL.failed_at)
    expect(listSegments()).toEqual(['2'])
  })

  test('are as they were in any script, also long ones and those with a line break', async () => {
    const gateway = await open()
    const payloads = ['{"facts":{"words":"“𝄞” \\ud800"}}', `{"x":"${'ä'.repeat(600_000)}"}`, '{\n}']
    await gateway.store.generations.record(
      payloads.map((payload, i) => ({
        ...buildRecordEntry(`g${i}`),
        outbox: [{ topic: 'trace', payload, hasContent: true, receivers: ['a'] }],
      })),
    )
    const waiting = await listTexts(gateway.store, 'a', 0, 9, 100_000_000)
    const { destinationSeal } = gateway.secrets
    const read = waiting.map(({ payload, generation_id }) =>
      payload.startsWith('{') ? payload : destinationSeal().open(payload, generation_id),
    )
    expect(read).toEqual(payloads)
    expect(listPlaces().map(([, segment]) => segment)).toEqual([1, 1, null])
  })

  test.each([
    ['of a command', { access: 'command' }],
    ['where power loss is covered', { config: parseConfig('storage: {durability: full}', {}) }],
  ] as const)('%s go into the database, each encrypted by itself', async (_, more) => {
    const gateway = await open(more)
    await record(gateway, ['a', 'b'])
    expect(listSegments()).toEqual([])
    const waiting = await listTexts(gateway.store, 'a', 0, 9, 1_000_000)
    const { destinationSeal } = gateway.secrets
    expect(waiting.map(row => destinationSeal().open(row.payload, row.generation_id))).toEqual([
      render('a'),
      render('b'),
    ])
  })

  test('are cut where only some leave, and keep their places and sizes', async () => {
    const gateway = await open()
    const { deliveries } = gateway.store
    await record(gateway, ['a', 'b', 'c'], ['a', 'b'])
    const size = render('a').length
    const taken = await deliveries.finish('a', [2], '2026-03-04T05:06:09.000Z')
    expect(taken).toEqual({ destination_id: 'a', count: 1, bytes: size })
    expect(await list(gateway, 'a')).toEqual([
      [1, 'a', 'whole'],
      [3, 'c', 'whole'],
    ])
    expect((await list(gateway, 'b')).map(([, , state]) => state)).toEqual(Array(3).fill('whole'))
    expect(await deliveries.count()).toMatchObject([
      { waiting: 2, bytes: 2 * size, delivered: 1 },
      { waiting: 3, bytes: 3 * size },
    ])
  })

  test('are cut where one is refused, and the others wait on', async () => {
    const gateway = await open()
    await record(gateway, ['a', 'b', 'c'])
    await gateway.store.deliveries.fail('a', [2], REFUSAL, 10)
    expect(await list(gateway)).toEqual([
      [1, 'a', 'whole'],
      [3, 'c', 'whole'],
    ])
    expect((await gateway.store.deliveries.listFailed('a', 0, 9)).rows).toMatchObject([
      { generation_id: 'b' },
    ])
  })
})

test('messages that an earlier version has left in rows leave as they are, alone and bundled', async () => {
  await (await open()).close()
  opened = []
  const db = openDatabaseNow(data, { readwrite: true })
  const addRow = db.query(
    `insert into outbox (sequence, topic, generation_id, payload, created_at, calls)
     values (?, 'trace', ?, ?, '2026-03-04T05:06:08.000Z', ?)`,
  )
  addRow.run(1, 'old', render('old'), 1)
  addRow.run(3, 'b\nc', `${render('b')}\n${render('c')}`, 2)
  const size = render('b').length
  db.run(
    `insert into deliveries (destination_id, sequence, bytes, calls)
     values ('a', 1, ?, 1), ('a', 3, ?, 2)`,
    [render('old').length, 2 * size],
  )
  db.close()
  const gateway = await open()
  await record(gateway, ['d'])
  expect(await list(gateway)).toEqual([
    [1, 'old', 'whole'],
    [2, 'b', 'whole'],
    [3, 'c', 'whole'],
    [4, 'd', 'whole'],
  ])
  const { count, bytes } = await gateway.store.deliveries.finish('a', [2, 4], REFUSAL.failed_at)
  expect([count, bytes]).toEqual([2, 2 * size])
  expect((await list(gateway)).map(([, id]) => id)).toEqual(['old', 'c'])
  expect(await gateway.store.deliveries.count()).toMatchObject([
    { waiting: 2, bytes: render('old').length + size, delivered: 2 },
  ])
})

describe('after a kill', () => {
  test('what was recorded is there once, under its number, whether in the log or not', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await record(gateway, ['b', 'c'], ['a', 'b'])
    await record(gateway, ['d'])
    const copy = killNow()
    const next = await open({ data: copy })
    const all = [
      [1, 'a', 'whole'],
      [2, 'b', 'whole'],
      [3, 'c', 'whole'],
      [4, 'd', 'whole'],
    ]
    expect(await list(next)).toEqual(all)
    expect(await list(next, 'b')).toEqual(all.slice(1, 3))
    expect(await list(gateway)).toEqual(all)
    await record(next, ['e'])
    expect(listSegments(copy)).toEqual(['1', '2'])
    expect((await list(next)).at(-1)).toEqual([5, 'e', 'whole'])
  })

  test('at any byte of the log no message is without its call, and none is missing', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await Promise.all([record(gateway, ['b', 'c']), record(gateway, ['d'])])
    const killed = killNow()
    const log = readFileSync(join(killed, 'log.1'))
    const ends = [...log.entries()].flatMap(([i, byte]) => (byte === 10 ? [i + 1] : []))
    // A block of what came alone, and one with bundles and three records. A block is there or not.
    expect(ends).toHaveLength(10)
    for (const at of [0, 1, ...ends.flatMap(end => [end - 1, end, end + 1])]) {
      const copy = mkdtempSync(join(root, 'killed-'))
      cpSync(killed, copy, { recursive: true })
      writeFileSync(join(copy, 'log.1'), log.subarray(0, at))
      const next = await openGateway({ data: copy, access: 'server', clock: new TestClock() })
      const recorded = (await next.store.generations.list({}, 9)).map(({ id }) => id).reverse()
      expect((await list(next)).map(([, id]) => id)).toEqual(recorded)
      expect(recorded).toHaveLength(at >= log.length ? 4 : 1)
      await next.close()
    }
  })

  test('a block that nothing refers to is ignored, and goes with its segment', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    const copy = killNow()
    appendFileSync(join(folder(copy), '1'), 'the beginning of a block')
    const next = await open({ data: copy })
    await record(next, ['b'])
    expect(await list(next)).toEqual([
      [1, 'a', 'whole'],
      [2, 'b', 'whole'],
    ])
    await next.store.deliveries.finish('a', [1], '2026-03-04T05:06:09.000Z')
    expect(listSegments(copy)).toEqual(['2'])
  })

  test('a command where no server runs restores what waits, and removes nothing', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await record(gateway, ['b'])
    const copy = killNow()
    writeFileSync(join(folder(copy), '7'), 'of nothing')
    const command = await open({ data: copy, access: 'command' })
    expect((await list(command)).map(([, id]) => id)).toEqual(['a', 'b'])
    expect(listSegments(copy)).toEqual(['1', '7'])
    await command.close()
    opened.pop()
    await open({ data: copy })
    expect(listSegments(copy)).toEqual(['1'])
  })
})

describe('segments', () => {
  test('are full at their bound, and go when nothing waits in them', async () => {
    const store = await openSmall(1_000)
    for (let i = 0; i < 12; i++) await record({ store }, [`g${i}`], ['a'], ' '.repeat(400))
    const segments = listSegments().map(Number)
    expect(segments.length).toBeGreaterThan(3)
    expect((await list({ store })).map(([, , state]) => state)).toEqual(Array(12).fill('whole'))
    await store.deliveries.finish('a', [2, 3, 4, 5, 6], '2026-03-04T05:06:09.000Z')
    expect(listSegments()).toContain('1')
    expect(listSegments().length).toBeLessThan(segments.length)
    await store.deliveries.finish('a', [1], '2026-03-04T05:06:09.000Z')
    expect(listSegments()).not.toContain('1')
    expect((await list({ store })).map(([, , state]) => state)).toEqual(Array(6).fill('whole'))
  })

  test('that a running server still writes are gone when it ends, if nothing waits', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await gateway.store.deliveries.finish('a', [1], '2026-03-04T05:06:09.000Z')
    expect(listSegments()).toEqual(['1'])
    await gateway.close()
    opened = []
    expect(listSegments()).toEqual([])
  })

  test('stay while what refers to them waits in the log', async () => {
    const store = await openSmall(100)
    await record({ store }, ['a'])
    const taken = store.deliveries.finish('a', [1], '2026-03-04T05:06:09.000Z')
    await record({ store }, ['b'])
    await taken
    await record({ store }, ['c'])
    expect((await list({ store })).map(([, id, state]) => [id, state])).toEqual([
      ['b', 'whole'],
      ['c', 'whole'],
    ])
  })

  test('of which little waits are emptied when there are many', async () => {
    const store = await openSmall(5_000)
    // The first message of each segment waits for one that is paused, and the others are delivered.
    const delivered: number[] = []
    for (let i = 0; i < 120; i++) {
      await record({ store }, [`g${i}`], i % 10 === 0 ? ['paused'] : ['a'], ' '.repeat(400))
      if (i % 10 !== 0) delivered.push(i + 1)
    }
    expect(listSegments().length).toBeGreaterThan(8)
    await store.generations.flush()
    for (const sequence of delivered)
      await store.deliveries.finish('a', [sequence], '2026-03-04T05:06:09.000Z')
    expect(listSegments().length).toBeLessThan(3)
    const waiting = await listTexts(store, 'paused', 0, 99, 1_000_000)
    const opened = waiting.map(({ payload, generation_id }) =>
      payload.startsWith('{') ? payload : seal().open(payload, generation_id),
    )
    expect(opened).toEqual(waiting.map(row => render(row.generation_id, ' '.repeat(400))))
    expect(waiting).toHaveLength(12)
  })

  test('do not keep what a destination has refused: it is in the database', async () => {
    const gateway = await open()
    const { deliveries } = gateway.store
    await record(gateway, ['a', 'b'])
    await deliveries.fail('a', [1, 2], REFUSAL, 10)
    expect(listPlaces()).toEqual([
      [['a'], null, true],
      [['b'], null, true],
    ])
    await gateway.close()
    expect(listSegments()).toEqual([])
    opened = []
    const next = await open()
    await next.store.deliveries.replay('a')
    const waiting = await listTexts(next.store, 'a', 0, 9, 1_000_000)
    const opening = next.secrets.destinationSeal()
    expect(waiting.map(row => opening.open(row.payload, row.generation_id))).toEqual([
      render('a'),
      render('b'),
    ])
    const { count, bytes } = await next.store.deliveries.finish('a', [1, 2], REFUSAL.failed_at)
    expect([count, bytes]).toEqual([2, 2 * render('a').length])
  })
})

describe('faults', () => {
  test('a batch that is refused leaves no byte, and its calls no message', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    const { size } = statSync(join(folder(), '1'))
    const wrong = { ...buildEntry('z'), ...buildStepEntry('a', 1) }
    expect(gateway.store.generations.record([buildEntry('b'), wrong])).rejects.toThrow(/recorded/)
    expect(statSync(join(folder(), '1')).size).toBe(size)
    await record(gateway, ['c'])
    expect(await list(gateway)).toEqual([
      [1, 'a', 'whole'],
      [2, 'c', 'whole'],
    ])
  })

  test('a call that the database refuses later takes its message along, and no other', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await record(gateway, ['b', 'a', 'c'])
    expect(await list(gateway)).toEqual([
      [1, 'a', 'whole'],
      [2, 'b', 'whole'],
      [3, 'c', 'whole'],
    ])
  })

  test('a segment that is removed while it is written is not written on', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    rmSync(folder(), { recursive: true })
    await record(gateway, ['b'])
    expect(await list(gateway)).toEqual([
      [1, 'a', ''],
      [2, 'b', 'whole'],
    ])
  })

  test('where the spool cannot be written, messages go into the database, and no call fails', async () => {
    writeFileSync(folder(), 'in the way')
    const gateway = await open()
    await record(gateway, ['a', 'b'])
    expect(listPlaces()).toEqual([[['a', 'b'], null, true]])
    rmSync(folder())
    await record(gateway, ['c'])
    await gateway.store.generations.flush()
    expect(listPlaces().at(-1)).toEqual([['c'], 1, false])
  })

  test('without a secret a call is recorded, and said not to be told', async () => {
    const untold: string[] = []
    const store = await openSqlite({
      ...{ path: join(data, 'gateway.db'), durability: 'normal', busyTimeout: 0 },
      secrets: {
        ...TEST_SECRETS,
        destinationSeal: () => {
          throw new Error('There is no secret')
        },
      },
      spool: new Spool(data, 'write'),
      onUntold: id => void untold.push(id),
    })
    opened.push(store)
    await record({ store }, ['a'])
    expect([untold, (await store.generations.byId('a'))?.id]).toEqual([['a'], 'a'])
  })

  const DAMAGES: [string, (path: string) => void][] = [
    ['missing', path => rmSync(path)],
    ['cut', path => truncateSync(path, statSync(path).size - 1)],
    ['empty', path => truncateSync(path, 0)],
    [
      'changed',
      path => {
        const bytes = readFileSync(path)
        bytes[40] = (bytes[40] ?? 0) ^ 1
        writeFileSync(path, bytes)
      },
    ],
    [
      'a link',
      path => {
        renameSync(path, `${path}-elsewhere`)
        symlinkSync(`${path}-elsewhere`, path)
      },
    ],
    [
      'a folder',
      path => {
        rmSync(path)
        mkdirSync(path)
      },
    ],
  ]
  test.each(DAMAGES)(
    'a segment that is %s hides no other; its messages are empty, and doctor names it',
    async (_, damage) => {
      const gateway = await open()
      await record(gateway, ['a', 'b'])
      const copy = killNow()
      const next = await open({ data: copy })
      await record(next, ['c'])
      await next.close()
      opened.pop()
      damage(join(folder(copy), '1'))
      const again = await open({ data: copy })
      expect(await list(again)).toEqual([
        [1, 'a', ''],
        [2, 'b', ''],
        [3, 'c', 'whole'],
      ])
      expect(await examineSpool(again)).toMatchObject({
        ok: false,
        found: expect.stringContaining('2 messages of segment 1 cannot be read'),
      })
      await again.store.deliveries.fail('a', [1, 2], REFUSAL, 10)
      expect(await examineSpool(again)).toMatchObject({ ok: true, found: '1 message waits there' })
      expect((await again.store.deliveries.listFailed('a', 0, 9)).total).toBe(2)
    },
  )

  test('a block does not open at another place', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    await gateway.close()
    opened = []
    renameSync(join(folder(), '1'), join(folder(), '2'))
    const db = openDatabaseNow(data, { readwrite: true })
    db.run('update outbox set segment = 2')
    db.close()
    expect(await list(await open())).toEqual([[1, 'a', '']])
  })

  test('doctor counts what nothing needs', async () => {
    const gateway = await open()
    await record(gateway, ['a'])
    expect(await examineSpool(gateway)).toMatchObject({ ok: true, found: '1 message waits there' })
    await gateway.store.deliveries.finish('a', [1], REFUSAL.failed_at)
    const { size } = statSync(join(folder(), '1'))
    expect((await examineSpool(gateway)).found).toContain(`; ${size} bytes that nothing needs`)
  })
})

describe('another secret', () => {
  test('encrypts again what waits, and leaves what neither of them opens', async () => {
    const first = await open({ secret: 'the first' })
    await record(first, ['a', 'b'], ['a', 'b'])
    await first.close()
    const other = await open({ secret: 'a third' })
    await record(other, ['c'])
    await other.close()
    opened = []
    const command = await open({
      ...{ access: 'command', secret: 'the second', previousSecret: 'the first' },
    })
    await command.store.seals.reseal(buildAuditEntry(), command.secrets.previous())
    expect(listPlaces()).toEqual([
      [['a', 'b'], null, true],
      [['c'], 2, false],
    ])
    const waiting = await listTexts(command.store, 'a', 0, 9, 1_000_000)
    const opening = command.secrets.destinationSeal()
    expect(waiting.map(row => opening.open(row.payload, row.generation_id))).toEqual([
      render('a'),
      render('b'),
      undefined,
    ])
    expect(listSegments()).toEqual(['1', '2'])
    await command.close()
    opened = []
    await open({ secret: 'the second' })
    expect(listSegments()).toEqual(['2'])
  })
})

describe('beside a server', () => {
  test('a command reads what waits, and leaves the spool to the server', async () => {
    const gateway = await open()
    await record(gateway, ['a', 'b'])
    const unlock = await gateway.lock()
    const command = await open({ access: 'command' })
    expect((await list(command)).map(([, , state]) => state)).toEqual(['whole', 'whole'])
    await command.store.deliveries.drop('a', 9)
    expect(listSegments()).toEqual(['1'])
    await unlock()
    await record(gateway, ['c'])
    expect(await list(gateway)).toEqual([[3, 'c', 'whole']])
  })

  test('a backup has what waits, also in the log, and a restore lets it leave', async () => {
    const gateway = await open()
    await record(gateway, ['a', 'b'], ['a', 'b'])
    await gateway.store.deliveries.finish('b', [2], REFUSAL.failed_at)
    await record(gateway, ['c'])
    const copy = killNow()
    const file = join(root, `${Bun.randomUUIDv7()}.backup`)
    const input = { force: false, withSecret: true, secret: undefined }
    await backUp({ data: copy, file, ...input })
    expect(listSegments(copy)).toEqual(['1'])
    await restore({ data: copy, file, force: true, secret: undefined })
    expect(listSegments(copy)).toEqual([])
    const restored = await open({ data: copy })
    const opening = restored.secrets.destinationSeal()
    for (const [id, calls] of [
      ['a', ['a', 'b', 'c']],
      ['b', ['a']],
    ] as const) {
      const waiting = await listTexts(restored.store, id, 0, 9, 1_000_000)
      expect(waiting.map(row => opening.open(row.payload, row.generation_id))).toEqual(
        calls.map(call => render(call)),
      )
    }
    const aside = readdirSync(copy).find(name => name.startsWith('before-restore-')) ?? ''
    expect(listSegments(join(copy, aside))).toEqual(['1'])
  })

  test('the backup before a migration has it too', async () => {
    const store = await openSmall(10_000)
    await record({ store }, ['a', 'b'])
    const copy = join(data, 'copy.db')
    const db = openDatabaseNow(data, { readonly: true })
    db.query('vacuum main into ?').run(copy)
    db.close()
    moveSpool(data, copy, seal)
    const found = new Database(copy, { readonly: true })
    const [row] = found.query('select * from outbox').all() as {
      payload: string
      segment: number | null
    }[]
    found.close()
    const opening = (row?.payload ?? '')
      .split('\n')
      .map((line, i) => seal().open(line, 'ab'[i] ?? ''))
    expect([opening, row?.segment]).toEqual([[render('a'), render('b')], null])
    expect((await list({ store })).map(([, , state]) => state)).toEqual(['whole', 'whole'])
  })
})
