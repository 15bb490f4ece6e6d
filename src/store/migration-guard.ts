import { chmodSync, readdirSync, renameSync, rmSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { conflict, GatewayError, unavailable } from '../base/errors.ts'
import { giveToOwner } from '../base/owner.ts'
import type { Seal } from '../base/seal.ts'
import { VERSION } from '../base/version.ts'
import { readDataFile, syncPath } from './data-files.ts'
import { LOG, listSegments, readSegments } from './log.ts'
import { RECORD_LOG } from './record-log.ts'
import { addParts, copyWholeDatabase, type Parts } from './sqlite/backup-file.ts'
import { lockData } from './sqlite/lock.ts'
import { MIGRATIONS } from './sqlite/migrations.ts'
import { moveSpool } from './sqlite/outbox/messages.ts'
import type { MigrationGuard } from './sqlite.ts'

/** The backups that migrations have made, by the schema that they hold. */
const BACKUP = /^before-schema-(\d+)\.backup(\.part)?$/

/** What a backup holds beside the database. */
const PARTS = ['ledger.head', 'holds.log', RECORD_LOG]

/** The first schema whose messages may be in the spool. Those of the log in a backup stay behind. */
const SPOOLED_SINCE = 34

/** In milliseconds, between two looks whether another command has migrated. */
const PAUSE = 50

/** Who migrates a data directory. */
interface MigrationAccess {
  /** Whether it is the server that has locked it. */
  isLocked: boolean
  /** In milliseconds: how long others wait for a command that migrates. */
  patience: number
  /** Encrypts what waits for destinations. Throws when the secret cannot be read. */
  seal: () => Seal
  /** Is told of a migration that was made. */
  onMigration?: ((migration: Migration) => void) | undefined
  /** Returns how many bytes there is room for, at a path. */
  readFree?: (path: string) => number
}

/** Refuses every migration: what only looks changes nothing. Throws 409 before anything is written. */
export const refuseMigration: MigrationGuard = async readSchema => {
  throw conflict(
    `This data has schema ${readSchema()}, and this program (${VERSION}) looks at schema ` +
      `${MIGRATIONS.length}: gateway serve migrates it, after a backup`,
  ).with({ metadata: { check: 'schema' } })
}

/** A migration that was made, and the backup of what was before. */
export interface Migration {
  from: number
  to: number
  backup: string
  bytes: number
}

/**
 * Guards the migration of a data directory: no server uses it meanwhile, and a backup is made
 * before. The migration itself is one transaction: killed at any moment, it is made from the
 * beginning by the next start. Throws 409 while a server runs, 503 where there is no room for the
 * backup, and what a full disk throws; then nothing is changed.
 */
export const guardMigration =
  (
    data: string,
    { isLocked, patience, seal, onMigration, readFree = readRoom }: MigrationAccess,
  ): MigrationGuard =>
  async (readSchema, migrate) => {
    const unlock = isLocked ? () => undefined : await lockForMigration(data, patience, readSchema)
    try {
      const schema = readSchema()
      if (schema >= MIGRATIONS.length) return migrate()
      requireRoom(data, readFree(data))
      const backup = backUpSchema(data, schema, seal)
      migrate()
      const bytes = statSync(backup).size
      onMigration?.({ from: schema, to: MIGRATIONS.length, backup, bytes })
    } finally {
      unlock()
    }
  }

const MIB = 2 ** 20

function readRoom(path: string): number {
  const { bavail, bsize } = statfsSync(path)
  return bavail * bsize
}

/** Throws 503 unless a backup fits: nothing has to be removed in a hurry from a disk that is full. */
function requireRoom(data: string, free: number): void {
  let needed = 0
  const segments = listSegments(data).map(segment => `${LOG}.${segment}`)
  for (const name of ['gateway.db', 'gateway.db-wal', ...PARTS, ...segments])
    needed += statSync(join(data, name), { throwIfNoEntry: false })?.size ?? 0
  if (needed <= free) return
  const [wanted, found] = [Math.ceil(needed / MIB), Math.floor(free / MIB)]
  throw unavailable(
    `A migration begins with a backup of the whole store: it takes ${wanted} MiB in ${data}, where ` +
      `${found} MiB are free. Make room and start again: nothing was changed`,
  )
}

/** Locks out servers and other migrations. Another one may have migrated when it returns. */
async function lockForMigration(
  data: string,
  patience: number,
  readSchema: () => number,
): Promise<() => void> {
  for (let waited = 0; ; waited += PAUSE) {
    try {
      return lockData(data)
    } catch (thrown) {
      if (!(thrown instanceof GatewayError) || thrown.type !== 'conflict') throw thrown
      if (waited >= patience) throw describeObstacle(data, readSchema())
    }
    await Bun.sleep(PAUSE)
  }
}

const describeObstacle = (data: string, schema: number): GatewayError =>
  conflict(
    `A gateway serves from ${data} with schema ${schema}, and this one (${VERSION}) has schema ` +
      `${MIGRATIONS.length}: stop it first, or replace it with gateway serve --takeover`,
  )

/**
 * Writes the whole store as a backup that the program of that schema restores, and removes those of
 * earlier migrations. Returns its path.
 */
function backUpSchema(data: string, schema: number, seal: () => Seal): string {
  const path = join(data, `before-schema-${MIGRATIONS.length}.backup`)
  const part = `${path}.part`
  rmSync(part, { force: true })
  const parts: Parts = new Map()
  for (const name of PARTS) {
    const content = readDataFile(join(data, name))
    if (content) parts.set(name, content)
  }
  for (const [segment, bytes] of readSegments(data)) parts.set(`${LOG}.${segment}`, bytes)
  try {
    copyWholeDatabase(join(data, 'gateway.db'), part)
    if (schema >= SPOOLED_SINCE) moveSpool(data, part, seal)
    chmodSync(part, 0o600)
    giveToOwner(part)
    addParts(part, parts)
    syncPath(part)
    renameSync(part, path)
  } finally {
    rmSync(part, { force: true })
  }
  syncPath(data)
  removeEarlier(data, schema)
  return path
}

function removeEarlier(data: string, schema: number): void {
  for (const name of readdirSync(data)) {
    const [, target] = BACKUP.exec(name) ?? []
    if (target !== undefined && Number(target) <= schema) rmSync(join(data, name), { force: true })
  }
}
