import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineFiles, examineHomes, examineSandboxes } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { openContainer, runCommands } from '../../src/network/containers/commands.ts'
import {
  buildFileId,
  isContainerName,
  nameCallContainer,
  nameSessionContainer,
  readFileId,
} from '../../src/network/containers/names.ts'
import {
  getContainerFile,
  killContainer,
  listContainerFiles,
  listContainers,
  promoteContainerFile,
  pruneContainers,
  readContainerFile,
  sweepBlobs,
} from '../../src/network/containers.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { deleteFile, listFiles, readFile, storeFile } from '../../src/resources/files.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { waitUntil } from '../support/chat.ts'
import { makeHome } from '../support/containers.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { FakeSandbox } from '../support/sandboxes/fake.ts'
import { openSlowStore } from '../support/slow-store.ts'

let gateway: Gateway
let sandbox: FakeSandbox
let clock: TestClock
let operator: Actor

const open = async (settings: object = {}) => {
  await gateway?.close()
  sandbox = new FakeSandbox()
  clock = new TestClock()
  gateway = await testGateway({
    ...{ clock, sandboxes: [sandbox] },
    config: { sandbox: { kind: 'just-bash', ...settings } },
  })
  operator = getOperator(gateway)
}
beforeEach(() => open())
afterEach(() => gateway.close())

const run = (name: string, commands: string[], more: object = {}) =>
  runCommands(gateway, {
    ...{ workspace_id: operator.workspace_id, holder: 'k', name, file_ids: [], commands },
    ...{
      hosts: [] as string[],
      timeoutMs: 1_000,
      maxOutput: 100,
      cancellation: new Cancellation(),
    },
    ...more,
  })

/** Returns the status and the words of what fails. */
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    thrown => [thrown.status, thrown.message],
  )

const listPaths = async (name: string) =>
  (await listContainerFiles(gateway, operator, name)).data.map(({ path }) => path)

const readText = async (name: string, path: string) =>
  new Response((await readContainerFile(gateway, operator, name, buildFileId(path))).bytes).text()

const countBlobs = async () => (await Array.fromAsync(gateway.blobs.list())).length

async function* pieces(text: string): AsyncIterable<Uint8Array> {
  yield Buffer.from(text)
}

describe('names', () => {
  test.each([
    ['abc', 'sess_abc'],
    ['A-b_9', 'sess_A-b_9'],
    ['x'.repeat(30), `sess_${'x'.repeat(20)}`],
    [`${'a'.repeat(5)}${'b'.repeat(20)}`, `sess_${'b'.repeat(20)}`],
    ['with space', null],
    ['../x', null],
    ['ü', null],
    ['a\n', null],
    ['', null],
    [null, null],
  ])('the container of the session %j is %j', (session, name) => {
    expect(nameSessionContainer(session)).toBe(name)
  })

  test('a call has a container of its own', () => {
    expect(nameCallContainer('gen-1')).toMatch(/^gen_[0-9a-f]{20}$/)
    expect(nameCallContainer('gen-1')).not.toBe(nameCallContainer('gen-2'))
    expect(isContainerName(nameCallContainer('gen-1'))).toBe(true)
  })

  test.each([
    ['out/report.csv', 'cfile_b3V0L3JlcG9ydC5jc3Y'],
    ['ü\n𝄞', buildFileId('ü\n𝄞')],
  ])('the file %j has one id', (path, id) => {
    expect([buildFileId(path), readFileId(id)]).toEqual([id, path])
  })

  test.each([
    ...['cfile_', 'cfile_b3V0L3JlcG9ydC5jc3Y=', 'cfile_b3V0L3JlcG9ydC5jc3Z', 'b3V0', 'cfile_!!'],
    ...['cfile_/w', 'cfile__w', 'or_file_b3V0', 'cfile_b3V0 ', 'CFILE_b3V0'],
  ])('%j is the id of no file', id => {
    expect(readFileId(id)).toBeUndefined()
  })
})

describe('a home', () => {
  test('shows a name that turns the direction of its letters escaped', async () => {
    await run('mine', ['write photo\u202egnp.exe x'])
    expect(await listPaths('mine')).toEqual(['photo\\u202egnp.exe'])
  })

  test('is on record after each command, and there again in another sandbox', async () => {
    const { container, files } = await run('mine', ['write a.txt one', 'write d/b.txt two'])
    expect([container.name, files.map(({ path }) => path)]).toEqual(['mine', ['a.txt', 'd/b.txt']])
    expect(await listPaths('mine')).toEqual(['a.txt', 'd/b.txt'])
    await gateway.warm.end(container.id)
    expect(sandbox.open_boxes).toEqual([])
    const { results } = await run('mine', ['read d/b.txt', 'remove a.txt', 'write d/b.txt three'])
    expect(results[0]?.stdout).toBe('two')
    expect(await listPaths('mine')).toEqual(['d/b.txt'])
    expect(await readText('mine', 'd/b.txt')).toBe('three')
    expect(await countBlobs()).toBe(1)
  })

  test('reports only what has changed', async () => {
    await run('mine', ['write a one', 'write b two'])
    expect((await run('mine', ['write b three', 'read a'])).files.map(({ path }) => path)).toEqual([
      'b',
    ])
    expect((await run('mine', ['read a'])).files).toEqual([])
  })

  test('with more files than are changed at once is whole', async () => {
    const names = Array.from({ length: 150 }, (_, i) => `f${String(i).padStart(3, '0')}`)
    for (const name of names) await run('mine', [`write ${name} ${name}`])
    const { container } = await run('mine', names.map(name => `write ${name} again`).slice(0, 1))
    await gateway.warm.end(container.id)
    for (const [i, name] of names.entries())
      if (i % 40 === 0) expect((await run('mine', [`read ${name}`])).results).toHaveLength(1)
    expect(
      (await listContainerFiles(gateway, operator, 'mine', { limit: 1000 })).data,
    ).toHaveLength(150)
    await killContainer(gateway, operator, 'mine')
    expect(await countBlobs()).toBe(0)
  })

  test('that changes while it is read is read again, and not forever', async () => {
    sandbox.shrinks = 2
    await run('mine', ['write a one'])
    expect(await readText('mine', 'a')).toBe('one')
    sandbox.shrinks = 1_000
    expect(await failureOf(run('mine', ['write a two']))).toEqual([
      undefined,
      'A file has shrunk while it was read',
    ])
    expect([await readText('mine', 'a'), await countBlobs(), sandbox.open_boxes]).toEqual([
      'one',
      1,
      [],
    ])
    sandbox.shrinks = 0
    expect((await run('mine', ['read a'])).results[0]?.stdout).toBe('one')
  })

  test('whose bytes are missing goes on without them', async () => {
    const container = await makeHome(gateway, operator.workspace_id, 'mine', { a: 'one', b: 'two' })
    const file = await gateway.store.containers.findFile(container.id, 'a')
    await gateway.blobs.remove(
      { workspace_id: operator.workspace_id, name: file?.blob ?? '' },
      async () => undefined,
    )
    expect((await run('mine', ['read b'])).results[0]?.stdout).toBe('two')
    expect(await listPaths('mine')).toEqual(['b'])
  })

  test('never takes more than the quota of its workspace', async () => {
    await open({ quota_mib: 1 })
    await run('one', [`large a ${700_000}`])
    expect(await failureOf(run('two', [`large b ${700_000}`]))).toEqual([
      403,
      expect.stringContaining('sandbox.quota_mib allows 1'),
    ])
    expect([await listPaths('two'), await countBlobs()]).toEqual([[], 1])
    const both = [run('one', ['remove a']), run('two', [`large b ${300_000}`])]
    await Promise.all(both)
    expect(await listPaths('two')).toEqual(['b'])
  })

  test('never has more files than the quota of its workspace', async () => {
    await open({ quota_files: 2 })
    await run('one', ['write a 1', 'write b 2'])
    expect(await failureOf(run('two', ['write c 3']))).toEqual([
      403,
      expect.stringContaining('sandbox.quota_files allows 2'),
    ])
    expect(await countBlobs()).toBe(2)
  })

  test('keeps the first files of one that seems larger than it is', async () => {
    await open({ home_mib: 1 })
    const { left } = await run('mine', [`large a ${900_000}`, `large b ${900_000}`, 'write c x'])
    expect([await listPaths('mine'), left]).toEqual([['a', 'c'], 1])
  })
})

describe('files of the workspace', () => {
  const store = (text: string, filename = 'in/data.txt') =>
    storeFile(gateway, operator, { filename }, pieces(text))

  test('are copied in once, under the end of their id', async () => {
    const file = await store('hello')
    const copy = `${file.id.slice(-8)}-data.txt`
    const { results } = await run('mine', [`read ${copy}`, `write ${copy} changed`], {
      file_ids: [file.id],
    })
    expect(results[0]?.stdout).toBe('hello')
    const again = await run('mine', [`read ${copy}`], { file_ids: [file.id] })
    expect(again.results[0]?.stdout).toBe('changed')
  })

  test('that do not exist there are refused before any command', async () => {
    const { data: team } = await createWorkspace(gateway, operator, { name: 'T', slug: 't' })
    const other = await storeFile(
      gateway,
      operator,
      { filename: 'a.txt', workspace_id: team.id },
      pieces('x'),
    )
    const over = await storeFile(
      gateway,
      operator,
      { filename: 'a.txt', expires_after: 0 },
      pieces('x'),
    )
    for (const file_ids of [['or_file_none'], [other.id], [over.id]])
      expect(await failureOf(run('mine', ['write a x'], { file_ids }))).toEqual([
        400,
        'file_ids.0: expected a file of this workspace',
      ])
    expect(sandbox.boxes).toEqual([])
  })
})

describe('containers that run', () => {
  test('do one thing after the other', async () => {
    const cancellation = new Cancellation()
    const first = run('mine', ['hang'], { cancellation })
    while (sandbox.boxes.length === 0) await Bun.sleep(0)
    await sandbox.boxes[0]?.hung.promise
    const second = run('mine', ['write a x'])
    const third = new Cancellation()
    const waiting = run('mine', ['write b x'], { cancellation: third })
    third.cancel(new GatewayError('unmapped', 'The client left'))
    expect(await failureOf(waiting)).toEqual([500, 'The client left'])
    expect(sandbox.boxes[0]?.commands.map(({ text }) => text)).toEqual(['hang'])
    cancellation.cancel(new GatewayError('unmapped', 'Enough'))
    expect(await failureOf(first)).toEqual([500, 'Enough'])
    await second
    expect(await listPaths('mine')).toEqual(['a'])
    // What was cancelled has ended its sandbox, and the next had another.
    expect(sandbox.boxes.map(({ isGone }) => isGone)).toEqual([true, false])
  })

  test('are no more than the config allows; the one unused for longest makes place', async () => {
    await open({ running: 2 })
    await run('one', ['write a 1'])
    await run('two', ['write a 2'])
    await run('three', ['write a 3'])
    expect(sandbox.boxes.map(({ isGone }) => isGone)).toEqual([true, false, false])
    const cancellations = [new Cancellation(), new Cancellation()]
    const busy = ['two', 'three'].map((name, i) =>
      run(name, ['hang'], { cancellation: cancellations[i], holder: name }),
    )
    await Promise.all(sandbox.open_boxes.map(({ hung }) => hung.promise))
    gateway.warm.longestWait = 0
    expect(await failureOf(run('four', ['write a 4']))).toEqual([
      503,
      '2 containers run already: sandbox.running allows no more',
    ])
    for (const one of cancellations) one.cancel(new GatewayError('unmapped', 'Enough'))
    await Promise.allSettled(busy)
    expect((await run('one', ['read a'])).results[0]?.stdout).toBe('1')
  })

  test('that begin at once take no place twice', async () => {
    await open({ running: 1 })
    await run('one', ['write a 1'])
    const both = await Promise.all([
      failureOf(run('two', ['write a 2'])),
      failureOf(run('three', ['write a 3'])),
    ])
    // The second waits for the first.
    expect([...both, gateway.warm.size]).toEqual([undefined, undefined, 1])
    expect(sandbox.open_boxes).toHaveLength(1)
  })

  test('of one key leave places to another, and its next waits', async () => {
    await open({ running: 4 })
    const cancellations = Array.from({ length: 4 }, () => new Cancellation())
    const hang = (i: number, holder: string) =>
      run(`${holder}-${i}`, ['hang'], { cancellation: cancellations[i], holder })
    const busy = [hang(0, 'greedy'), hang(1, 'greedy'), hang(2, 'greedy')]
    await waitUntil(
      () => sandbox.open_boxes.filter(({ commands }) => commands.length > 0).length === 3,
    )
    // A fourth of its own would leave nothing to anyone.
    const next = run('greedy-next', ['write a 1'], { holder: 'greedy' })
    expect((await run('modest', ['write a 1'], { holder: 'modest' })).results).toHaveLength(1)
    expect(gateway.warm.size).toBe(4)
    cancellations[0]?.cancel(new GatewayError('unmapped', 'Enough'))
    expect((await next).results).toHaveLength(1)
    for (const one of cancellations) one.cancel(new GatewayError('unmapped', 'Enough'))
    await Promise.allSettled(busy)
  })

  test('are waited for no longer by a client who leaves', async () => {
    await open({ running: 1 })
    const [first, second] = [new Cancellation(), new Cancellation()]
    const busy = failureOf(run('one', ['hang'], { cancellation: first }))
    const waiting = failureOf(run('two', ['write a 1'], { cancellation: second }))
    second.cancel(new GatewayError('unmapped', 'The client left'))
    expect(await waiting).toEqual([500, 'The client left'])
    first.cancel(new GatewayError('unmapped', 'Enough'))
    expect(await busy).toEqual([500, 'Enough'])
  })

  test('that are ended while they open leave nothing that runs', async () => {
    const opening = sandbox.open
    sandbox.open = async limits => {
      await Promise.all(gateway.warm.listIds().map(id => gateway.warm.end(id)))
      return opening.call(sandbox, limits)
    }
    await run('mine', ['write a x'])
    expect([sandbox.open_boxes, gateway.warm.size]).toEqual([[], 0])
  })

  test('get the limits of the config, and commands theirs', async () => {
    await open({ home_mib: 5, memory_mib: 100, processes: 7, cpus: 2 })
    await run('mine', ['write a x'], { timeoutMs: 123, maxOutput: 45 })
    expect(sandbox.boxes[0]?.limits).toEqual({
      ...{ homeBytes: 5 * 1024 * 1024, memoryBytes: 100 * 1024 * 1024, processes: 7, cpus: 2 },
    })
    expect(sandbox.boxes[0]?.commands[0]).toMatchObject({ timeoutMs: 123, maxOutput: 45 })
  })

  test('begin with a sandbox that is ready, unless they have a network', async () => {
    await open({ ready: 1 })
    gateway.network = { open: async () => ({ socket: '/run/1', close: async () => undefined }) }
    const { pool } = gateway.warm
    pool.fill(gateway)
    await pool.settle()
    const [ready] = sandbox.boxes
    await run('net', ['write a x'], { hosts: ['a.example'] })
    expect([ready?.commands, pool.size]).toEqual([[], 1])
    await run('mine', ['write a one'])
    expect(ready?.commands.map(({ text }) => text)).toEqual(['write a one'])
    await gateway.warm.end(gateway.warm.listIds()[1] ?? '')
    await pool.settle()
    // What is on record is in the home of the next.
    expect((await run('mine', ['read a'])).results[0]?.stdout).toBe('one')
    await gateway.close()
    expect(sandbox.open_boxes).toEqual([])
    await open()
  })

  test('end with the gateway', async () => {
    const running = failureOf(run('mine', ['hang']))
    while (sandbox.boxes.length === 0) await Bun.sleep(0)
    await sandbox.boxes[0]?.hung.promise
    await gateway.close()
    expect(await running).toEqual([undefined, 'The container has ended'])
    expect(sandbox.open_boxes).toEqual([])
    await open()
  })

  test('that another process has ended are ended here, too', async () => {
    const { container } = await run('mine', ['write a x'])
    await gateway.store.containers.end(container.id, null, null)
    await gateway.warm.endGone(gateway)
    expect([sandbox.open_boxes, gateway.warm.size]).toEqual([[], 0])
  })

  test('that were ended while a command ran keep nothing of it', async () => {
    const { container } = await run('mine', ['write a x'])
    const first = sandbox.boxes[0]
    const list = first?.list
    if (first && list)
      first.list = async () => {
        first.list = list
        await gateway.store.containers.end(container.id, null, null)
        return list()
      }
    expect(await failureOf(run('mine', ['write b y']))).toEqual([404, 'Container not found'])
    expect(await failureOf(listPaths('mine'))).toEqual([404, 'Container not found'])
  })
})

describe('a session', () => {
  test('whose container was ended gets another, with a suffix', async () => {
    await run('sess_a', ['write a x'])
    await killContainer(gateway, operator, 'sess_a')
    const { container } = await run('sess_a', ['write b y'])
    expect(container.name).toMatch(/^sess_a-r[0-9a-f]{6}$/)
    expect(await listPaths(container.name)).toEqual(['b'])
    expect((await run('sess_a', ['read b'])).results[0]?.stdout).toBe('y')
    expect(await failureOf(listPaths('sess_a'))).toEqual([404, 'Container not found'])
  })

  test('has its files for 30 days after their last use', async () => {
    const day = 24 * 3600 * 1000
    await run('sess_a', ['write a x'])
    clock.pass(30 * day - 1)
    expect(await listPaths('sess_a')).toEqual(['a'])
    await run('sess_a', ['read a'])
    clock.pass(30 * day)
    expect(await failureOf(listPaths('sess_a'))).toEqual([404, 'Container not found'])
    const { container } = await run('sess_a', ['read a'])
    expect([container.name.slice(0, 8), await countBlobs()]).toEqual(['sess_a-r', 0])
  })

  test('whose name goes on like another’s never gets the files of that', async () => {
    await run('sess_job', ['write a x'])
    await run('sess_job-retry', ['write theirs y'])
    await killContainer(gateway, operator, 'sess_job')
    const { container } = await run('sess_job', ['write b z'])
    expect(container.name).toMatch(/^sess_job-r[0-9a-f]{6}$/)
    expect(await listPaths(container.name)).toEqual(['b'])
  })

  test('that begins twice at once has one container', async () => {
    const opened = await Promise.all(
      Array.from({ length: 5 }, () => openContainer(gateway, operator.workspace_id, 'sess_b')),
    )
    expect(new Set(opened.map(({ id }) => id)).size).toBe(1)
  })
})

describe('a list', () => {
  test('has the form of the public API, in pages by path', async () => {
    await makeHome(gateway, operator.workspace_id, 'mine', { b: 'bb', 'a/x': 'x', c: '' })
    const first = await listContainerFiles(gateway, operator, 'mine', { limit: 2 })
    expect(first).toMatchObject({
      ...{ object: 'list', has_more: true },
      ...{ first_id: buildFileId('a/x'), last_id: buildFileId('b') },
    })
    expect(first.data[1]).toEqual({
      ...{ id: buildFileId('b'), object: 'container.file', container_id: 'mine' },
      ...{ created_at: 1772600767, bytes: 2, path: 'b', source: 'assistant' },
    })
    const query = { limit: 2, after: first.last_id ?? '' }
    expect(await listContainerFiles(gateway, operator, 'mine', query)).toMatchObject({
      ...{ data: [{ path: 'c' }], has_more: false },
    })
    // A place between two files is as good as one of them.
    const between = { after: buildFileId('a/y') }
    expect((await listContainerFiles(gateway, operator, 'mine', between)).data).toHaveLength(2)
  })

  test.each(['../../etc/passwd', '/etc/passwd', 'a/../b', '.', 'a\0b', 'a/', ''])(
    'X-37 the path %j is that of no file',
    async path => {
      await makeHome(gateway, operator.workspace_id, 'mine', { a: 'x', b: 'y' })
      const get = getContainerFile(gateway, operator, 'mine', buildFileId(path))
      expect(await failureOf(get)).toEqual([404, 'File not found'])
    },
  )
})

describe('promotion', () => {
  const promote = (path: string, name = 'mine') =>
    promoteContainerFile(gateway, operator, name, buildFileId(path)) as Promise<{
      id: string
      filename: string
      mime_type: string
      downloadable: boolean
    }>

  test('copies bytes, whatever they are, under their path', async () => {
    const binary = new Uint8Array([0, 1, 2, 255])
    await makeHome(gateway, operator.workspace_id, 'mine', {
      'out/x.bin': binary,
      'a.csv': 'a,b\n1,2\n',
    })
    const made = await promote('out/x.bin')
    expect(made).toMatchObject({
      ...{ filename: 'out/x.bin', mime_type: 'application/octet-stream', downloadable: true },
    })
    const { bytes } = await readFile(gateway, operator, made.id)
    expect(new Uint8Array(await new Response(bytes).arrayBuffer())).toEqual(binary)
    expect((await promote('a.csv')).mime_type).toBe('text/csv')
    await killContainer(gateway, operator, 'mine')
    expect(await countBlobs()).toBe(2)
  })

  test('is made once, until the file or the copy changes', async () => {
    await run('mine', ['write a one'])
    const [first, ...others] = await Promise.all([promote('a'), promote('a'), promote('a')])
    expect(others).toEqual([first, first])
    expect((await promote('a')).id).toBe(first.id)
    await run('mine', ['write a two'])
    const second = await promote('a')
    expect(second.id).not.toBe(first.id)
    await deleteFile(gateway, operator, second.id)
    expect((await promote('a')).id).not.toBe(second.id)
    expect((await listFiles(gateway, operator, {})).data).toHaveLength(2)
  })

  test('needs a name that a file may have', async () => {
    await makeHome(gateway, operator.workspace_id, 'mine', {
      'new\nline': 'x',
      'a:b': 'x',
    })
    expect((await failureOf(promote('new\nline')))?.[0]).toBe(400)
    expect((await failureOf(promote('a:b')))?.[0]).toBe(400)
    expect(await failureOf(promote('none'))).toEqual([404, 'File not found'])
    expect((await listFiles(gateway, operator, {})).data).toEqual([])
  })

  test('keeps a file that is empty', async () => {
    await makeHome(gateway, operator.workspace_id, 'mine', { 'src/__init__.py': '' })
    const { id, ...file } = await promote('src/__init__.py')
    expect(file).toMatchObject({ size_bytes: 0, mime_type: 'text/plain', downloadable: true })
    const { bytes } = await readFile(gateway, operator, id, {})
    expect(await new Response(bytes).text()).toBe('')
  })

  test('refuses what is larger than a file may be, and what exceeds the quota', async () => {
    const container = await makeHome(gateway, operator.workspace_id, 'mine', { a: 'x' })
    const large = { ...{ size_bytes: 104_857_601, path: 'large', blob: 'b'.repeat(32) } }
    const file = await gateway.store.containers.findFile(container.id, 'a')
    if (!file) throw new Error('There is no file')
    await gateway.store.containers.changeFiles(
      {
        container_id: container.id,
        put: [{ ...file, ...large }],
        removed: [],
        last_used_at: file.created_at,
      },
      { workspace_id: operator.workspace_id, bytes: 1e12, files: 9 },
    )
    expect((await failureOf(promote('large')))?.[0]).toBe(413)
    gateway.config = { ...gateway.config, files: { ...gateway.config.files, quota_mib: 0 } }
    expect((await failureOf(promote('a')))?.[0]).toBe(403)
    expect((await listFiles(gateway, operator, {})).data).toEqual([])
  })

  /** Calls something when a step of a promotion is reached, once. */
  const interrupt = (step: string, work: () => Promise<unknown>) => {
    const { blobs } = gateway
    const { files } = gateway.store
    let isDone = false
    const reach = async (name: string) => {
      if (name !== step || isDone) return
      isDone = true
      await work()
    }
    gateway.blobs = {
      ...blobs,
      async read(place, range) {
        await reach('before its bytes are read')
        const bytes = await blobs.read(place, range)
        await reach('before its first byte')
        return bytes
      },
      async create(place) {
        const draft = await blobs.create(place)
        const write = draft.write.bind(draft)
        draft.write = async bytes => {
          await write(bytes)
          await reach('in the middle of its bytes')
        }
        return draft
      },
    }
    const insert = files.insert.bind(files)
    files.insert = async (...row) => {
      await reach('before its record')
      await insert(...row)
      await reach('after its record')
    }
  }

  const WRITES: [string, string][] = [
    'before its bytes are read',
    'before its first byte',
    'in the middle of its bytes',
    'before its record',
    'after its record',
  ].flatMap(step => [
    [step, `write a ${'new'.repeat(200_000)}`],
    [step, 'remove a'],
  ])
  test.each(WRITES)(
    'beside a command that writes the file %s is whole or a 409 (%#)',
    async (step, command) => {
      await gateway.close()
      const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
      sandbox = new FakeSandbox()
      gateway = await testGateway({
        data,
        sandboxes: [sandbox],
        config: { sandbox: { kind: 'just-bash' } },
      })
      operator = getOperator(gateway)
      const old = 'old'.repeat(200_000)
      await run('mine', [`write a ${old}`])
      interrupt(step, () => run('mine', [command]))
      const outcome = await promote('a').catch(thrown => thrown)
      const listed = (await listFiles(gateway, operator, {})).data as { id: string }[]
      if (outcome instanceof GatewayError) {
        expect([outcome.status, outcome.message, listed]).toEqual([
          409,
          'The file has just changed',
          [],
        ])
      } else {
        expect(listed.map(({ id }) => id)).toEqual([outcome.id])
        const { bytes } = await readFile(gateway, operator, outcome.id)
        expect((await new Response(bytes).text()) === old).toBe(true)
      }
      const present = command === 'remove a' ? [] : ['a']
      expect(await listPaths('mine')).toEqual(present)
      expect(await countBlobs()).toBe(listed.length + present.length)
      if (present.length > 0) {
        // What was promoted is the old file, so that the new one is another.
        const again = await promote('a')
        expect(again.id).not.toBe(outcome.id)
        const { bytes } = await readFile(gateway, operator, again.id)
        expect((await new Response(bytes).text()) === command.slice(8)).toBe(true)
      }
      expect(await examineFiles(gateway)).toMatchObject({ ok: true })
      expect(await examineHomes(gateway)).toMatchObject({ ok: true })
      rmSync(data, { recursive: true, force: true })
    },
  )

  test('says so where the file has just changed, and where its bytes are lost', async () => {
    const container = await makeHome(gateway, operator.workspace_id, 'mine', { a: 'x' })
    const file = await gateway.store.containers.findFile(container.id, 'a')
    await gateway.blobs.remove(
      { workspace_id: operator.workspace_id, name: file?.blob ?? '' },
      async () => undefined,
    )
    const lost = 'a is damaged, and has to be stored again: its bytes are missing'
    expect(await failureOf(promote('a'))).toEqual([404, lost])
    const { findFile } = gateway.store.containers
    let finds = 0
    gateway.store.containers.findFile = async (...at) => {
      const found = await findFile(...at)
      return found && ++finds > 1 ? { ...found, blob: 'another' } : found
    }
    expect(await failureOf(promote('a'))).toEqual([409, 'The file has just changed'])
    gateway.store.containers.findFile = findFile
  })
})

describe('operators', () => {
  test('list, end and prune containers', async () => {
    await run('one', ['write a x'])
    clock.pass(3 * 24 * 3600 * 1000)
    await makeHome(gateway, operator.workspace_id, 'two', { b: 'yy' })
    expect((await listContainers(gateway, operator)).data).toMatchObject([
      { container_id: 'one', files: 1, bytes: 1 },
      { container_id: 'two', files: 1, bytes: 2 },
    ])
    expect(await pruneContainers(gateway, operator)).toEqual({ deleted: 0, bytes: 0 })
    expect(await pruneContainers(gateway, operator, { unused_days: 2 })).toEqual({
      ...{ deleted: 1, bytes: 1 },
    })
    expect(sandbox.open_boxes).toEqual([])
    expect(await killContainer(gateway, operator, 'two')).toMatchObject({ deleted: true })
    expect(await failureOf(killContainer(gateway, operator, 'two'))).toEqual([
      404,
      'Container not found',
    ])
    expect([(await listContainers(gateway, operator)).data, await countBlobs()]).toEqual([[], 0])
  })

  test('prune none that is used while others are ended', async () => {
    for (const name of ['one', 'two']) await run(name, ['write a x'])
    clock.pass(3 * 24 * 3600 * 1000)
    const { containers } = gateway.store
    const end = containers.end.bind(containers)
    containers.end = async (...ended) => {
      await end(...ended)
      await run('two', ['write b y'])
    }
    const pruned = await pruneContainers(gateway, operator, { unused_days: 2 })
    expect(pruned).toEqual({ deleted: 1, bytes: 1 })
    expect(await listPaths('two')).toEqual(['a', 'b'])
  })

  test('are told what a sandbox lacks, and what it holds only in part', async () => {
    expect(await examineSandboxes(gateway)).toEqual({
      ...{ check: 'sandbox', ok: true, found: 'just-bash is enabled: just-bash holds' },
    })
    sandbox.missing = 'without control groups: it shares one'
    expect(await examineSandboxes(gateway)).toMatchObject({
      ...{ ok: true },
      found: 'just-bash is enabled: just-bash holds, without control groups: it shares one',
    })
    sandbox.obstacle = 'it needs Linux'
    expect((await examineSandboxes(gateway)).ok).toBe(false)
  })

  test('delete a workspace with its containers', async () => {
    const { data: team } = await createWorkspace(gateway, operator, { name: 'T', slug: 't' })
    await makeHome(gateway, team.id, 'mine', { a: 'x' })
    await deleteWorkspace(gateway, operator, team.id, {})
    expect((await listContainers(gateway, operator)).data).toEqual([])
  })

  test('find nothing of a home among what killed processes have left', async () => {
    await makeHome(gateway, operator.workspace_id, 'mine', { a: 'x' })
    expect([await sweepBlobs(gateway), await readText('mine', 'a')]).toEqual([0, 'x'])
  })
})

test('commands are kept in their order, also in a slow store', async () => {
  await gateway.close()
  sandbox = new FakeSandbox()
  gateway = await testGateway({
    ...{ ...(await openSlowStore()), sandboxes: [sandbox] },
    config: { sandbox: { kind: 'just-bash' } },
  })
  operator = getOperator(gateway)
  await run('mine', ['write a one', 'write a two'])
  expect([await listPaths('mine'), await readText('mine', 'a')]).toEqual([['a'], 'two'])
})

describe('a network', () => {
  const opened: { hosts: string[]; isClosed: boolean }[] = []
  beforeEach(() => {
    opened.length = 0
    gateway.network = {
      async open(hosts) {
        const door = { hosts, isClosed: false }
        opened.push(door)
        return {
          socket: `/run/${opened.length}`,
          close: async () => {
            door.isClosed = true
          },
        }
      },
    }
  })

  test('is opened for the hosts of a container, once, and closed with it', async () => {
    const hosts = ['a.example', '*.b.example']
    await run('net', ['read a'], { hosts })
    await run('net', ['read a'], { hosts })
    expect(opened).toEqual([{ hosts, isClosed: false }])
    expect(sandbox.boxes.map(({ network }) => network)).toMatchObject([{ socket: '/run/1' }])
    await killContainer(gateway, operator, 'net')
    await sandbox.boxes[0]?.ended
    await Promise.resolve()
    expect(opened).toMatchObject([{ isClosed: true }])
  })

  test('is that of a container as long as it runs: another is a 409', async () => {
    await run('net', ['read a'], { hosts: ['a.example'] })
    const message = expect.stringContaining('another network_policy')
    for (const hosts of [[], ['b.example'], ['*'], ['a.example', 'b.example']])
      expect(await failureOf(run('net', ['read a'], { hosts }))).toEqual([409, message])
    await gateway.warm.end(gateway.warm.listIds()[0] ?? '')
    await run('net', ['read a'], { hosts: ['b.example'] })
    expect(opened.map(({ hosts }) => hosts)).toEqual([['a.example'], ['b.example']])
  })

  test('is refused by name where the sandbox has none, and is not there without hosts', async () => {
    sandbox.networkObstacle = 'just-bash has no network'
    expect(await failureOf(run('net', ['read a'], { hosts: ['*'] }))).toEqual([
      409,
      'network_policy: expected disabled: just-bash has no network',
    ])
    await run('net', ['read a'])
    expect([opened, sandbox.boxes.at(-1)?.network]).toEqual([[], undefined])
  })

  test('is closed where the sandbox does not start', async () => {
    sandbox.open = () => Promise.reject(new Error('no'))
    expect(await failureOf(run('net', ['read a'], { hosts: ['*'] }))).toEqual([
      ...[503, 'The sandbox could not be started'],
    ])
    expect(opened).toMatchObject([{ isClosed: true }])
  })
})
