import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../../src/app/gateway.ts'
import { deleteDestination } from '../../../src/observability/destinations.ts'
import { evictRows } from '../../../src/observability/retention.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createWorkspace, deleteWorkspace } from '../../../src/resources/workspaces.ts'
import { ChangeFeed } from '../../../src/store/sql/changes.ts'
import { createEraser } from '../../../src/store/sql/erasing.ts'
import type { Statement } from '../../../src/store/sql/write.ts'
import { createWriters } from '../../../src/store/sqlite/write.ts'
import { openDatabase } from '../../support/database.ts'
import { createCountedIds, TestClock } from '../../support/gateway.ts'

const MANY = 2_300
const MIB = 1024 * 1024

const NUMBERS = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${MANY})`

/** Fills a workspace with all that there can be much of. */
function fill(db: Database, workspace: string, name: string, first: number): void {
  const time = '2026-03-07T12:00:00.000Z'
  const statements = [
    `insert into destinations (id, workspace_id, type, name, enabled, regions,
      broadcast_generation_cost, broadcast_generation_identity,
      broadcast_generation_request_context, privacy_mode, sampling_rate, created_at, updated_at)
      values ('dest-${name}', '${workspace}', 'webhook', '${name}', 1, '[]', 1, 1, 1, 0, 1, '${time}', '${time}')`,
    `insert into outbox (sequence, topic, generation_id, payload, created_at)
      ${NUMBERS} select ${first} + i, 'call', 'gen', 'p', '${time}' from n`,
    `insert into deliveries ${NUMBERS} select 'dest-${name}', ${first} + i, 1, 1 from n`,
    `insert into transcripts (generation_id, workspace_id, created_at, size_bytes, sealed)
      ${NUMBERS} select 'gen-${name}-' || i, '${workspace}', '${time}',
      iif(i < 10, ${3 * MIB}, 10), 'x' from n`,
    `insert into files (id, workspace_id, filename, mime_type, size_bytes, downloadable, created_at)
      ${NUMBERS} select 'file-${name}-' || i, '${workspace}', 'f', 'text/plain', 1, 0, '${time}' from n`,
    `insert into batches (id, workspace_id, key_hash, user_id, endpoint, input_file_id, status,
      total, completed, failed, created_at, expires_at)
      values ('batch-${name}', '${workspace}', 'k', 'u', '/e', 'f', 'in_progress', 1, 0, 0, '${time}', '${time}')`,
    `insert into batch_results ${NUMBERS} select 'batch-${name}', i, 0, 'x' from n`,
    `insert into containers values ('box-${name}', '${workspace}', 'box', '${time}', '${time}', null)`,
    `insert into container_files ${NUMBERS}
      select 'box-${name}', '/' || i, 1, 420, '${name}' || i, null, '${time}', null from n`,
  ]
  for (const statement of statements) db.run(statement)
}

const TABLES = [
  'deliveries',
  'outbox',
  'transcripts',
  'files',
  'batches',
  'batch_results',
  'containers',
  'container_files',
]
const countRows = (db: Database) =>
  Object.fromEntries(
    TABLES.map(table => {
      const row = db.query(`select count(*) as count from ${table}`).get()
      return [table, (row as { count: number }).count]
    }),
  )

async function open() {
  const data = mkdtempSync(join(tmpdir(), 'gateway-erasing-'))
  const clock = new TestClock('2026-03-07T12:00:00.000Z')
  const gateway = await openGateway({ data, clock, ids: createCountedIds() })
  const operator = getOperator(gateway)
  const made = async (name: string) =>
    (await createWorkspace(gateway, operator, { name, slug: name })).data.id
  const [gone, kept] = [await made('gone'), await made('kept')]
  const db = openDatabase(data)
  db.run('pragma foreign_keys = on')
  fill(db, kept, 'kept', 1_000_000)
  const before = countRows(db)
  fill(db, gone, 'gone', 0)
  const close = async () => {
    db.close()
    await gateway.close()
    rmSync(data, { recursive: true, force: true })
  }
  return { gateway, operator, db, gone, before, close }
}

const feed = await ChangeFeed.open(async () => [])
const writeTo = (db: Database) =>
  createWriters(db, { seal: statements => statements, feed, path: null }).write

test('a workspace is deleted with all of its many rows, and those of others stay', async () => {
  const { gateway, operator, db, gone, before, close } = await open()
  await deleteWorkspace(gateway, operator, gone, {})
  expect(countRows(db)).toEqual(before)
  expect(db.query('select bytes from transcript_use').get()).toEqual({
    bytes: 9 * 3 * MIB + (MANY - 9) * 10,
  })
  await close()
})

test('what is erased is erased a thousand rows and four mebibytes of content at a time', async () => {
  const { db, gone, before, close } = await open()
  db.run('update workspaces set deleted_at = created_at where id = ?', [gone])
  db.run('update destinations set deleted_at = created_at where workspace_id = ?', [gone])
  const erase = createEraser(writeTo(db))
  const content = db.query<{ bytes: number }, []>('select bytes from transcript_use')
  let turns = 0
  for (;;) {
    const bytes = content.get()?.bytes ?? 0
    const rows = await erase()
    expect(rows).toBeLessThanOrEqual(1_000)
    expect(bytes - (content.get()?.bytes ?? 0)).toBeLessThanOrEqual(4 * MIB)
    if (rows === 0) break
    turns += 1
  }
  expect(turns).toBeGreaterThan(5 * 3)
  expect(countRows(db)).toEqual(before)
  await close()
})

test('what a killed process has not erased is erased by the next sweep', async () => {
  const { gateway, db, gone, before, close } = await open()
  db.run('update workspaces set deleted_at = created_at where id = ?', [gone])
  db.run('update destinations set deleted_at = created_at where workspace_id = ?', [gone])
  await createEraser(writeTo(db))()
  await evictRows(gateway)
  expect(countRows(db)).toEqual(before)
  await close()
})

test('a deleted destination leaves nothing that waits, and no message that nobody waits for', async () => {
  const { gateway, operator, db, before, close } = await open()
  await gateway.memory.destinations.reload()
  db.run("insert into deliveries values ('dest-kept', 7, 1, 1)")
  await deleteDestination(gateway, operator, 'dest-gone')
  expect(countRows(db)).toMatchObject({
    deliveries: Number(before.deliveries) + 1,
    outbox: Number(before.outbox) + 1,
  })
  await close()
})

test('rows are found by an index: nothing scans a table of many rows', async () => {
  const { db, close } = await open()
  const plans = new Set<string>()
  const query = db.query.bind(db)
  const explain = async (...statements: Statement[]): Promise<void> => {
    for (const statement of statements) {
      if ('later' in statement) continue
      const { sql } = ('query' in statement ? statement.query : statement).compile()
      for (const row of query(`explain query plan ${sql}`).all() as { detail: string }[])
        plans.add(row.detail)
      if ('follow' in statement) await explain(...statement.follow([]))
    }
  }
  expect(await createEraser(explain)()).toBe(0)
  const scans = [...plans].filter(plan => plan.startsWith('SCAN'))
  expect(
    scans.filter(scan => [...TABLES, 'd'].some(table => scan.startsWith(`SCAN ${table} `))),
  ).toEqual([])
  expect(plans.size).toBeGreaterThan(5)
  await close()
})
