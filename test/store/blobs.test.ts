import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { openDiskBlobs } from '../../src/store/blobs/disk.ts'
import { createMemoryBlobs } from '../../src/store/blobs/memory.ts'
import { testBlobStore } from '../suites/blob-store.ts'
import { openBucketBlobs } from '../support/bucket.ts'
import { waitUntil } from '../support/chat.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-blobs-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const makeRoom = () => mkdtempSync(join(root, 'data-'))

testBlobStore('blobs on disk', openDiskBlobs)
testBlobStore('blobs in memory', createMemoryBlobs)

test('S-16 blobs are in 256 directories, so that none has them all', async () => {
  const workspace_id = '019aa000-0000-7000-8000-0000000000aa'
  const directory = join(makeRoom(), 'files')
  const blobs = openDiskBlobs(directory)
  for (let i = 0; i < 64; i++) {
    const name = new Bun.CryptoHasher('md5').update(`${i}`).digest('hex')
    const draft = await blobs.create({ workspace_id, name })
    await draft.write(Buffer.from('x'))
    await draft.keep(async () => undefined)
  }
  const shards = readdirSync(join(directory, workspace_id))
  expect(shards.length).toBeGreaterThan(40)
  expect(shards.every(name => /^[0-9a-f]{2}$/.test(name))).toBe(true)
  await blobs.close()
})

let server: S3rver
let endpoint: string
beforeAll(async () => {
  server = new S3rver({
    ...{ address: '127.0.0.1', port: 0, silent: true, directory: makeRoom() },
    configureBuckets: [{ name: 'files', configs: [] }],
  })
  endpoint = `http://127.0.0.1:${(await server.run()).port}`
})
afterAll(() => server.close())

let prefixes = 0
const openBucketRoom = (directory = join(makeRoom(), 'files'), prefix = `p${++prefixes}/blobs/`) =>
  openBucketBlobs({ endpoint, directory, prefix })
testBlobStore('blobs on S3', openBucketRoom)
testBlobStore('blobs on S3, elsewhere', directory => openBucketRoom(directory, `q${++prefixes}`))

const WORKSPACE = '019aa000-0000-7000-8000-0000000000aa'
const place = (name: string) => ({ workspace_id: WORKSPACE, name })
/** A number that no process has: the kernel's largest is smaller. */
const NOBODY = '2147483647'
/** The descriptors of this process, where the system lists them. */
const FDS = '/proc/self/fd'

/** Lists every file below a directory. */
const listFiles = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))

describe('the disk', () => {
  test('has each blob for its owner alone, under ids only, and no notes afterwards', async () => {
    const directory = join(makeRoom(), 'files')
    const store = openDiskBlobs(directory)
    const draft = await store.create(place('abcd'))
    await draft.write(Buffer.from('x'))
    const [note = '', temp = ''] = listFiles(directory).sort()
    expect([statSync(note).mode & 0o777, statSync(temp).mode & 0o777]).toEqual([0o600, 0o600])
    await draft.keep(async () => undefined)
    const path = join(directory, WORKSPACE, 'cd', 'abcd')
    expect(listFiles(directory)).toEqual([path])
    for (const at of [directory, join(path, '../..'), join(path, '..')])
      expect(statSync(at).mode & 0o777).toBe(0o700)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    await store.close()
    expect(readdirSync(join(directory, 'part'))).toEqual([])
  })

  test('whose directory cannot be made leaves nothing of a blob', async () => {
    const directory = join(makeRoom(), 'files')
    const store = openDiskBlobs(directory)
    mkdirSync(join(directory, WORKSPACE), { recursive: true })
    writeFileSync(join(directory, WORKSPACE, 'cd'), 'in the way')
    const draft = await store.create(place('abcd'))
    await draft.write(Buffer.from('x'))
    let isRecorded = false
    const keeping = draft.keep(async () => {
      isRecorded = true
    })
    await expect(keeping).rejects.toThrow()
    expect([isRecorded, listFiles(directory)]).toEqual([false, [join(directory, WORKSPACE, 'cd')]])
  })

  test.skipIf(!existsSync(FDS))('closes a file whose reader goes at any moment', async () => {
    const directory = join(makeRoom(), 'files')
    const store = openDiskBlobs(directory)
    const draft = await store.create(place('abcd'))
    await draft.write(Buffer.alloc(1024 * 1024))
    await draft.keep(async () => undefined)
    for (let pauses = 0; pauses < 40; pauses++) {
      const reader = (await store.read(place('abcd'))).getReader()
      const read = reader.read().catch(() => undefined)
      if (pauses < 20) for (let i = 0; i < pauses; i++) await Promise.resolve()
      else await Bun.sleep((pauses - 20) / 10)
      await reader.cancel()
      await read
    }
    const listOpen = () =>
      readdirSync(FDS).filter(fd => {
        try {
          return readlinkSync(join(FDS, fd)).startsWith(directory)
        } catch {
          return false
        }
      })
    await waitUntil(() => listOpen().length === 0)
  })

  // What a process leaves that is killed at each step of an upload and of a deletion.
  const steps: [string, { note?: true; temp?: true; blob?: true; record?: true }, boolean][] = [
    ['before its first byte', { note: true }, false],
    ['while its bytes arrive', { note: true, temp: true }, false],
    ['before its record', { note: true, blob: true }, false],
    ['after its record', { note: true, blob: true, record: true }, true],
    [
      'before the record of a deleted one is removed',
      { note: true, blob: true, record: true },
      true,
    ],
    ['after the record of a deleted one is removed', { note: true, blob: true }, false],
    ['never', { blob: true }, true],
  ]
  test.each(steps)(
    'a process killed %s: the sweep keeps what has a record',
    async (_, left, stays) => {
      const directory = join(makeRoom(), 'files')
      const notes = join(directory, 'part', NOBODY)
      const blob = join(directory, WORKSPACE, 'cd', 'abcd')
      mkdirSync(notes, { recursive: true })
      mkdirSync(join(blob, '..'), { recursive: true })
      if (left.note) writeFileSync(join(notes, `${WORKSPACE}.abcd`), '')
      if (left.temp) writeFileSync(join(notes, `${WORKSPACE}.abcd.temp`), 'half')
      if (left.blob) writeFileSync(blob, 'whole')
      const store = openDiskBlobs(directory)
      const swept = await store.sweep(async () => left.record === true)
      expect(swept).toBe(left.note && !left.record ? 1 : 0)
      expect(existsSync(blob)).toBe(stays)
      expect(readdirSync(join(directory, 'part'))).toEqual([])
    },
  )

  test.each([
    ['created', false],
    ['written', false],
    ['renamed', false],
    ['recorded', true],
    ['kept', true],
    ['noted', true],
    ['unrecorded', false],
    ['removed', false],
  ])('a process that is killed when it has %s leaves bytes: %p', async (step, stays) => {
    const room = makeRoom()
    const [directory, record] = [join(room, 'files'), join(room, 'record')]
    const script = join(import.meta.dir, '../support/killed-blobs.ts')
    const child = Bun.spawn([process.execPath, script, step, directory, record], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
    const store = openDiskBlobs(directory)
    await store.sweep(async () => existsSync(record))
    expect([existsSync(record), await store.size(place('abcd'))]).toEqual([
      stays,
      stays ? 5 : undefined,
    ])
    const left = listFiles(directory).map(path => path.slice(directory.length + 1))
    expect(left).toEqual(stays ? [join(WORKSPACE, 'cd', 'abcd')] : [])
  })

  test('the notes of a process that runs are not swept', async () => {
    const directory = join(makeRoom(), 'files')
    const running = join(directory, 'part', String(process.ppid))
    mkdirSync(running, { recursive: true })
    writeFileSync(join(running, `${WORKSPACE}.abcd`), '')
    expect(await openDiskBlobs(directory).sweep(async () => false)).toBe(0)
    expect(readdirSync(running)).toEqual([`${WORKSPACE}.abcd`])
  })

  test('notes with names that no gateway makes delete nothing', async () => {
    const room = makeRoom()
    const directory = join(room, 'files')
    const notes = join(directory, 'part', NOBODY)
    mkdirSync(notes, { recursive: true })
    writeFileSync(join(room, 'secret.key'), 'secret')
    for (const name of ['...', '..secret.key', `${WORKSPACE}.AB`, 'x', `${WORKSPACE}.`])
      writeFileSync(join(notes, name), '')
    expect(await openDiskBlobs(directory).sweep(async () => false)).toBe(0)
    expect(existsSync(join(room, 'secret.key'))).toBe(true)
  })
})

/** Makes files as old as nothing that is still on its way. */
function ageFiles(directory: string): void {
  for (const path of listFiles(directory)) utimesSync(path, 0, 0)
}

describe('a bucket', () => {
  const readKeys = async (prefix: string) => {
    const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' }
    const client = new Bun.S3Client({ ...keys, bucket: 'files', endpoint })
    return ((await client.list({ prefix })).contents ?? []).map(({ key }) => key)
  }

  test('has the paths of a directory, and nothing of a draft', async () => {
    const directory = join(makeRoom(), 'files')
    const store = openBucketBlobs({ endpoint, directory, prefix: 'paths' })
    const draft = await store.create(place('abcd'))
    await draft.write(Buffer.from('x'))
    for (const path of listFiles(directory)) expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(await readKeys('paths')).toEqual([])
    await draft.keep(async () => undefined)
    expect(await readKeys('paths')).toEqual([`paths/${WORKSPACE}/cd/abcd`])
    expect(listFiles(directory)).toEqual([])
  })

  test('shows no objects of others, and removes none', async () => {
    const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER', bucket: 'files', endpoint }
    const client = new Bun.S3Client(keys)
    const others = ['mine/notes.txt', `mine/${WORKSPACE}/xx/abcd`, `mine2/${WORKSPACE}/cd/abcd`]
    for (const key of others) await client.write(key, 'theirs')
    const store = openBucketRoom(undefined, 'mine')
    expect(await Array.fromAsync(store.list())).toEqual([])
    await store.remove(place('abcd'), async () => undefined)
    expect((await readKeys('mine')).sort()).toEqual(others.sort())
  })

  test.each([
    ['created', false],
    ['written', false],
    ['sent', false],
    ['renamed', false],
    ['recorded', true],
    ['kept', true],
    ['noted', true],
    ['unrecorded', false],
    ['removed', false],
  ])('of a process that is killed when it has %s has bytes: %p', async (step, stays) => {
    const room = makeRoom()
    const [directory, record] = [join(room, 'files'), join(room, 'record')]
    const script = join(import.meta.dir, '../support/killed-blobs.ts')
    const child = Bun.spawn([process.execPath, script, step, directory, record, endpoint], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
    const store = openBucketBlobs({ endpoint, directory, prefix: 'killed' })
    expect(existsSync(record)).toBe(stays)
    // What was sent may arrive after the process, and after the first sweep: its note stays for it.
    await waitUntil(async () => {
      await store.sweep(async () => existsSync(record))
      return (await store.size(place('abcd'))) === (stays ? 5 : undefined)
    })
    ageFiles(directory)
    await store.sweep(async () => existsSync(record))
    expect(listFiles(directory)).toEqual([])
    await store.removeWorkspace(WORKSPACE)
  })
})
