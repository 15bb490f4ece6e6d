import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { examineFiles } from '../../src/app/doctor.ts'
import { sweepBlobs } from '../../src/network/containers.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { readFile, storeFile } from '../../src/resources/files.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { BUCKET_KEYS } from '../support/bucket.ts'
import { createCountedIds, createTestKeys, testGateway } from '../support/gateway.ts'
import { buildFileForm } from '../support/operations.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-bucket-'))
let server: S3rver
let endpoint: string
beforeAll(async () => {
  server = new S3rver({
    ...{ address: '127.0.0.1', port: 0, silent: true, directory: join(root, 's3') },
    configureBuckets: [{ name: 'files', configs: [] }],
  })
  endpoint = `http://127.0.0.1:${(await server.run()).port}`
})
afterAll(async () => {
  await server.close()
  rmSync(root, { recursive: true, force: true })
})

let houses = 0
let opened = 0
async function openHouse(more: object = {}, data = join(root, String(++houses))) {
  const prefix = `house-${houses}`
  const s3 = { endpoint, bucket: 'files', prefix, ...BUCKET_KEYS, ...more }
  const storage = { files: 's3', s3 }
  const gateway = await testGateway({
    ids: createCountedIds(1_000 * ++opened),
    ...{ data, config: { storage }, clock: { now: () => new Date(), ticks: () => 0 } },
  })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway, () => '127.0.0.1')
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { ...init.headers, authorization: `Bearer ${keys.inference}` } as HeadersInit
    const url = `http://localhost/api/v1${path}`
    const answer = await app.handle(new Request(url, { ...init, headers }))
    return { status: answer.status, text: await answer.text() }
  }
  const upload = (content: string) =>
    ask('/files', { method: 'POST', body: buildFileForm(content, 'notes.txt') })
  return { data, gateway, ask, upload, prefix }
}

const listKeys = async (prefix: string) => {
  const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER', bucket: 'files', endpoint }
  const found = await new Bun.S3Client(keys).list({ prefix: `${prefix}/` })
  return (found.contents ?? []).map(({ key }) => key)
}

/** Lists the files of uploads that are on the disk of a gateway. */
const listLocal = (data: string) =>
  existsSync(join(data, 'files'))
    ? readdirSync(join(data, 'files'), { recursive: true, withFileTypes: true })
        .filter(entry => entry.isFile())
        .map(({ name }) => name)
    : []

async function* pieceOf(text: string) {
  yield Buffer.from(text)
}

describe('files in a bucket', () => {
  test('are uploaded, listed, downloaded and deleted, and are not on the disk', async () => {
    const { data, gateway, ask, upload, prefix } = await openHouse()
    const { status, text } = await upload('Hello')
    expect(status).toBe(200)
    const { id } = JSON.parse(text)
    expect(await listKeys(prefix)).toEqual([expect.stringContaining(id.slice('or_file_'.length))])
    expect(listLocal(data)).toEqual([])
    const written = { filename: 'out.txt', downloadable: true }
    const pieces = [Buffer.from('written')].values()
    const own = await storeFile(
      gateway,
      getOperator(gateway),
      { ...written, workspace_id: gateway.memory.owner.workspace_id },
      (async function* () {
        yield* pieces
      })(),
    )
    expect(await ask(`/files/${own.id}/content`)).toEqual({ status: 200, text: 'written' })
    const part = await ask(`/files/${own.id}/content`, { headers: { range: 'bytes=2-4' } })
    expect(part).toEqual({ status: 206, text: 'itt' })
    expect(await examineFiles(gateway)).toMatchObject({
      ok: true,
      found: '2 files have their bytes',
    })
    expect((await ask(`/files/${id}`, { method: 'DELETE' })).status).toBe(200)
    expect(await listKeys(prefix)).toHaveLength(1)
    await gateway.close()
  })

  test('whose bytes are gone are named by doctor', async () => {
    const { gateway, upload, prefix } = await openHouse()
    const { id } = JSON.parse((await upload('Hello')).text)
    const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER', bucket: 'files', endpoint }
    for (const key of await listKeys(prefix)) await new Bun.S3Client(keys).delete(key)
    expect(await examineFiles(gateway)).toEqual({
      check: 'files',
      ok: false,
      found: `${id} is damaged, and has to be stored again: its bytes are missing`,
    })
    await gateway.close()
  })

  test.each([
    ['cut', 'Hell', 'it has 4 bytes, where 5 were stored'],
    ['changed', 'Jello', null],
  ])('S-20 that were %s are not downloaded as if whole', async (_, bytes, found) => {
    const { gateway, prefix } = await openHouse()
    const operator = getOperator(gateway)
    const input = { filename: 'a.txt', workspace_id: gateway.memory.owner.workspace_id }
    const file = await storeFile(gateway, operator, input, pieceOf('Hello'))
    const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER', bucket: 'files', endpoint }
    for (const key of await listKeys(prefix)) await new Bun.S3Client(keys).write(key, bytes)
    const download = async () =>
      new Response((await readFile(gateway, operator, file.id)).bytes).text()
    await expect(download()).rejects.toThrow(found ?? 'its bytes were changed')
    // What is in a bucket is not read for a check.
    expect((await examineFiles(gateway)).ok).toBe(found === null)
    await gateway.close()
  })

  test('go with their workspace, once', async () => {
    const { gateway, prefix } = await openHouse()
    const operator = getOperator(gateway)
    const { data } = await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })
    const input = { filename: 'a.txt', workspace_id: data.id }
    await storeFile(gateway, operator, input, pieceOf('x'))
    expect(await listKeys(prefix)).toHaveLength(1)
    await deleteWorkspace(gateway, operator, 'team', {})
    await sweepBlobs(gateway)
    expect(await listKeys(prefix)).toEqual([])
    await gateway.close()
  })

  test('of a bucket that is not there answer 503, and doctor says why', async () => {
    const before = await openHouse()
    expect((await before.upload('Hello')).status).toBe(200)
    await before.gateway.close()
    const { data, gateway, upload } = await openHouse({ bucket: 'missing' }, before.data)
    const { status, text } = await upload('Hello')
    expect([status, JSON.parse(text).error.message]).toEqual([
      503,
      'The storage of files refuses: NoSuchBucket (404)',
    ])
    expect(await gateway.store.files.all()).toHaveLength(1)
    expect(await examineFiles(gateway)).toEqual({
      check: 'files',
      ok: false,
      found: 'The storage of files refuses: NoSuchBucket (404)',
    })
    expect(listLocal(data).filter(name => name.endsWith('.temp'))).toEqual([])
    await gateway.close()
  })
})
