import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { restore } from '../../src/app/backup/restore.ts'
import { backUp, isPartName } from '../../src/app/backup.ts'
import { examineFiles, examineHomes } from '../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { systemClock } from '../../src/base/clock.ts'
import { type Config, createDefaultConfig, parseConfig } from '../../src/config.ts'
import { getHomeBlob } from '../../src/network/containers/home.ts'
import { buildFileId } from '../../src/network/containers/names.ts'
import { promoteContainerFile } from '../../src/network/containers.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { BlobPlace } from '../../src/resources/files/blobs.ts'
import { getBlobPlace, readStored, storeFile } from '../../src/resources/files.ts'
import { joinPlace } from '../../src/store/blobs/place.ts'
import { buildLine, openBatchHouse } from '../support/batches.ts'
import { BUCKET_KEYS } from '../support/bucket.ts'
import { makeHome } from '../support/containers.ts'
import { openDatabase } from '../support/database.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-bytes-'))
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

let names = 0
const newPath = () => join(root, `${++names}`)

/** Longer than a piece, and no piece is like another. */
const LONG = Buffer.from(Array.from({ length: 300_000 }, (_, i) => `${i}`).join('\n'))

async function* once(bytes: Uint8Array) {
  yield bytes
}

/** A data directory with every noun that has bytes: files, results of batches, files of containers. */
async function fillDirectory(config?: Record<string, unknown>) {
  const data = newPath()
  const { gateway, actor, create, run, runner } = await openBatchHouse({
    ...{ data, clock: systemClock },
    ...(config ? { config } : {}),
  })
  const long = await storeFile(gateway, actor, { filename: 'long.txt' }, once(LONG))
  await create([buildLine('one'), buildLine('two')])
  await run()
  const home = await makeHome(gateway, actor.workspace_id, 'sess_report', {
    'out/empty.txt': '',
    'out/report.csv': 'a,b',
  })
  const file_id = buildFileId('out/report.csv')
  await promoteContainerFile(gateway, getOperator(gateway), home.name, file_id)
  await runner.stop()
  const contents = await readContents(gateway)
  await gateway.close()
  return { data, contents, long: long.id, blob: await findHomeBlob(data) }
}

async function findHomeBlob(data: string): Promise<BlobPlace> {
  const gateway = await openGateway({ data })
  const [container] = await gateway.store.containers.listUsable()
  if (!container) throw new Error('There is no container')
  const [file] = await gateway.store.containers.listFiles({ container_id: container.id, limit: 1 })
  if (!file) throw new Error('There is no file in it')
  await gateway.close()
  return getHomeBlob(container, file)
}

/** Reads every file on record: its name, and the digest of its bytes. */
async function readContents(gateway: Gateway): Promise<string[]> {
  const files = await gateway.store.files.all()
  return Promise.all(
    files.map(async file => {
      const hash = new Bun.CryptoHasher('sha256')
      for await (const piece of await readStored(gateway, file)) hash.update(piece)
      return `${file.filename} ${hash.digest('hex')}`
    }),
  )
}

const save = (data: string, file: string, more: Partial<Parameters<typeof backUp>[0]> = {}) =>
  backUp({
    ...{ data, file, force: false, withSecret: true, secret: undefined },
    ...{ withFiles: createDefaultConfig(), ...more },
  })

const bringBack = (file: string, data: string, config?: Config) =>
  restore({
    ...{ data, file, force: false, secret: undefined },
    ...(config ? { readConfig: async () => config } : {}),
  })

/** Returns what a restored directory has, and what is wrong with it. */
async function examine(data: string, config = createDefaultConfig()) {
  const gateway = await openGateway({ data, config })
  const findings = [await examineFiles(gateway), await examineHomes(gateway)]
  const contents = await readContents(gateway)
  await gateway.close()
  return { contents, findings: findings.map(({ ok, found }) => `${ok} ${found}`) }
}

const FOUND = ['true 4 files have their bytes', 'true 2 files have their bytes']

describe('S-12 a backup with files', () => {
  test('brings back the bytes of every noun that has some, in pieces that are small', async () => {
    const { data, contents } = await fillDirectory()
    const [file, restored] = [newPath(), newPath()]
    const { data: summary } = await save(data, file)
    expect(summary).toMatchObject({ files: 4, container_files: 2 })
    expect(summary.file_bytes).toBeGreaterThan(LONG.length)
    const db = new Database(file, { readonly: true })
    const { longest, pieces } = db
      .query('select max(length(bytes)) as longest, count(*) as pieces from backup_bytes')
      .get() as Record<string, number>
    db.close()
    expect(longest).toBeLessThanOrEqual(1024 * 1024)
    expect(pieces).toBeGreaterThan(6)

    expect((await bringBack(file, restored)).data.file_bytes).toBe(summary.file_bytes)
    expect(await examine(restored)).toEqual({ contents, findings: FOUND })
    expect(Bun.file(join(restored, 'gateway.db')).size).toBeLessThan(LONG.length)
  })

  test('is refused by a program that would leave its bytes out', async () => {
    const { data } = await fillDirectory()
    const { data: summary } = await save(data, newPath())
    // What an earlier program asks of every part.
    expect(summary.parts.filter(name => !isPartName(name))).toEqual(['files'])
  })

  test('goes from one bucket to another, where what is there stays', async () => {
    const buildConfig = (prefix: string) => {
      const s3 = { endpoint, bucket: 'files', prefix, ...BUCKET_KEYS }
      return { storage: { files: 's3', s3 } }
    }
    const [from, to] = [buildConfig('from'), buildConfig('to')]
    const parse = (config: object) => parseConfig(JSON.stringify(config), {})
    const { data, contents } = await fillDirectory(from)
    expect(existsSync(join(data, 'files', 'part'))).toBe(true)
    const [file, restored, again] = [newPath(), newPath(), newPath()]
    await save(data, file, { withFiles: parse(from) })
    await bringBack(file, restored, parse(to))
    expect(await examine(restored, parse(to))).toEqual({ contents, findings: FOUND })
    await bringBack(file, again, parse(to))
    expect(await examine(again, parse(to))).toEqual({ contents, findings: FOUND })
    expect(existsSync(join(again, 'files'))).toBe(false)
  })

  test('has no file that was deleted while it was made', async () => {
    const { data, long, blob } = await fillDirectory()
    const [file, restored] = [newPath(), newPath()]
    const gateway = await openGateway({ data })
    const deleted = await gateway.store.files.find(long)
    await gateway.close()
    if (!deleted) throw new Error('There is no such file')
    let isDeleted = false
    // Heard when the database is copied, and before bytes are.
    const onProgress = () => {
      if (isDeleted) return
      isDeleted = true
      const db = openDatabase(data)
      db.query('delete from files where id = ?').run(long)
      db.query('delete from container_files where blob = ?').run(blob.name)
      db.close()
      for (const place of [getBlobPlace(deleted), blob])
        rmSync(join(data, 'files', joinPlace(place)))
    }
    const { data: summary } = await save(data, file, { onProgress })
    expect([isDeleted, summary.files, summary.container_files]).toEqual([true, 3, 1])
    await bringBack(file, restored)
    expect((await examine(restored)).findings).toEqual([
      'true 3 files have their bytes',
      'true 1 file has its bytes',
    ])
  })

  test.each([
    ['gone', null, 'its bytes are missing'],
    ['cut', LONG.subarray(1), 'were stored'],
    ['changed', Buffer.from(LONG).fill('~', 9, 10), 'its bytes were changed'],
  ])('is not made where one is %s, and names it', async (_, bytes, found) => {
    const { data, long, blob } = await fillDirectory()
    const gateway = await openGateway({ data })
    const stored = await gateway.store.files.find(long)
    await gateway.close()
    if (!stored) throw new Error('There is no such file')
    const path = join(data, 'files', joinPlace(getBlobPlace(stored)))
    const original = join(data, 'files', joinPlace(blob))
    if (bytes) writeFileSync(path, bytes)
    else rmSync(path)
    rmSync(original)
    const file = newPath()
    const thrown = await save(data, file).catch(error => error)
    expect([thrown.status, thrown.message]).toEqual([
      409,
      expect.stringMatching(
        new RegExp(`^The bytes of files are not in order: ${long} .*${found}.*; sess_report: out/`),
      ),
    ])
    expect(existsSync(file)).toBe(false)
    expect(await save(data, file, { withFiles: undefined })).toMatchObject({
      data: { file_bytes: null, files: 4, container_files: 2 },
    })
  })

  test.each([
    ['gone', 'delete from backup_bytes where position = 0 and length(bytes) > 100000'],
    ['cut', 'delete from backup_bytes where position > 0'],
    ['changed', "update backup_bytes set bytes = cast(replace(bytes, x'31', x'32') as blob)"],
    ['of a table that is missing', 'drop table backup_bytes'],
  ])('is not restored with bytes that are %s, and leaves nothing', async (_, sql) => {
    const { data } = await fillDirectory()
    const [file, restored] = [newPath(), newPath()]
    await save(data, file)
    const db = new Database(file)
    db.run(sql)
    db.close()
    const thrown = await bringBack(file, restored).catch(error => error)
    expect([400, 409]).toContain(thrown.status)
    expect(existsSync(restored)).toBe(false)
  })

  test('moves files that are there aside on request only', async () => {
    const { data, contents } = await fillDirectory()
    const [file, restored] = [newPath(), newPath()]
    await save(data, file)
    await bringBack(file, restored)
    rmSync(join(restored, 'gateway.db'))
    for (const name of readdirSync(restored))
      if (name !== 'files' && name !== 'secret.key')
        rmSync(join(restored, name), { recursive: true })
    expect(await bringBack(file, restored).catch(error => error.message)).toContain('--force')
    await restore({ data: restored, file, force: true, secret: undefined })
    expect(await examine(restored)).toEqual({ contents, findings: FOUND })
    const aside = readdirSync(restored).find(name => name.startsWith('before-restore-')) ?? ''
    expect(readdirSync(join(restored, aside))).toContain('files')
  })
})
