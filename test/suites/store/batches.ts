import { expect, test } from 'bun:test'
import type { Batch } from '../../../src/extensions/batches/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { type GetStore, WORKSPACE } from './rows.ts'

const TIME = '2026-03-04T05:06:07.000Z'
const buildId = (number: number) => `batch_${String(number).padStart(32, '0')}`

/** Builds a batch that goes on. */
export const buildBatch = (number: number, more: Partial<Batch> = {}): Batch => ({
  id: buildId(number),
  workspace_id: WORKSPACE,
  key_hash: 'k',
  user_id: 'user_1',
  endpoint: '/v1/chat/completions',
  input_file_id: 'or_file_1',
  metadata: { job: 'night' },
  ...{ status: 'in_progress', ends_as: null, errors: [], total: 3, completed: 0, failed: 0 },
  ...{ output_file_id: null, error_file_id: null, created_at: TIME, expires_at: TIME },
  output_expires_after: 3_600,
  ...{ in_progress_at: null, finalizing_at: null, cancelling_at: null, ended_at: null },
  ...more,
})

/** Tests what every store promises about batches. */
export function testBatches(store: GetStore): void {
  test('a batch is found as it was inserted, and listed until it has ended', async () => {
    const { batches } = store()
    const problem = { code: 'a', message: 'b', param: null, line: 2 }
    const first = buildBatch(1, { errors: [problem], metadata: null })
    await batches.insert(first, buildAuditEntry())
    await batches.insert(buildBatch(2), buildAuditEntry())
    expect(await batches.find(buildId(1))).toEqual(first)
    expect((await batches.listUnfinished()).map(({ id }) => id)).toEqual([buildId(1), buildId(2)])
    const end = { status: 'completed', ended_at: TIME } as const
    expect(await batches.change(buildId(1), ['in_progress'], end)).toBe(true)
    expect(await batches.change(buildId(1), ['in_progress'], end)).toBe(false)
    expect((await batches.listUnfinished()).map(({ id }) => id)).toEqual([buildId(2)])
    const range = { workspace_id: WORKSPACE, limit: 9 }
    expect((await batches.list(range)).map(({ id }) => id)).toEqual([buildId(2), buildId(1)])
    expect(await batches.list({ ...range, statuses: ['completed'] })).toMatchObject([end])
    expect(await batches.list({ ...range, after: buildId(1) })).toEqual([])
    expect(await batches.list({ ...range, before: buildId(1), limit: 1 })).toMatchObject([
      { id: buildId(2) },
    ])
    expect(await batches.list({ ...range, endpoint: '/v1/messages' })).toEqual([])
    expect(await batches.list({ ...range, workspace_id: 'none' })).toEqual([])
    await batches.remove(buildId(1), buildAuditEntry())
    const again = batches.remove(buildId(1), buildAuditEntry())
    await expect(again).rejects.toMatchObject({ status: 404 })
  })

  test('those that ended before a time are removed with their results, and counted', async () => {
    const { batches, evictions } = store()
    await batches.insert(buildBatch(1), buildAuditEntry())
    await batches.insert(buildBatch(2), buildAuditEntry())
    await batches.insert(buildBatch(3), buildAuditEntry())
    await batches.addResult({ batch_id: buildId(1), line: 1, is_error: false, sealed: 'a' })
    const end = (number: number, ended_at: string) =>
      batches.change(buildId(number), ['in_progress'], { status: 'completed', ended_at })
    await end(1, '2026-03-01T00:00:00.000Z')
    await end(2, '2026-03-02T00:00:00.000Z')
    const remove = () => batches.removeBefore('2026-03-02T00:00:00.000Z', TIME)
    expect([await remove(), await remove()]).toEqual([1, 0])
    const found = await Promise.all([1, 2, 3].map(number => batches.find(buildId(number))))
    expect(found.map(one => one?.id)).toEqual([undefined, buildId(2), buildId(3)])
    expect(await batches.listDoneLines(buildId(1))).toEqual([])
    expect(await evictions.all()).toEqual([
      { kind: 'batches', reason: 'age', rows: 1, last_at: TIME },
    ])
  })

  test('a result counts once, and is swept when its batch has ended', async () => {
    const { batches } = store()
    await batches.insert(buildBatch(1), buildAuditEntry())
    const result = { batch_id: buildId(1), line: 2, is_error: false, sealed: 'x' }
    for (const one of [result, result, { ...result, line: 1, is_error: true }])
      await batches.addResult(one)
    await batches.addResult({ ...result, batch_id: buildId(9) })
    expect(await batches.find(buildId(1))).toMatchObject({ completed: 1, failed: 1 })
    expect((await batches.listDoneLines(buildId(1))).sort()).toEqual([1, 2])
    expect(await batches.listResults(buildId(1), 1, 9)).toEqual([result])
    expect(await batches.sweepResults()).toBe(0)
    await batches.change(buildId(1), ['in_progress'], { status: 'failed', ended_at: TIME })
    expect(await batches.sweepResults(buildId(9))).toBe(0)
    expect(await batches.sweepResults(buildId(1))).toBe(2)
    expect(await batches.listResults(buildId(1), 0, 9)).toEqual([])
  })
}
