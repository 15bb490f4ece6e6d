import { expect, test } from 'bun:test'
import type { StoredFile } from '../../../src/resources/files/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  CREATED,
  countAudit,
  type GetStore,
  readErrorType,
  readRefusal,
  WORKSPACE,
} from './rows.ts'

/** Ten blocks. */
const QUOTA = { workspace_id: WORKSPACE, bytes: 40_960, files: 100 }

/** Builds a file whose id sorts by its number. */
const buildFile = (number: number, more: Partial<StoredFile> = {}): StoredFile => ({
  id: `or_file_${`${number}`.padStart(32, '0')}`,
  workspace_id: WORKSPACE,
  filename: 'folder/“𝄞”.txt',
  mime_type: 'text/plain',
  size_bytes: 100,
  sha256: number === 1 ? null : 'c0ffee',
  expires_at: null,
  downloadable: number % 2 === 0,
  purpose: null,
  created_at: CREATED,
  ...more,
})

/** Tests what every store promises about the records of files. */
export function testFiles(store: GetStore): void {
  test('a file is read as inserted, and its id is unique', async () => {
    const { files } = store()
    const file = buildFile(1, { purpose: 'vision' })
    await files.insert(file, QUOTA, buildAuditEntry())
    expect(await files.find(file.id)).toEqual(file)
    expect(await files.find(buildFile(2).id)).toBeUndefined()
    const before = await countAudit(store())
    expect(await readErrorType(files.insert(file, QUOTA, buildAuditEntry()))).toBe('conflict')
    expect([await files.all(), await countAudit(store())]).toEqual([[file], before])
  })

  test('files whose time is over are listed, the first first, and go without an entry', async () => {
    const { files } = store()
    const days = [null, '2026-03-06', '2026-03-05', '2026-03-04']
    for (const [number, day] of days.entries())
      await files.insert(
        buildFile(number, { expires_at: day && `${day}T00:00:00.000Z` }),
        QUOTA,
        buildAuditEntry(),
      )
    const list = async (time: string, limit = 9) =>
      (await files.listExpired(time, limit)).map(({ id }) => Number(id.slice(8)))
    expect(await list('2026-03-03T23:59:59.999Z')).toEqual([])
    expect(await list('2026-03-05T00:00:00.000Z')).toEqual([3, 2])
    expect(await list('2026-03-07T00:00:00.000Z', 2)).toEqual([3, 2])
    const range = { workspace_id: WORKSPACE, order: 'asc' as const, limit: 9 }
    const left = await files.listRange({ ...range, now: '2026-03-05T00:00:00.000Z' })
    expect(left.map(({ id }) => Number(id.slice(8)))).toEqual([0, 1])
    const before = await countAudit(store())
    await files.remove(buildFile(3).id, null)
    expect([await list('2026-03-07T00:00:00.000Z'), await countAudit(store())]).toEqual([
      [2, 1],
      before,
    ])
  })

  test('files are listed from an id on, in either order, whether or not it exists', async () => {
    const { files } = store()
    for (const number of [3, 1, 4, 2])
      await files.insert(buildFile(number), QUOTA, buildAuditEntry())
    const list = async (order: 'asc' | 'desc', limit: number, after?: number) => {
      const start = after === undefined ? undefined : buildFile(after).id
      const range = { workspace_id: WORKSPACE, now: CREATED, order, limit, after: start }
      return (await files.listRange(range)).map(({ id }) => Number(id.slice(8)))
    }
    expect(await list('asc', 9)).toEqual([1, 2, 3, 4])
    expect(await list('desc', 2)).toEqual([4, 3])
    expect(await list('desc', 2, 3)).toEqual([2, 1])
    expect(await list('asc', 1, 2)).toEqual([3])
    await files.remove(buildFile(3).id, buildAuditEntry())
    expect(await list('desc', 9, 3)).toEqual([2, 1])
    expect(await list('asc', 9, 9)).toEqual([])
    expect(
      await files.listRange({ workspace_id: 'none', now: CREATED, order: 'asc', limit: 9 }),
    ).toEqual([])
  })

  test('files of a workspace never exceed its quota, and a deleted one counts no more', async () => {
    const { files } = store()
    expect(await files.computeUse(WORKSPACE)).toEqual({ bytes: 0, files: 0 })
    const inserts = Array.from({ length: 15 }, (_, i) =>
      readErrorType(files.insert(buildFile(i), QUOTA, buildAuditEntry())),
    )
    const outcomes = await Promise.all(inserts)
    expect(outcomes.filter(outcome => outcome === 'permission_denied')).toHaveLength(5)
    expect(await files.computeUse(WORKSPACE)).toEqual({ bytes: 40_960, files: 10 })
    const [first] = await files.all()
    await files.remove(first?.id ?? '', buildAuditEntry())
    expect(await files.computeUse(WORKSPACE)).toEqual({ bytes: 36_864, files: 9 })
    await files.insert(buildFile(99, { size_bytes: 4_096 }), QUOTA, buildAuditEntry())
  })

  test('a file needs a workspace, and is removed once', async () => {
    const { files } = store()
    const nowhere = buildFile(1, { workspace_id: 'none' })
    expect(await readErrorType(files.insert(nowhere, QUOTA, buildAuditEntry()))).toBe(
      'invalid_request',
    )
    await files.insert(buildFile(1), QUOTA, buildAuditEntry())
    await files.remove(buildFile(1).id, buildAuditEntry())
    const before = await countAudit(store())
    expect(await readRefusal(files.remove(buildFile(1).id, buildAuditEntry()))).toBe(
      '404 File not found',
    )
    expect([await files.all(), await countAudit(store())]).toEqual([[], before])
    expect(await files.listDeletedWorkspaces()).toEqual([])
  })
}
