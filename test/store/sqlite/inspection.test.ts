import type { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../../src/app/gateway.ts'
import { AMOUNTS, COUNTS, rollUp } from '../../../src/observability/rollups.ts'
import { CHECKS, readAhead, runCheckApart } from '../../../src/store/sqlite/inspection.ts'
import { openDatabase } from '../../support/database.ts'
import { createCountedIds, TestClock } from '../../support/gateway.ts'
import { buildGeneration } from '../../support/generation.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-inspection-'))
const path = join(root, 'gateway.db')
afterAll(() => rmSync(root, { recursive: true, force: true }))

let db: Database
beforeAll(async () => {
  const clock = new TestClock('2026-03-07T12:00:00.000Z')
  const gateway = await openGateway({ data: root, clock, ids: createCountedIds() })
  // More than a double can hold, and two apps of one caller.
  const calls = ['a', 'b', 'c', 'd'].map((name, i) =>
    buildGeneration({
      id: `gen-${name}`,
      settled_at: `2026-03-07T1${i % 2}:00:00.000Z`,
      model: `acme/${name === 'd' ? 'other' : 'one'}`,
      http_referer: `https://${name}.example`,
      is_byok: i % 2 === 1,
      total_cost: 2n ** 61n + BigInt(i),
      upstream_inference_cost: 2n ** 60n + BigInt(i),
    }),
  )
  await gateway.store.generations.record(calls.map(generation => ({ generation, charge: null })))
  await rollUp(gateway)
  await gateway.close()
  db = openDatabase(root)
})
afterAll(() => db.close())

const TABLES = { usage_hours: 'by hour', usage_days: 'by day', usage_endpoint_days: 'by endpoint' }

for (const [table, what] of Object.entries(TABLES))
  for (const sum of [...COUNTS, ...AMOUNTS])
    test(`one more of ${sum} in ${table} is found`, async () => {
      expect(await CHECKS['roll-ups'](db)).toEqual([])
      const change = (by: number) =>
        db.run(`update ${table} set ${sum} = ${sum} + ${by} where (start, group_id) =
          (select start, group_id from ${table} order by group_id desc limit 1)`)
      change(1)
      expect((await CHECKS['roll-ups'](db)).join()).toContain(`2026-03-07 ${what}: the sums of`)
      change(-1)
    })

for (const table of Object.keys(TABLES))
  for (const change of [
    `delete from ${table} where group_id = (select min(group_id) from ${table})`,
    `update ${table} set group_id = 99 where group_id = (select max(group_id) from ${table})`,
    `update ${table} set start = start + 24`,
  ])
    test(`${change} is found`, async () => {
      db.run('begin')
      db.run(change)
      // In the transaction itself: a check begins none of its own inside.
      expect((await CHECKS['roll-ups'](db)).length).toBeGreaterThan(0)
      db.run('rollback')
    })

test('a check in a thread of its own finds the same', async () => {
  expect(await runCheckApart({ check: 'structure', path })).toEqual([])
  expect(await runCheckApart({ check: 'roll-ups', path })).toEqual([])
  db.run('update usage_days set calls = calls + 1')
  const found = await CHECKS['roll-ups'](db)
  expect(found).not.toEqual([])
  expect(await runCheckApart({ check: 'roll-ups', path })).toEqual(found)
  db.run('update usage_days set calls = calls - 1')
})

test('a check in a thread of its own that cannot run says why', async () => {
  const missing = join(root, 'missing.db')
  await expect(runCheckApart({ check: 'structure', path: missing })).rejects.toThrow(
    'unable to open',
  )
})

test('a file is read ahead whole, by two at once and again', async () => {
  db.run('pragma wal_checkpoint(truncate)')
  const { size } = statSync(path)
  const both = await Promise.all([readAhead(path), readAhead(path)])
  expect(both).toEqual([size, size])
  expect(await readAhead(path)).toBe(size)
})

test('a file that is larger than half of the memory is not read ahead, and one that is missing neither', async () => {
  const large = join(root, 'large')
  await Bun.write(large, '')
  truncateSync(large, 2 ** 20)
  expect(await readAhead(large, 2 ** 20)).toBe(0)
  expect(await readAhead(large, 2 ** 22)).toBe(2 ** 20)
  expect(await readAhead(join(root, 'missing'))).toBe(0)
})
