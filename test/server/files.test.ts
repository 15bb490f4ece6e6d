import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { Notes } from '../../src/store/blobs/notes.ts'
import { openDatabase } from '../support/database.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildFileForm } from '../support/operations.ts'
import { PDF, PNG } from '../support/typed-files.ts'

const MOST = 104_857_600
const rooms: string[] = []
function makeRoom(): string {
  const room = mkdtempSync(join(tmpdir(), 'gateway-files-'))
  rooms.push(room)
  return room
}
afterAll(() => {
  for (const room of rooms) rmSync(room, { recursive: true, force: true })
})

/** Lists the files below a directory that a gateway has for uploads. */
const listBlobs = (data: string) =>
  existsSync(join(data, 'files'))
    ? readdirSync(join(data, 'files'), { recursive: true, withFileTypes: true }).filter(entry =>
        entry.isFile(),
      )
    : []

/** Opens a gateway over a data directory of its own, and asks its app as its inference key. */
async function openHouse(
  config: Record<string, unknown> = {},
  parts: Parameters<typeof testGateway>[0] = {},
) {
  const data = makeRoom()
  const gateway = await testGateway({ ...parts, data, config })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway, () => '127.0.0.1')
  const ask = async (path: string, init: RequestInit & { key?: string } = {}) => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${init.key ?? keys.inference}`)
    const response = await app.handle(
      new Request(`http://localhost/api/v1${path}`, { ...init, headers }),
    )
    const text = await response.text()
    const type = response.headers.get('content-type') ?? ''
    return {
      status: response.status,
      headers: response.headers,
      body: type.includes('json') ? JSON.parse(text) : text,
    }
  }
  const upload = (
    content: BlobPart = 'Hello',
    name = 'notes.txt',
    init: RequestInit & { key?: string } = {},
    query = '',
  ) => ask(`/files${query}`, { method: 'POST', body: buildFileForm(content, name), ...init })
  return {
    data,
    gateway,
    keys,
    ask,
    upload,
    operator: getOperator(gateway),
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

async function* pieces(size: number, piece = 1024 * 1024) {
  const letters = Buffer.alloc(piece, 'a')
  for (let left = size; left > 0; left -= piece) yield letters.subarray(0, Math.min(left, piece))
}

describe('an upload', () => {
  test('is a record of what its contents are, whatever it is called or declared', async () => {
    await using house = await openHouse()
    const form = new FormData()
    form.set('file', new Blob([PNG], { type: 'text/html' }), 'folder/page.html')
    const { status, body } = await house.ask('/files', { method: 'POST', body: form })
    expect([status, body]).toEqual([
      200,
      {
        _shape: 'openrouter',
        id: expect.stringMatching(/^or_file_[0-9a-f]{32}$/),
        type: 'file',
        filename: 'folder/page.html',
        mime_type: 'image/png',
        size_bytes: PNG.length,
        downloadable: false,
        created_at: '2026-03-04T05:06:07.000Z',
      },
    ])
    expect((await house.ask(`/files/${body.id}`)).body).toEqual(body)
    expect((await house.ask(`/files/${body.id}/content`)).status).toBe(400)
    expect((await house.ask(`/files/${body.id}`, { method: 'DELETE' })).body).toEqual({
      _shape: 'openrouter',
      id: body.id,
      type: 'file_deleted',
    })
    expect((await house.ask(`/files/${body.id}`)).status).toBe(404)
    expect((await house.ask(`/files/${body.id}`, { method: 'DELETE' })).status).toBe(404)
    expect(listBlobs(house.data)).toEqual([])
  })

  test('S-14 of 104,857,600 bytes is taken, and one more byte is 413, counted and by its length', async () => {
    await using house = await openHouse()
    const file = await storeFile(house.gateway, house.operator, { filename: 'a' }, pieces(MOST))
    expect([file.size_bytes, file.mime_type]).toEqual([MOST, 'text/plain'])
    const larger = storeFile(house.gateway, house.operator, { filename: 'a' }, pieces(MOST + 1))
    await expect(larger).rejects.toMatchObject({ status: 413 })
    const start = Buffer.from(
      '--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n',
    )
    async function* form() {
      yield start
      for await (const piece of pieces(MOST + 1)) yield new Uint8Array(piece)
      yield Buffer.from('\r\n--X--\r\n')
    }
    const headers = { 'content-type': 'multipart/form-data; boundary=X' }
    const counted = await house.ask('/files', {
      method: 'POST',
      headers,
      body: form() as never,
    })
    expect(counted.status).toBe(413)
    const told = { ...headers, 'content-length': String(MOST + 1024 * 1024) }
    let asked = 0
    const body = new ReadableStream(
      {
        pull: controller => {
          asked += 1
          controller.enqueue(start)
        },
      },
      { highWaterMark: 0 },
    )
    expect((await house.ask('/files', { method: 'POST', headers: told, body })).status).toBe(413)
    expect(asked).toBe(0)
    expect(listBlobs(house.data)).toHaveLength(1)
  })

  const named = (name: string) => ({ 'content-type': 'multipart/form-data; boundary=X', name })
  const bad: [string, string, number][] = [
    ['an empty file', 'name="file"; filename="a"\r\n\r\n', 400],
    ['a file without a name', 'name="file"\r\n\r\nhello', 400],
    ['another part', 'name="data"; filename="a"\r\n\r\nhello', 400],
    ['a field that has no effect', 'name="expires_after[seconds]"\r\n\r\n3600', 400],
    [
      'a purpose that is unknown',
      'name="file"; filename="a"\r\n\r\nhello\r\n--X\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nx',
      400,
    ],
    ['a purpose without end', `name="purpose"\r\n\r\n${'x'.repeat(1_000)}`, 400],
    [
      'two purposes',
      'name="purpose"\r\n\r\nvision\r\n--X\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nvision',
      400,
    ],
    [
      'two files',
      'name="file"; filename="a"\r\n\r\nhello\r\n--X\r\nContent-Disposition: form-data; name="file"; filename="b"\r\n\r\nhello',
      400,
    ],
    ['a type that is not accepted', 'name="file"; filename="a.pdf"\r\n\r\n\0\x01\x02', 400],
    ['a polluting name', 'name="__proto__"\r\n\r\nhello', 400],
    ['a file whose form ends early', 'name="file"; filename="a"\r\n\r\nhello\r\n--Y', 400],
  ]
  test.each(bad)('with %s is refused, and nothing is left', async (_, part, status) => {
    await using house = await openHouse()
    const body = `--X\r\nContent-Disposition: form-data; ${part}${part.endsWith('--Y') ? '' : '\r\n--X--\r\n'}`
    const answer = await house.ask('/files', { method: 'POST', headers: named('x'), body })
    expect([answer.status, answer.body.error.code]).toEqual([status, status])
    expect(listBlobs(house.data)).toEqual([])
    expect((await house.ask('/files')).body.data).toEqual([])
    expect(({} as Record<string, unknown>).hello).toBeUndefined()
  })

  test('without a form is refused', async () => {
    await using house = await openHouse()
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    expect((await house.ask('/files', init)).status).toBe(400)
    expect((await house.ask('/files', { method: 'POST' })).status).toBe(400)
  })

  const NAMES: [string, number][] = [
    ['a', 200],
    ['ä 日本 𝄞.txt', 200],
    ['a/b/c.txt', 200],
    ['.env', 200],
    ['...', 200],
    ['𝄞'.repeat(255), 200],
    ['%2e%2e%2fetc%2fpasswd', 200],
    ['CON', 200],
    ['a%00b', 200],
    ['𝄞'.repeat(256), 400],
    ['../etc/passwd', 400],
    ['a/../b', 400],
    ['..', 400],
    ['.', 400],
    ['/etc/passwd', 400],
    ['a/', 400],
    ['a//b', 400],
    ['..\\..\\x', 400],
    ['C:x', 400],
    ['a\0b', 400],
    ['a%0D%0Ab', 400],
    ['a%22b', 400],
    ['a\x1b]52;b', 400],
    ['a\u0085b', 400],
    ['a|b', 400],
    ['a?b', 400],
    ['a*b', 400],
    ['<b>', 400],
    ['', 400],
    ['a\u2028b', 400],
  ]
  test.each(NAMES)('X-38 named %p: %i', async (filename, status) => {
    await using house = await openHouse()
    const body = `--X\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n\r\nhi\r\n--X--`
    const quoted = body.replace('..\\..\\x', '..\\\\..\\\\x')
    const answer = await house.ask('/files', { method: 'POST', headers: named('x'), body: quoted })
    // No head of a part has a control character.
    expect(answer.status).toBe(status)
    if (status === 200) expect(answer.body.filename).toBe(filename)
    for (const { name, parentPath } of listBlobs(house.data)) {
      expect(name).toMatch(/^[0-9a-f]{32}$/)
      expect(parentPath).toMatch(/files\/[0-9a-f-]{36}\/[0-9a-f]{2}$/)
    }
  })

  test.each([
    ['\xff', 'a byte that begins nothing'],
    ['a\xc0\xaeb', 'an overlong dot'],
    ['\xed\xa0\x80', 'half of a pair'],
    ['a\xe2\x82', 'a cut character'],
  ])('with a name that is no UTF-8 is refused (%#)', async name => {
    await using house = await openHouse()
    const body = Buffer.from(
      `--X\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\nhi\r\n--X--`,
      'latin1',
    )
    const answer = await house.ask('/files', { method: 'POST', headers: named('x'), body })
    expect([answer.status, listBlobs(house.data)]).toEqual([400, []])
  })

  test('to the host of a region is refused', async () => {
    await using house = await openHouse({
      regions: { europe: ['eu.gateway.example'] },
      server: { trusted_proxies: ['127.0.0.1'] },
    })
    const headers = { host: 'eu.gateway.example' }
    expect((await house.upload('hi', 'a', { headers })).status).toBe(403)
    expect((await house.ask('/files', { headers })).status).toBe(403)
    expect((await house.upload()).status).toBe(200)
  })

  test('for a provider without a key is refused by name', async () => {
    await using house = await openHouse()
    for (const path of [
      '/files?provider=openai',
      '/files?provider=anthropic',
      '/files/x?provider=openai',
    ])
      expect((await house.ask(path)).body.error.metadata.field).toBe('provider')
  })

  test('S-13 to a full disk is 503, and leaves nothing', async () => {
    const house = await openHouse()
    const { gateway } = house
    const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
    const { blobs } = gateway
    gateway.blobs = {
      ...blobs,
      create: async place => {
        const draft = await blobs.create(place)
        return {
          size: 0,
          readAt: draft.readAt.bind(draft),
          keep: draft.keep.bind(draft),
          discard: draft.discard.bind(draft),
          digest: draft.digest.bind(draft),
          write: async () => {
            throw full
          },
        }
      },
    }
    const answer = await house.upload()
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '60'])
    expect(listBlobs(house.data)).toEqual([])
    await house.gateway.close()
  })

  test.each([
    ['ENOSPC', 200, 0],
    ['EDQUOT', 200, 0],
    ['EIO', 503, 1],
  ])('S-13 a deletion that cannot be noted for %s answers %d', async (code, status, left) => {
    await using house = await openHouse()
    const { id } = (await house.upload()).body
    const failure = Object.assign(new Error('not noted'), { code })
    using _ = spyOn(Notes.prototype, 'add').mockRejectedValue(failure)
    expect((await house.ask(`/files/${id}`, { method: 'DELETE' })).status).toBe(status)
    expect(listBlobs(house.data)).toHaveLength(left)
    expect((await house.ask('/files')).body.data).toHaveLength(left)
  })
})

describe('S-14 the quota', () => {
  test('is exact when uploads race', async () => {
    await using house = await openHouse({ files: { quota_mib: 1 } })
    const content = 'x'.repeat(100_000)
    const answers = await Promise.all(Array.from({ length: 30 }, () => house.upload(content)))
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter(status => status === 200)).toHaveLength(10)
    expect(statuses.filter(status => status === 403)).toHaveLength(20)
    expect(listBlobs(house.data)).toHaveLength(10)
    const { data } = (await house.ask('/files')).body
    expect((await house.upload('x'.repeat(24_577))).status).toBe(403)
    expect((await house.upload('x'.repeat(24_576))).status).toBe(200)
    expect((await house.upload('x')).body.error.message).toContain('files.quota_mib')
    await house.ask(`/files/${data[0].id}`, { method: 'DELETE' })
    expect((await house.upload('x')).status).toBe(200)
  })

  test('counts files, too: each takes an entry of the disk, however small', async () => {
    await using house = await openHouse({ files: { quota_files: 3 } })
    const answers = await Promise.all(Array.from({ length: 8 }, () => house.upload('x')))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3)
    expect((await house.upload('x')).body.error.message).toBe(
      'This workspace has 3 files: files.quota_files allows 3',
    )
    expect(listBlobs(house.data)).toHaveLength(3)
  })

  test('counts blocks of the disk: 10,000 files of one byte take 40 MB', async () => {
    await using house = await openHouse({ files: { quota_mib: 39 } })
    const { gateway } = house
    const { workspace_id } = gateway.memory.owner
    using db = openDatabase(house.data)
    db.run(
      `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 10000)
      INSERT INTO files (id, workspace_id, filename, mime_type, size_bytes, downloadable, created_at)
      SELECT printf('or_file_%032d', n), ?, 'a', 'text/plain', 1, 0, '2026-01-01T00:00:00.000Z'
      FROM numbers`,
      [workspace_id],
    )
    expect(await gateway.store.files.computeUse(workspace_id)).toEqual({
      ...{ bytes: 40_960_000, files: 10_000 },
    })
    expect((await house.upload('x')).body.error.message).toBe(
      'The files of this workspace take 39.1 MiB: files.quota_mib allows 39',
    )
  })

  test('counts what is being written until it is kept or gone, and bounds it', async () => {
    await using house = await openHouse({ files: { quota_mib: 1 } })
    const { blobs, memory } = house.gateway
    const { workspace_id } = memory.owner
    const count = () => blobs.countDrafts(workspace_id)
    const open = (name: string) => blobs.create({ workspace_id, name: name.repeat(32) })
    const [kept, dropped] = [await open('a'), await open('b')]
    expect(count()).toBe(8_192)
    await kept.write(Buffer.alloc(4_097))
    expect(count()).toBe(12_288)
    await dropped.discard()
    expect(count()).toBe(8_192)
    await kept.keep(async () => undefined)
    expect(count()).toBe(0)
    using _ = spyOn(blobs, 'countDrafts').mockReturnValue(101 * 1024 ** 2)
    expect((await house.upload('x')).body.error.message).toBe(
      'The uploads of this workspace that run take 101 MiB beside its files: files.quota_mib allows 1',
    )
    expect(listBlobs(house.data)).toHaveLength(1)
  })

  test('is exact when two processes write', async () => {
    const data = makeRoom()
    const config = { files: { quota_mib: 1 } }
    const first = await testGateway({ data, config })
    const second = await openGateway({ data, config: first.config })
    const both = [first, second].flatMap(gateway =>
      Array.from({ length: 6 }, () =>
        storeFile(gateway, getOperator(gateway), { filename: 'a' }, pieces(200_000)).then(
          () => 200,
          thrown => thrown.status,
        ),
      ),
    )
    const statuses = await Promise.all(both)
    expect(statuses.filter(status => status === 200)).toHaveLength(5)
    await first.close()
    await second.close()
  })
})

test('requests about files have a rate limit of each key, on every route', async () => {
  const clock = new TestClock()
  await using house = await openHouse({ files: { requests_per_minute: 2 } }, { clock })
  expect((await house.upload()).status).toBe(200)
  const { body } = await house.ask('/files')
  const id = body.data[0].id
  const place = '/containers/sess_a/files'
  const routes = [
    ...['GET /files', 'POST /files', `GET /files/${id}`, `GET /files/${id}/content`],
    ...[`DELETE /files/${id}`, 'GET /files?provider=openai', `GET ${place}`],
    ...[`GET ${place}/cfile_YQ`, `GET ${place}/cfile_YQ/content`, `POST ${place}/cfile_YQ/promote`],
  ]
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ')
    const answer = await house.ask(path, { method })
    expect([route, answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([
      ...[route, 429, '2'],
    ])
    expect(answer.body.error.message).toBe('Rate limit exceeded: files-per-min')
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
  }
  expect(listBlobs(house.data)).toHaveLength(1)
  // Another key has its own count, and the next minute another.
  expect((await house.ask('/files', { key: house.keys.management })).status).toBe(200)
  clock.pass(60_000)
  expect((await house.ask(`/files/${id}`)).status).toBe(200)
})

describe('a list', () => {
  test('is paged in each client’s way, and by one way at a time', async () => {
    await using house = await openHouse()
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await house.upload('x', `${i}`)).body.id)
    const list = async (query: string, headers = {}) =>
      (await house.ask(`/files?${query}`, { headers })).body
    const idsOf = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => ids.indexOf(id))
    const first = await list('limit=2')
    expect([idsOf(first), first.has_more, first.cursor]).toEqual([[4, 3], true, ids[3]])
    expect([first.first_id, first.last_id]).toEqual([ids[4], ids[3]])
    const second = await list(`limit=3&cursor=${first.cursor}`)
    expect([idsOf(second), second.has_more, second.cursor]).toEqual([[2, 1, 0], false, null])
    expect(idsOf(await list('order=asc'))).toEqual([0, 1, 2, 3, 4])
    expect(idsOf(await list(`order=asc&after=${ids[1]}&limit=2`))).toEqual([2, 3])
    expect(idsOf(await list(`after_id=${ids[3]}&limit=2`))).toEqual([2, 1])
    const before = await list(`before_id=${ids[1]}&limit=2`)
    expect([idsOf(before), before.has_more]).toEqual([[3, 2], true])
    expect(idsOf(await list(`before_id=${ids[3]}`))).toEqual([4])
    await house.ask(`/files/${ids[3]}`, { method: 'DELETE' })
    expect(idsOf(await list(`cursor=${ids[3]}`))).toEqual([2, 1, 0])
    for (const query of [
      `cursor=${ids[0]}&after=${ids[0]}`,
      `after_id=${ids[0]}&before_id=${ids[0]}`,
      'limit=0',
      'limit=1001',
      'limit=1.5',
      'limit=-1',
      'limit=x',
      'cursor=x',
      'after=or_file_x',
      'order=up',
      'ids[]=x',
      'scope_id=x',
      `cursor=${ids[0]}%27`,
      'workspace_id=x',
    ])
      expect([query, (await house.ask(`/files?${query}`)).status]).toEqual([query, 400])
  })

  test('and a record have the shape of the client that asks', async () => {
    await using house = await openHouse()
    const form = buildFileForm()
    form.set('purpose', 'vision')
    const sdk = { 'user-agent': 'OpenAI/JS 7.0' }
    const { body } = await house.ask('/files', { method: 'POST', body: form, headers: sdk })
    expect(body).toEqual({
      _shape: 'openai',
      id: body.id,
      object: 'file',
      bytes: 5,
      created_at: 1772600767,
      filename: 'notes.txt',
      purpose: 'vision',
      status: 'processed',
    })
    const { body: other } = await house.upload()
    const seen = async (headers: Record<string, string>) =>
      (await house.ask(`/files/${other.id}`, { headers })).body
    expect(await seen({ 'x-stainless-lang': 'js' })).toMatchObject({
      _shape: 'openai',
      purpose: 'user_data',
    })
    expect(await seen({ 'user-agent': 'AsyncOpenAI/Python 2' })).toMatchObject({ _shape: 'openai' })
    expect(await seen({ 'anthropic-version': '2023-06-01', 'x-stainless-lang': 'js' })).toEqual({
      ...other,
      _shape: 'anthropic',
    })
    const list = (await house.ask('/files', { headers: sdk })).body
    expect(list).toMatchObject({ _shape: 'openai', object: 'list', has_more: false })
    expect(list).not.toHaveProperty('cursor')
    const anthropic = (await house.ask('/files', { headers: { 'anthropic-version': '1' } })).body
    expect(Object.keys(anthropic).sort()).toEqual([
      '_shape',
      'data',
      'first_id',
      'has_more',
      'last_id',
      'next_page',
    ])
    expect(
      (await house.ask(`/files/${other.id}`, { method: 'DELETE', headers: sdk })).body,
    ).toEqual({
      _shape: 'openai',
      id: other.id,
      object: 'file',
      deleted: true,
    })
  })
})

describe('a workspace', () => {
  test('has its own files: a foreign key gets 403, a foreign file 404', async () => {
    await using house = await openHouse()
    const { data: team } = await createWorkspace(house.gateway, house.operator, {
      name: 'Team',
      slug: 'team',
    })
    const { key } = await createKey(house.gateway, house.operator, {
      name: 't',
      workspace_id: team.id,
    })
    const { body: file } = await house.upload()
    const scope = `?workspace_id=${team.id}`
    expect((await house.ask(`/files/${file.id}`, { key })).status).toBe(404)
    expect((await house.ask(`/files/${file.id}`, { key, method: 'DELETE' })).status).toBe(404)
    expect((await house.ask('/files', { key })).body.data).toEqual([])
    for (const path of [
      `/files${scope}`,
      `/files/${file.id}${scope}`,
      `/files/${file.id}/content${scope}`,
    ])
      expect((await house.ask(path)).status).toBe(403)
    expect((await house.upload('x', 'x', {}, scope)).status).toBe(403)
    expect((await house.ask(`/files${scope}`, { key })).status).toBe(200)
    // A manager of all workspaces names one.
    const manager = { key: house.keys.management }
    expect((await house.upload('x', 'x', manager, scope)).status).toBe(200)
    expect((await house.ask(`/files${scope}`, manager)).body.data).toHaveLength(1)
    expect((await house.ask(`/files/${file.id}${scope}`, manager)).status).toBe(404)
    const nowhere = '?workspace_id=00000000-0000-7000-8000-00000000dead'
    expect((await house.ask(`/files${nowhere}`, manager)).status).toBe(400)
    expect((await house.ask(`/files${nowhere}`)).status).toBe(403)
  })

  test('takes its files with it, also those that arrive', async () => {
    const house = await openHouse()
    const { gateway, operator, data } = house
    const { data: team } = await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })
    const scope = { workspace_id: team.id, filename: 'a' }
    await storeFile(gateway, operator, scope, pieces(10))
    async function* late() {
      yield Buffer.from('first')
      await deleteWorkspace(gateway, operator, team.id, {})
      yield Buffer.from('second')
    }
    await expect(storeFile(gateway, operator, scope, late())).rejects.toMatchObject({ status: 400 })
    expect(await gateway.store.files.all()).toEqual([])
    await gateway.close()
    expect(listBlobs(data)).toEqual([])
  })
})

test('X-38 X-39 a download is an attachment that a browser neither shows nor guesses', async () => {
  await using house = await openHouse()
  const filename = "reports/año “1”; 'x'.pdf"
  async function* content() {
    yield PDF
  }
  const file = await storeFile(
    house.gateway,
    house.operator,
    { filename, downloadable: true },
    content(),
  )
  const { status, headers, body } = await house.ask(`/files/${file.id}/content`)
  expect([status, Buffer.from(body).length > 0]).toEqual([200, true])
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-length': String(PDF.length),
    'content-disposition':
      `attachment; filename="a_o _1_; 'x'.pdf"; ` +
      "filename*=UTF-8''a%C3%B1o%20%E2%80%9C1%E2%80%9D%3B%20%27x%27.pdf",
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
  })
})

test('a name that turns the direction of its letters is shown escaped, and saved so', async () => {
  await using house = await openHouse()
  async function* content() {
    yield PDF
  }
  const filename = 'photo\u202egnp.exe'
  const made = { filename, downloadable: true }
  const { id } = await storeFile(house.gateway, house.operator, made, content())
  const shown = JSON.stringify([
    (await house.ask('/files')).body,
    (await house.ask(`/files/${id}`)).body,
  ])
  expect(shown.match(/photo\\\\u202egnp\.exe/g)).toHaveLength(2)
  const { headers } = await house.ask(`/files/${id}/content`)
  expect(headers.get('content-disposition')).toContain("filename*=UTF-8''photo%5Cu202egnp.exe")
})
