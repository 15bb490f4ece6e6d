import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { restore } from '../../src/app/backup/restore.ts'
import { examineGateway } from '../../src/app/doctor.ts'
import { openGateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { recoverCalls } from '../../src/engine/recover.ts'
import { guardMigration, type Migration } from '../../src/store/migration-guard.ts'
import { lockData } from '../../src/store/sqlite/lock.ts'
import { MIGRATIONS } from '../../src/store/sqlite/migrations.ts'
import { openDatabase } from '../support/database.ts'
import { TEST_SECRETS } from '../support/ledger.ts'
import { OLD_SCHEMAS, unpackOldData } from '../support/old-data.ts'

const directories: string[] = []
afterEach(() => {
  for (const data of directories.splice(0)) rmSync(data, { recursive: true, force: true })
})

async function unpack(schema: number) {
  const unpacked = await unpackOldData(schema)
  directories.push(unpacked.data)
  return unpacked
}

const BACKUP = `before-schema-${MIGRATIONS.length}.backup`
const listBackups = (data: string) => readdirSync(data).filter(name => name.includes('backup'))

function readSchema(path: string): number {
  const db = new Database(path, { readonly: true })
  const { user_version } = db.query('pragma user_version').get() as { user_version: number }
  db.close()
  return user_version
}

function readLedger(data: string): unknown[] {
  const db = openDatabase(data, { readonly: true })
  const rows = db.query('select seq, id, nanos, hash from ledger order by seq').all()
  db.close()
  return rows
}

/** Opens it as a server does, and expects that its books are in order. */
async function expectInOrder(data: string, key: string): Promise<void> {
  const gateway = await openGateway({ data })
  try {
    expect(gateway.memory.keys.get(hashSecret(key))?.name).toBe('app')
    expect((await recoverCalls(gateway)).calls).toBe(1)
    const { data: checks } = await examineGateway(gateway)
    expect(checks.filter(({ ok }) => !ok)).toEqual([])
    // Twelve calls of 10 and 5 tokens, and one that was charged what it had delivered.
    expect(gateway.ledger.getSpent(`key ${hashSecret(key)}`, null, false)).toBeGreaterThan(54_000n)
  } finally {
    await gateway.close()
  }
}

describe.each(OLD_SCHEMAS)('S-11 the data directory of schema %i', schema => {
  test('is backed up and migrated, and its books are in order', async () => {
    const { data, key } = await unpack(schema)
    const before = readLedger(data)
    expect(before.length).toBe(12)
    await expectInOrder(data, key)
    expect(readLedger(data).slice(0, 12)).toEqual(before)
    expect(readSchema(join(data, 'gateway.db'))).toBe(MIGRATIONS.length)
    expect(listBackups(data)).toEqual([BACKUP])
    expect(readSchema(join(data, BACKUP))).toBe(schema)
  })

  test('is put back from that backup', async () => {
    const { data, key } = await unpack(schema)
    const before = readLedger(data)
    await (await openGateway({ data })).close()
    await restore({ data, file: join(data, BACKUP), force: true, secret: undefined })
    expect(readLedger(data)).toEqual(before)
    await expectInOrder(data, key)
  })

  test.each([1, 5, 20])('is as before when the migration is killed at seal %i', async count => {
    const { data, key } = await unpack(schema)
    // What an earlier attempt has left.
    writeFileSync(join(data, `${BACKUP}.part`), 'half a backup')
    const script = resolve(import.meta.dir, '../support/killed-migration.ts')
    const child = Bun.spawnSync([process.execPath, 'run', script, data, String(count)])
    expect(child.signalCode).toBe('SIGKILL')
    expect(readSchema(join(data, 'gateway.db'))).toBe(schema)
    await expectInOrder(data, key)
    expect(listBackups(data)).toEqual([BACKUP])
  })

  test('is not migrated, and not backed up in part, where there is less room than that takes', async () => {
    const { data } = await unpack(schema)
    const size = statSync(join(data, 'gateway.db')).size
    let isMigrated = false
    const migrate = (readFree: () => number) =>
      guardMigration(data, {
        isLocked: false,
        patience: 0,
        readFree,
        seal: TEST_SECRETS.destinationSeal,
      })(
        () => schema,
        () => {
          isMigrated = true
        },
      )
    await expect(migrate(() => size - 1)).rejects.toMatchObject({
      type: 'unavailable',
      message: expect.stringContaining(`takes 1 MiB in ${data}, where 0 MiB are free`),
    })
    expect([isMigrated, listBackups(data)]).toEqual([false, []])
    await migrate(() => 2 * size)
    expect([isMigrated, listBackups(data)]).toEqual([true, [BACKUP]])
  })

  test('tells of its migration, once, and keeps no backup but that of the last one', async () => {
    const { data } = await unpack(schema)
    writeFileSync(join(data, `before-schema-${schema}.backup`), 'an earlier one')
    const told: Migration[] = []
    const onMigration = (migration: Migration) => void told.push(migration)
    for (let i = 0; i < 2; i++) await (await openGateway({ data, onMigration })).close()
    const { size: bytes } = statSync(join(data, BACKUP))
    expect(told).toEqual([
      { from: schema, to: MIGRATIONS.length, backup: join(data, BACKUP), bytes },
    ])
    expect(listBackups(data)).toEqual([BACKUP])
  })

  test('is not migrated where the backup cannot be put in its place', async () => {
    const { data } = await unpack(schema)
    mkdirSync(join(data, BACKUP))
    writeFileSync(join(data, BACKUP, 'in-the-way'), '')
    await expect(openGateway({ data })).rejects.toThrow()
    expect(readSchema(join(data, 'gateway.db'))).toBe(schema)
    expect(existsSync(join(data, `${BACKUP}.part`))).toBe(false)
  })

  test('is not migrated by a command while a server has it', async () => {
    const { data } = await unpack(schema)
    const unlock = lockData(data)
    try {
      await expect(openGateway({ data, patience: 0 })).rejects.toMatchObject({
        type: 'conflict',
        message: expect.stringContaining(`with schema ${schema}, and this one`),
      })
      expect(readSchema(join(data, 'gateway.db'))).toBe(schema)
      await (await openGateway({ data, access: 'server' })).close()
    } finally {
      unlock()
    }
    expect(readSchema(join(data, 'gateway.db'))).toBe(MIGRATIONS.length)
  })

  test('is migrated by one of two commands that start at once', async () => {
    const { data } = await unpack(schema)
    const gateways = await Promise.all([openGateway({ data }), openGateway({ data })])
    await Promise.all(gateways.map(gateway => gateway.close()))
    expect(readSchema(join(data, 'gateway.db'))).toBe(MIGRATIONS.length)
    expect(readSchema(join(data, BACKUP))).toBe(schema)
  })
})
