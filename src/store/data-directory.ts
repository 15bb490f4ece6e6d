import { closeSync, existsSync, lstatSync, mkdirSync, type Stats, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { conflict, denied } from '../base/errors.ts'
import { VERSION } from '../base/version.ts'
import { hasCode, openDataFile, readDataFile, writeDataFile } from './data-files.ts'
import type { NodeName } from './postgres/nodes.ts'

/** What only the owner may read. */
const SECRETS = ['secret.key', 'secret.key.previous']

/** What SQLite opens by name, so that it is looked at before. */
const DATABASES = ['gateway.db', 'serve.lock'].flatMap(name =>
  ['', '-wal', '-shm', '-journal'].map(end => name + end),
)

/**
 * Creates the data directory if it is missing, for its owner alone, and an empty database in it.
 * Throws 403 for a directory that other users may write, and for a file in it that they may write
 * or that is a link: they could replace the database, or have another file overwritten; and for a
 * secret that they may read. Throws 409 while a backup is being restored there, and after that was
 * interrupted.
 */
export function openDataDirectory(data: string): void {
  makeDataDirectory(data)
  if (existsSync(join(data, RESTORING)))
    throw conflict(
      `A restore into ${data} was interrupted: repeat it (gateway restore --force), or remove ` +
        `${join(data, RESTORING)} to go on with what is there`,
    )
  closeSync(openDataFile(join(data, 'gateway.db'), 'append'))
}

/** The directory inside in which a backup is prepared. While it is there, nothing else opens. */
export const RESTORING = 'restore.part'

/** Creates the directory and checks it, as `openDataDirectory` does, without a database. */
export function makeDataDirectory(data: string): void {
  makeDirectory(data)
  refuseForeignWriters(data, statSync(data))
  for (const name of DATABASES) checkDataFile(join(data, name), refuseForeignWriters)
  for (const name of SECRETS) checkDataFile(join(data, name), refuseForeignReaders)
}

function makeDirectory(data: string): void {
  try {
    mkdirSync(data, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw hasCode(cause, 'EEXIST')
      ? new Error(`${data}: expected a directory, found a file`, { cause })
      : cause
  }
}

function checkDataFile(path: string, check: (path: string, file: Stats) => void): void {
  try {
    const file = lstatSync(path)
    if (file.isSymbolicLink()) throw denied(`${path} is a link: expected the file itself`)
    check(path, file)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
}

const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002
const GROUP_USES = 0o070
const OTHERS_USE = 0o007

// Where each user has a group of their own, new directories are writable by it. It has the user's
// number, and no one else is in it.
function refuseForeignWriters(path: string, { mode, uid, gid }: Stats): void {
  const group = mode & GROUP_WRITES && gid !== uid
  if (group || mode & OTHERS_WRITE)
    throw denied(`${path}: other users may write here (chmod go-w ${path})`)
}

function refuseForeignReaders(path: string, { mode, uid, gid }: Stats): void {
  const group = mode & GROUP_USES && gid !== uid
  if (group || mode & OTHERS_USE)
    throw denied(`${path}: other users may read this secret (chmod 600 ${path})`)
}

/**
 * Names this process as a node of a store that several machines reach: its directory has the id.
 * `worker` tells several of a machine apart.
 */
export function nameNode(data: string, worker?: number): Omit<NodeName, 'isAlone'> {
  const found = readNodeId(data)
  const id = found ?? crypto.randomUUID()
  if (!found) writeDataFile(join(data, NODE), `${id}\n`)
  const name = worker === undefined ? hostname() : `${hostname()}/${worker}`
  return { id, incarnation: crypto.randomUUID(), name, version: VERSION }
}

/** Returns the id of the node whose directory this is; null for one that never was one. */
export function readNodeId(data: string): string | null {
  const found = readDataFile(join(data, NODE))?.toString().trim()
  return found && /^[0-9a-f-]{36}$/.test(found) ? found : null
}

const NODE = 'node.id'
