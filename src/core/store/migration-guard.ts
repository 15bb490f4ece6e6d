import { chmodSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { conflict, GatewayError } from '../errors.ts'
import { VERSION } from '../kernel/version.ts'
import { readDataFile, syncPath } from './data-files.ts'
import { lockData } from './lock.ts'
import { addParts, copyWholeDatabase, type Parts } from './sqlite/backup-file.ts'
import { MIGRATIONS } from './sqlite/contents.ts'
import type { MigrationGuard } from './sqlite.ts'

/** The backups that migrations have made, by the schema that they hold. */
const BACKUP = /^before-schema-(\d+)\.backup(\.part)?$/

/** What a backup holds beside the database. */
const PARTS = ['ledger.head', 'holds.log']

/** In milliseconds, between two looks whether another command has migrated. */
const PAUSE = 50

/** Who migrates a data directory. */
export interface MigrationAccess {
  /** Whether it is the server that has locked it. */
  isLocked: boolean
  /** In milliseconds: how long others wait for a command that migrates. */
  patience: number
}

/**
 * Guards the migration of a data directory: no server uses it meanwhile, and a backup is made
 * before. The migration itself is one transaction: killed at any moment, it is made from the
 * beginning by the next start. Throws 409 while a server runs, and what a full disk throws; then
 * nothing is changed.
 */
export const guardMigration =
  (data: string, { isLocked, patience }: MigrationAccess): MigrationGuard =>
  async (readSchema, migrate) => {
    const unlock = isLocked ? () => undefined : await lockForMigration(data, patience, readSchema)
    try {
      const schema = readSchema()
      if (schema < MIGRATIONS.length) backUpSchema(data, schema)
      migrate()
    } finally {
      unlock()
    }
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
 * earlier migrations.
 */
function backUpSchema(data: string, schema: number): void {
  const path = join(data, `before-schema-${MIGRATIONS.length}.backup`)
  const part = `${path}.part`
  rmSync(part, { force: true })
  const parts: Parts = new Map()
  for (const name of PARTS) {
    const content = readDataFile(join(data, name))
    if (content) parts.set(name, content)
  }
  try {
    copyWholeDatabase(join(data, 'gateway.db'), part)
    chmodSync(part, 0o600)
    addParts(part, parts)
    syncPath(part)
    renameSync(part, path)
  } finally {
    rmSync(part, { force: true })
  }
  syncPath(data)
  removeEarlier(data, schema)
}

function removeEarlier(data: string, schema: number): void {
  for (const name of readdirSync(data)) {
    const [, target] = BACKUP.exec(name) ?? []
    if (target !== undefined && Number(target) <= schema) rmSync(join(data, name), { force: true })
  }
}
