import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEvents } from '../../../src/base/events.ts'
import { openWriteLog } from '../../../src/observability/write-log.ts'
import { createLogCopier } from '../../../src/store/sqlite/write-log/copier.ts'
import { copyLog } from '../../../src/store/sqlite/write-log/copy.ts'
import { applyLogLimits, createWriteLogStore } from '../../../src/store/sqlite.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-write-log-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const LARGEST = 128 * 1024
let files = 0

function open() {
  const path = join(root, `${++files}.db`)
  const db = new Database(path, { create: true })
  db.run('pragma journal_mode = wal')
  applyLogLimits(db)
  db.run('create table rows (value blob)')
  const insert = db.query('insert into rows values (?)')
  const write = (times: number) => {
    for (let i = 0; i < times; i++) insert.run(new Uint8Array(8 * 1024))
  }
  const store = createWriteLogStore(db, { largest: LARGEST })
  return { db, path, write, store, measure: () => statSync(`${path}-wal`).size }
}

/** Returns after how many pages a write copies the log. */
const readCopiedAfter = (db: Database) =>
  db.prepare<{ wal_autocheckpoint: number }, []>('pragma wal_autocheckpoint').get()
    ?.wal_autocheckpoint

/** Begins a read in another connection, as another process would, and returns its end. */
function hold(path: string): () => void {
  const reader = new Database(path)
  reader.run('begin')
  reader.query('select count(*) from rows').get()
  return () => reader.close()
}

test('a log is never longer than its bound and what is written between two looks', async () => {
  const { db, write, store, measure } = open()
  for (let i = 0; i < 30; i++) {
    write(10)
    expect((await store.shorten()).isHeld).toBeFalse()
    expect(measure()).toBeLessThanOrEqual(LARGEST)
  }
  db.close()
})

test('readers who come and go in turns do not let it grow', async () => {
  const { db, path, write, store, measure } = open()
  let end = hold(path)
  for (let i = 0; i < 8; i++) {
    write(10)
    const next = hold(path)
    end()
    end = next
    await store.shorten()
    end()
    end = hold(path)
    await store.shorten()
  }
  expect(measure()).toBeLessThanOrEqual(LARGEST + 10 * 16 * 1024)
  end()
  db.close()
})

test('S-10 a reader who never ends is told of, once, and so is the end', async () => {
  const { db, path, write, store, measure } = open()
  const events = openEvents()
  const told: string[] = []
  events.on('write-log.held', ({ bytes }) => told.push(`held at ${bytes > LARGEST}`))
  events.on('write-log.released', ({ bytes }) => told.push(`released at ${bytes}`))
  const log = openWriteLog(store, events)
  const release = hold(path)
  for (let i = 0; i < 5; i++) {
    write(10)
    await log.keepShort()
  }
  expect(log.state).toEqual({ bytes: measure(), isHeld: true })
  expect(told).toEqual(['held at true'])
  // Each write would look through all of the log in vain.
  expect(readCopiedAfter(db)).toBe(0)
  release()
  await log.keepShort()
  expect(log.state).toEqual({ bytes: 0, isHeld: false })
  expect(told).toEqual(['held at true', 'released at 0'])
  expect(readCopiedAfter(db)).toBe(1_000)
  expect(db.query('select count(*) as count from rows').get()).toEqual({ count: 50 })
  db.close()
})

test('looking changes neither how long a statement waits, nor a short log, nor one in memory', async () => {
  const { db, write, store, measure } = open()
  db.run('pragma busy_timeout = 123')
  write(2)
  const before = measure()
  expect(await store.shorten()).toEqual({ bytes: before, isHeld: false })
  write(40)
  await store.shorten()
  expect(db.prepare('pragma busy_timeout').get()).toEqual({ timeout: 123 })
  const memory = createWriteLogStore(new Database(':memory:'), { largest: LARGEST })
  expect(await memory.shorten()).toEqual({ bytes: 0, isHeld: false })
  db.close()
})

test('while many write, a thread copies the log, and writes do so again when few do', async () => {
  const { db, write } = open()
  let copies = 0
  const copier = { copy: async () => void copies++, close: () => undefined }
  const store = createWriteLogStore(db, { copier })
  write(10)
  await store.shorten()
  expect([copies, readCopiedAfter(db)]).toEqual([0, 1_000])
  write(300)
  await store.shorten()
  expect([copies, readCopiedAfter(db)]).toEqual([1, 8_000])
  for (let look = 0; look < 4; look++) await store.shorten()
  expect([copies, readCopiedAfter(db)]).toEqual([1, 1_000])
  db.close()
})

test('a log that its thread has copied begins anew', async () => {
  const { db, path, write, measure } = open()
  db.run('pragma wal_autocheckpoint = 0')
  const copier = createLogCopier(path)
  write(100)
  const length = measure()
  for (let i = 0; i < 3; i++) {
    await copier.copy()
    write(90)
  }
  expect(measure()).toBe(length)
  copier.close()
  expect(db.query('select count(*) as count from rows').get()).toEqual({ count: 370 })
  db.close()
})

test('a copy fails softly: no file, a reader, a thread that has ended', async () => {
  const { db, path, write } = open()
  write(10)
  const release = hold(path)
  write(10)
  expect(copyLog(path)).toBeFalse()
  release()
  expect(copyLog(path)).toBeTrue()
  const missing = createLogCopier(join(root, 'missing.db'))
  await missing.copy()
  missing.close()
  await missing.copy()
  expect(existsSync(join(root, 'missing.db'))).toBeFalse()
  db.close()
})
