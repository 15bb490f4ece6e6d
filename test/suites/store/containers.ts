import { expect, test } from 'bun:test'
import type { Container, ContainerFile } from '../../../src/network/containers/store.ts'
import { BLOCK } from '../../../src/resources/files/quota.ts'
import type { StoredFile } from '../../../src/resources/files/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { CREATED, type GetStore, readErrorType, readRefusal, WORKSPACE } from './rows.ts'

const QUOTA = { workspace_id: WORKSPACE, bytes: 4 * BLOCK, files: 9 }

const buildContainer = (number: number, more: Partial<Container> = {}): Container => ({
  id: `${number}`.padStart(32, '0'),
  workspace_id: WORKSPACE,
  name: `sess_${number}`,
  created_at: CREATED,
  last_used_at: CREATED,
  ended_at: null,
  ...more,
})

const buildFile = (path: string, more: Partial<ContainerFile> = {}): ContainerFile => ({
  container_id: buildContainer(1).id,
  path,
  size_bytes: 100,
  sha256: 'c0ffee',
  mode: 0o644,
  blob: Bun.hash(path + JSON.stringify(more)).toString(16),
  promoted_id: null,
  created_at: CREATED,
  ...more,
})

const buildCopy = (number: number): StoredFile => ({
  ...{ id: `or_file_${`${number}`.padStart(32, '0')}`, workspace_id: WORKSPACE, filename: 'a' },
  ...{
    mime_type: 'text/plain',
    size_bytes: 1,
    sha256: null,
    expires_at: null,
    downloadable: true,
    purpose: null,
  },
  created_at: CREATED,
})
const FILE_QUOTA = { workspace_id: WORKSPACE, bytes: 1_000_000, files: 100 }

const LATER = '2026-03-05T00:00:00.000Z'

/** Tests what every store promises about containers. */
export function testContainers(store: GetStore): void {
  const put = (...files: ContainerFile[]) => change({ put: files })
  const change = ({ put = [] as ContainerFile[], removed = [] as string[] }) =>
    store().containers.changeFiles(
      { container_id: buildContainer(1).id, put, removed, last_used_at: LATER },
      QUOTA,
    )

  test('a container is found by its name in its workspace, which no other has', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    expect(await containers.find(WORKSPACE, 'sess_1')).toEqual(buildContainer(1))
    expect(await containers.find(WORKSPACE, 'sess_2')).toBeUndefined()
    expect(await containers.find('none', 'sess_1')).toBeUndefined()
    const again = containers.insert(buildContainer(2, { name: 'sess_1' }))
    expect(await readErrorType(again)).toBe('conflict')
    const nowhere = containers.insert(buildContainer(3, { workspace_id: 'none' }))
    expect(await readErrorType(nowhere)).toBe('invalid_request')
  })

  test('files are listed in the order of their bytes, from a path on', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    const paths = ['b', 'a/x', 'a', '\u{10400}', '\uffee', 'A', 'a b']
    const made = { container_id: buildContainer(1).id, put: paths.map(path => buildFile(path)) }
    const roomy = { ...QUOTA, bytes: 9 * BLOCK }
    await containers.changeFiles({ ...made, removed: [], last_used_at: LATER }, roomy)
    const list = async (limit: number, after?: string) =>
      (await containers.listFiles({ container_id: buildContainer(1).id, limit, after })).map(
        ({ path }) => path,
      )
    expect(await list(9)).toEqual(['A', 'a', 'a b', 'a/x', 'b', '\uffee', '\u{10400}'])
    expect(await list(2, 'a')).toEqual(['a b', 'a/x'])
    expect(await list(2, 'a c')).toEqual(['a/x', 'b'])
    expect(await list(9, '\u{10400}')).toEqual([])
  })

  test('a change of files is whole, and marks the use', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    await put(buildFile('a'), buildFile('b'))
    const next = buildFile('a', { size_bytes: 7 })
    await change({ put: [next], removed: ['b', 'missing'] })
    expect(await containers.listFiles({ container_id: next.container_id, limit: 9 })).toEqual([
      next,
    ])
    expect((await containers.find(WORKSPACE, 'sess_1'))?.last_used_at).toBe(LATER)
  })

  test('the homes of a workspace never exceed the quota', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    await containers.insert(buildContainer(2))
    const other = { container_id: buildContainer(2).id, size_bytes: BLOCK + 1 }
    await containers.changeFiles(
      {
        container_id: other.container_id,
        put: [buildFile('x', other)],
        removed: [],
        last_used_at: LATER,
      },
      QUOTA,
    )
    await put(buildFile('a', { size_bytes: 2 * BLOCK }))
    expect(await readErrorType(put(buildFile('b', { size_bytes: 0 })))).toBe('permission_denied')
    await put(buildFile('a', { size_bytes: BLOCK }), buildFile('b', { size_bytes: 1 }))
    const few = { ...QUOTA, files: 2 }
    const third = { container_id: buildContainer(1).id, put: [buildFile('b')], removed: [] }
    const tooMany = containers.changeFiles({ ...third, last_used_at: LATER }, few)
    expect(await readErrorType(tooMany)).toBe('permission_denied')
    await change({ removed: ['a'] })
    expect(
      (await containers.listUsable(WORKSPACE)).map(({ files, bytes }) => [files, bytes]),
    ).toEqual([
      [1, 1],
      [1, BLOCK + 1],
    ])
  })

  test('a file has its blob in one workspace, and remembers its copy until it changes', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    const file = buildFile('a')
    await put(file)
    expect(await containers.hasBlob(WORKSPACE, file.blob)).toBe(true)
    expect(await containers.hasBlob('none', file.blob)).toBe(false)
    await store().files.insert(buildCopy(1), FILE_QUOTA, buildAuditEntry(), file)
    expect(await containers.findFile(file.container_id, 'a')).toEqual({
      ...file,
      promoted_id: buildCopy(1).id,
    })
    const next = buildFile('a', { size_bytes: 1 })
    await put(next)
    await store().files.insert(buildCopy(2), FILE_QUOTA, buildAuditEntry(), file)
    expect(await containers.findFile(file.container_id, 'a')).toEqual(next)
    expect(await containers.hasBlob(WORKSPACE, file.blob)).toBe(false)
  })

  test('an ended container has no files, and keeps its name or gives it back', async () => {
    const { containers } = store()
    await containers.insert(buildContainer(1))
    await containers.insert(buildContainer(2, { name: 'mine' }))
    await put(buildFile('a'))
    await containers.end(buildContainer(1).id, LATER, buildAuditEntry())
    await containers.end(buildContainer(2).id, null, null)
    expect(await containers.find(WORKSPACE, 'sess_1')).toMatchObject({ ended_at: LATER })
    expect(await containers.find(WORKSPACE, 'mine')).toBeUndefined()
    expect(await containers.listFiles({ container_id: buildContainer(1).id, limit: 9 })).toEqual([])
    expect(await containers.listUsable()).toEqual([])
    for (const id of [buildContainer(1).id, buildContainer(2).id])
      expect(await readRefusal(containers.end(id, LATER, null))).toBe('404 Container not found')
    expect(await readRefusal(put(buildFile('b')))).toBe('404 Container not found')
  })

  test('the newest successor of a container that can be used is found', async () => {
    const { containers } = store()
    const successors = ['sess_1-r00000a', 'sess_1-r00000b']
    // Sessions of their own: `1-retried`, `1-r00000cc`, `10-r00000a`.
    const others = ['sess_1-retried', 'sess_1-r00000cc', 'sess_1-rABCDEF', 'sess_10-r00000a']
    for (const [number, name] of ['sess_1', ...successors, ...others].entries())
      await containers.insert(buildContainer(number, { name }))
    const find = async () => (await containers.findSuccessor(WORKSPACE, 'sess_1'))?.name
    expect(await find()).toBe('sess_1-r00000b')
    await containers.end(buildContainer(2).id, LATER, null)
    expect(await find()).toBe('sess_1-r00000a')
    await containers.end(buildContainer(1).id, LATER, null)
    expect(await find()).toBeUndefined()
    expect(await containers.findSuccessor('none', 'sess_1')).toBeUndefined()
  })
}
