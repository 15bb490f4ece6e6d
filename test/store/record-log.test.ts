import { Database } from 'bun:sqlite'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backUp } from '../../src/app/backup.ts'
import { acceptEnd } from '../../src/app/doctor/accept.ts'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Gateway, GatewayParts } from '../../src/app/gateway.ts'
import { openGateway } from '../../src/app/gateway.ts'
import { openMacOfKey } from '../../src/base/mac.ts'
import { parseConfig } from '../../src/config.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { renderCheckedLine } from '../../src/store/checked-lines.ts'
import { openDatabaseNow } from '../support/database.ts'
import { TestClock } from '../support/gateway.ts'
import { buildGeneration, buildRecordEntry, buildStepEntry } from '../support/generation.ts'
import { changeLog, listLogFiles, listWaitingLines, replaceLog } from '../support/log.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-records-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let data: string
let opened: Gateway[] = []
beforeEach(() => {
  data = mkdtempSync(join(root, 'data-'))
})
afterEach(async () => {
  for (const gateway of opened.splice(0)) await gateway.close()
})

/** Opens a gateway whose time stands: every record after the first comes while calls come fast. */
async function open(more: Partial<GatewayParts> = {}): Promise<Gateway> {
  const gateway = await openGateway({ data, access: 'server', clock: new TestClock(), ...more })
  opened.push(gateway)
  return gateway
}

/** Opens what the process would have left, were it killed now. */
function killNow(): string {
  const copy = mkdtempSync(join(root, 'killed-'))
  cpSync(data, copy, { recursive: true })
  return copy
}

const UNKNOWN_COST = { total_cost: null, upstream_inference_cost: null }

const evidenceOf = (directory = data) => join(directory, 'log.garbled')
const readLog = (directory = data) =>
  listWaitingLines(directory)
    .map(line => `${line}\n`)
    .join('')

/** Lists the ids in the file, in the order of their rows, without asking the store. */
function listRows(directory = data): string[] {
  const db = openDatabaseNow(directory, { readonly: true })
  const rows = db.query('select id from generations order by rowid').all() as { id: string }[]
  db.close()
  return rows.map(({ id }) => id)
}

/** Records a call, and then others in one turn of the event loop: their transaction waits. */
async function record(gateway: Gateway, first: string, ...others: string[]): Promise<void> {
  await gateway.store.generations.record([buildRecordEntry(first)])
  await Promise.all(others.map(id => gateway.store.generations.record([buildRecordEntry(id)])))
}

const readTotal = async (gateway: Gateway) =>
  (await gateway.store.ledger.listTotals()).reduce((sum, { nanos }) => sum + nanos, 0n)

const listFaults = async (gateway: Gateway) =>
  (await examineGateway(gateway)).data.filter(({ ok }) => !ok)

describe('records that come fast', () => {
  test('wait in the log, behind one that came alone', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    expect([listRows(), readLog().split('\n').length - 1]).toEqual([['a'], 2])
    for (const path of listLogFiles(data)) expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('are in the database a little later, in their order, and in the log no more', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    while (listRows().length < 3) await Bun.sleep(1)
    await gateway.store.generations.flush()
    expect([listRows(), readLog()]).toEqual([['a', 'b', 'c'], ''])
    expect(await listFaults(gateway)).toEqual([])
  })

  test('are seen by all who ask the store', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    expect(await gateway.store.generations.byId('b')).toEqual(buildGeneration({ id: 'b' }))
    await record(gateway, 'c')
    expect((await gateway.store.generations.list({}, 5)).map(({ id }) => id)).toEqual([
      'c',
      'b',
      'a',
    ])
    await record(gateway, 'd')
    expect(await readTotal(gateway)).toBe(4n * 4_500n)
    await record(gateway, 'e')
    expect(await gateway.store.rollups.advance(100)).toBe(5)
  })

  test('are seen by a command beside the server, which waits', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    const unlock = await gateway.lock()
    try {
      const command = await open({ access: 'command' })
      expect(await command.store.generations.byId('b')).toBeDefined()
    } finally {
      await unlock()
    }
  })

  test('are many at once: no more than a few wait', async () => {
    const gateway = await open()
    const ids = Array.from({ length: 500 }, (_, n) => `gen-${String(n).padStart(3, '0')}`)
    for (const id of ids) {
      await record(gateway, id)
      if (id.endsWith('0')) await Bun.sleep(0)
      expect(readLog().split('\n').length).toBeLessThan(140)
    }
    await gateway.store.generations.flush()
    expect(listRows()).toEqual(ids)
    expect(await listFaults(gateway)).toEqual([])
  })

  test('are written at once where the time is over when they are in the log', async () => {
    const clock = new TestClock()
    const ticks = () => {
      clock.pass(15)
      return clock.ticks()
    }
    const warnings: string[] = []
    const warn = (warning: Error) => void warnings.push(warning.name)
    process.on('warning', warn)
    const gateway = await open({ clock: { now: clock.now, ticks } })
    await record(gateway, 'a', 'b')
    expect(readLog()).toContain('"b"')
    while (readLog() !== '') await Bun.sleep(1)
    process.off('warning', warn)
    expect([listRows(), warnings]).toEqual([['a', 'b'], []])
  })

  test('are written with what comes with other things, before it', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    await gateway.store.generations.record([buildStepEntry('d', 1)])
    await gateway.store.generations.flush()
    expect([listRows(), readLog()]).toEqual([['a', 'b'], ''])
  })

  test.each([
    ['of a command', { access: 'command' }],
    ['where power loss is covered', { config: parseConfig('storage: {durability: full}', {}) }],
  ] as const)('%s do not wait', async (_, more) => {
    const gateway = await open(more)
    await record(gateway, 'a', 'b')
    expect([listRows(), listLogFiles(data)]).toEqual([['a', 'b'], []])
  })
})

describe('records of a killed process', () => {
  test('are restored, each once, with every field, charge and seal', async () => {
    const gateway = await open()
    const odd = buildGeneration({ id: 'odd', title: 'half \ud800 a pair “\n', latency: 0.1 })
    await record(gateway, 'a')
    await gateway.store.generations.record([
      { ...buildRecordEntry('odd'), generation: odd },
      { generation: buildGeneration({ id: 'free', ...UNKNOWN_COST }), charge: null },
    ])
    const copy = killNow()
    expect(listRows(copy)).toEqual(['a'])
    const next = await open({ data: copy })
    expect([listRows(copy), readLog(copy)]).toEqual([['a', 'odd', 'free'], ''])
    expect(await next.store.generations.byId('odd')).toEqual({
      ...odd,
      title: 'half \ufffd a pair “\n',
    })
    expect((await next.store.generations.byId('free'))?.total_cost).toBeNull()
    expect(await readTotal(next)).toBe(2n * 4_500n)
    expect(await listFaults(next)).toEqual([])
  })

  test('are not restored twice where they were in the database by then', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    const killed = killNow()
    await gateway.close()
    opened = []
    for (const path of listLogFiles(data)) cpSync(path.replace(data, killed), path)
    const next = await open()
    expect(listRows()).toEqual(['a', 'b', 'c'])
    expect(await readTotal(next)).toBe(3n * 4_500n)
  })

  test('are restored by a command where no server runs', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    const copy = killNow()
    const command = await open({ data: copy, access: 'command' })
    expect(await command.store.generations.byId('b')).toBeDefined()
    expect(readLog(copy)).toBe('')
  })

  test('are restored but for a line that was cut or changed, which is counted and kept', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    const copy = killNow()
    await replaceLog(copy, listWaitingLines(copy), gateway.secrets.mac)
    changeLog(copy, log => `${log.replace('"b"', '"B"')}#0123`)
    const next = await open({ data: copy })
    expect(listRows(copy)).toEqual(['a', 'c'])
    expect(next.journal.garbledRecords).toBe(1)
    expect(readFileSync(evidenceOf(copy), 'utf8')).toMatch(/^#.*\n.*"B".*\n$/)
  })

  test.each([
    ['a byte changed', (log: string) => log.replace('"b"', '"B"')],
    ['no newline left', (log: string) => log.replaceAll('\n', ' ')],
    ['its last newline changed', (log: string) => `${log.slice(0, -1)}x`],
  ])('with %s stay evidence until an operator accepts it', async (_, change) => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    const copy = killNow()
    changeLog(copy, change)
    const first = await open({ data: copy, access: 'command' })
    await first.close()
    opened = opened.filter(one => one !== first)
    const next = await open({ data: copy })
    const found = 'log was damaged: it is kept as log.garbled (--accept)'
    expect((await listFaults(next)).filter(({ check }) => check === 'logs')).toEqual([
      { check: 'logs', ok: false, found },
    ])
    const approve = (problems: string[]) => problems.includes(found)
    const accepter = { system_user: 'ops', approve }
    await acceptEnd(
      { ...next, lock: async () => async () => undefined },
      getOperator(next),
      { reason: 'r' },
      accepter,
    )
    expect((await listFaults(next)).filter(({ check }) => check === 'logs')).toEqual([])
    const entries = await listAudit(next, getOperator(next), { action: 'ledger.accept' })
    expect(entries).toMatchObject({
      data: [{ before: { accepted: expect.arrayContaining([found]) } }],
    })
    expect(readFileSync(join(copy, 'log.accepted'), 'utf8')).toContain('{"record":')
  })

  test('are not restored from a line that another secret has sealed', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    const copy = killNow()
    await replaceLog(copy, listWaitingLines(copy), openMacOfKey('another'))
    const next = await open({ data: copy })
    expect([listRows(copy), next.journal.garbledRecords]).toEqual([['a'], 1])
  })

  test('are restored where the secret was replaced meanwhile, as long as the one before is kept', async () => {
    const gateway = await open({ secret: 'first' })
    await record(gateway, 'a', 'b')
    const copy = killNow()
    const next = await open({ data: copy, secret: 'second', previousSecret: 'first' })
    expect([listRows(copy), next.journal.garbledRecords]).toEqual([['a', 'b'], 0])
  })

  test('are restored without the columns of later versions', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    const copy = killNow()
    const logged = JSON.parse(listWaitingLines(copy)[0] ?? '')
    logged.record.pop()
    await replaceLog(copy, [JSON.stringify(logged)], gateway.secrets.mac)
    const next = await open({ data: copy })
    expect(await next.store.generations.byId('b')).toEqual(buildGeneration({ id: 'b' }))
    expect(await listFaults(next)).toEqual([])
  })

  test('are restored from the log of an earlier program, whose damage stays evidence', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b', 'c')
    const copy = killNow()
    const [good = '', bad = ''] = listWaitingLines(copy).map(line =>
      renderCheckedLine(line, gateway.secrets.mac),
    )
    for (const path of listLogFiles(copy)) rmSync(path)
    writeFileSync(join(copy, 'records.log'), good + bad.replace('"c"', '"C"'))
    const next = await open({ data: copy })
    expect([listRows(copy), next.journal.garbledRecords]).toEqual([['a', 'b'], 1])
    expect(existsSync(join(copy, 'records.log'))).toBe(false)
    expect(await listFaults(next)).toMatchObject([
      { check: 'logs', found: expect.stringContaining('records.log was damaged') },
    ])
  })

  test('are in a backup that is made before the next start', async () => {
    const gateway = await open()
    await record(gateway, 'a', 'b')
    const copy = killNow()
    const file = join(root, `${Bun.randomUUIDv7()}.backup`)
    const input = { force: false, withSecret: true, secret: undefined }
    await backUp({ data: copy, file, ...input })
    const db = new Database(file, { readonly: true })
    expect(db.query('select id from generations').values()).toEqual([['a'], ['b']])
    db.close()
  })
})

describe('faults', () => {
  test('what waits stays in the log while another process writes, and what comes waits for it', async () => {
    const faults: unknown[] = []
    const gateway = await open({ busyTimeout: 0 })
    gateway.events.on('store.failing', ({ error }) => void faults.push(error))
    await record(gateway, 'a', 'b')
    const other = openDatabaseNow(data, { readwrite: true })
    other.run('begin immediate')
    while (faults.length === 0) await Bun.sleep(1)
    expect(gateway.store.generations.record([buildRecordEntry('c')])).rejects.toThrow(/locked/)
    expect(await gateway.store.generations.byId('b')).toBeUndefined()
    expect(readLog()).toContain('"b"')
    other.run('rollback')
    other.close()
    await record(gateway, 'c')
    await gateway.store.generations.flush()
    expect([listRows(), readLog()]).toEqual([['a', 'b', 'c'], ''])
    await record(gateway, 'd')
    expect(readLog()).toContain('"d"')
  })

  test('what the database refuses stops no other record, and stays in a copy', async () => {
    const faults: unknown[] = []
    const gateway = await open()
    gateway.events.on('store.failing', ({ error }) => void faults.push(error))
    await record(gateway, 'a', 'a', 'b')
    expect(await gateway.store.generations.byId('b')).toBeDefined()
    expect(faults).toHaveLength(1)
    expect(readFileSync(evidenceOf(), 'utf8').split('\n')).toHaveLength(2)
    expect(listRows()).toEqual(['a', 'b'])
    expect(await listFaults(gateway)).toMatchObject([{ check: 'logs' }])
  })

  test('where the log cannot be written, records go into the database at once', async () => {
    const gateway = await open()
    mkdirSync(join(data, 'log.1'))
    await record(gateway, 'a', 'b')
    expect(listRows()).toEqual(['a', 'b'])
    rmSync(join(data, 'log.1'), { recursive: true })
  })
})
