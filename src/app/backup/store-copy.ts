import { existsSync, readdirSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { conflict, invalid, notFound } from '../../base/errors.ts'
import { type Mac, openMac } from '../../base/mac.ts'
import { makeOwnDirectory } from '../../base/owner.ts'
import { openSeal, type Seal } from '../../base/seal.ts'
import { listDeadCalls, listEndProblems } from '../../engine/recover.ts'
import { type CopyCounts, type CopySource, type CopyTarget, copyRows } from '../../store/copy.ts'
import { syncPath } from '../../store/data-files.ts'
import { openHeadFile } from '../../store/ledger-head.ts'
import {
  fillPostgres,
  type PostgresPlace,
  parsePlace,
  readPostgres,
} from '../../store/postgres/copy.ts'
import { findWaiting } from '../../store/record-log.ts'
import { hasDataSecret, loadDataSecret } from '../../store/secret.ts'
import { Spool } from '../../store/spool.ts'
import { isSealedWith } from '../../store/sql/seals/inspection.ts'
import { fillSqlite, listCopiedTables, readSqlite } from '../../store/sqlite/copy.ts'
import { lockData } from '../../store/sqlite/lock.ts'
import { explainFullDisk } from '../backup.ts'
import { openGateway } from '../gateway.ts'
import { HARMLESS } from './restore.ts'

/** What is copied, and to where. */
export interface StoreCopyInput {
  /** A data directory, or a URL of Postgres. */
  from: string
  to: string
  /** The secret where it is not in a data directory of the two. */
  secret: string | undefined
  /** Hears how many rows of how many were copied. */
  onProgress?: (done: number, total: number) => void
}

/** What a copy has, and what was left where it is. */
export interface StoreCopySummary {
  from: string
  to: string
  rows: number
  keys: number
  generations: number
  /** Records of uploaded files and of files of containers, whose bytes are not copied. */
  files: number
  container_files: number
}

/** One side of a copy. */
type Place = { directory: string } | PostgresPlace

/**
 * Copies a store as it stands, with all numbers and seals, into an empty one of either engine: all
 * of it or nothing. Throws 400 for a place that cannot be one and for the same place twice, 404 for
 * a store that is not there, 409 while a server runs on a data directory, for a place that is not
 * empty, for a store of another version, for another secret and for what a dead server has left, 403
 * and 503 for what Postgres or the disk refuse.
 */
export async function copyStore(input: StoreCopyInput): Promise<{ data: StoreCopySummary }> {
  const [from, to] = [parseSide(input.from), parseSide(input.to)]
  refuseSame(from, to)
  if ('directory' in from) requireData(from.directory)
  const isNew = 'directory' in to && !existsSync(to.directory)
  const unlock = 'directory' in to ? lockTarget(to.directory) : () => undefined
  let isDone = false
  try {
    const secrets = openSecrets(input, [from, to])
    const counts = await readSide(from, secrets, source => copyFrom(source, to, secrets, input))
    isDone = true
    return { data: summarize(nameSide(from), nameSide(to), counts) }
  } catch (thrown) {
    throw explainFullDisk(thrown)
  } finally {
    unlock()
    if (isNew && !isDone) rmSync(to.directory, { recursive: true, force: true })
  }
}

const parseSide = (text: string): Place =>
  /^postgres(ql)?:/i.test(text) ? parsePlace(text) : { directory: resolve(text) }

const nameSide = (side: Place): string => ('directory' in side ? side.directory : side.name)

function refuseSame(from: Place, to: Place): void {
  const identify = (side: Place) =>
    'directory' in side && existsSync(side.directory)
      ? realpathSync(side.directory)
      : nameSide(side)
  if (identify(from) === identify(to)) throw invalid(`${nameSide(from)}: expected two places`)
}

function requireData(directory: string): void {
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found && !found.isDirectory()) throw invalid(`${directory}: expected a directory`)
  if (!existsSync(join(directory, 'gateway.db')))
    throw notFound(`There is no data of a gateway in ${directory}`)
}

/** Where a data directory is filled before its files get their names. */
const STAGING = 'copy.part'

/** Locks a data directory that is to be filled. Throws 409 where anything is in it. */
function lockTarget(directory: string): () => void {
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found && !found.isDirectory()) throw invalid(`${directory}: expected a directory`)
  const unlock = lockData(directory)
  try {
    if (existsSync(join(directory, STAGING)) && !existsSync(join(directory, 'gateway.db')))
      rmSync(join(directory, 'ledger.head'), { force: true })
    rmSync(join(directory, STAGING), { recursive: true, force: true })
    const names = readdirSync(directory).filter(name => !HARMLESS.test(name))
    if (names.length > 0)
      throw conflict(
        `${directory} is not empty (${names.slice(0, 3).join(', ')}): expected a directory ` +
          'without data',
      )
    return unlock
  } catch (thrown) {
    unlock()
    throw thrown
  }
}

/** The secret of what is copied. */
interface Secrets {
  /** What messages call it. */
  name: string
  mac: Mac
  destinationSeal: () => Seal
  /** As the environment has it. */
  configured: string | undefined
}

/** Finds the secret of both sides. Throws 409 where there is none, and where they have two. */
function openSecrets({ secret }: StoreCopyInput, sides: Place[]): Secrets {
  const kept = sides.flatMap(side =>
    'directory' in side && hasDataSecret(side.directory)
      ? [{ name: join(side.directory, 'secret.key'), bytes: loadDataSecret(side.directory) }]
      : [],
  )
  const [first, other] = secret
    ? [{ name: 'GATEWAY_SECRET', bytes: new Uint8Array(Buffer.from(secret)) }]
    : kept
  if (!first)
    throw conflict(
      'The secret of this data is missing: set GATEWAY_SECRET, or put secret.key into a directory of the two',
    )
  if (other && !Buffer.from(first.bytes).equals(other.bytes))
    throw conflict(`${other.name} is another secret than ${first.name}: both sides need the same`)
  return {
    name: first.name,
    mac: openMac(first.bytes, 'records'),
    destinationSeal: () => openSeal(first.bytes, 'destinations'),
    configured: secret,
  }
}

/** Opens the side that is copied, as it stands at one moment. */
async function readSide<Result>(
  side: Place,
  secrets: Secrets,
  use: (source: CopySource) => Promise<Result>,
): Promise<Result> {
  if (!('directory' in side)) return readPostgres(side, use)
  const { directory } = side
  // A server that runs is told of before anything is waited for.
  lockData(directory)()
  await writeWaiting(directory, secrets)
  const unlock = lockData(directory)
  const spool = new Spool(directory, 'read')
  try {
    if (findWaiting(directory) !== null)
      throw conflict(`A server has just used ${directory}: try again`)
    const waiting = { spool, seal: secrets.destinationSeal }
    return await readSqlite(join(directory, 'gateway.db'), waiting, use)
  } finally {
    spool.close()
    unlock()
  }
}

/**
 * Writes the records that wait for their transaction. Throws 409 where rows are missing at the end,
 * which a copy could no longer show, and for calls that a dead server has not settled.
 */
async function writeWaiting(data: string, { configured }: Secrets): Promise<void> {
  const gateway = await openGateway({
    ...{ data, requiresOwnSecret: true, migrates: false },
    ...(configured === undefined ? {} : { secret: configured }),
  })
  try {
    const [problem] = await listEndProblems(gateway)
    if (problem !== undefined)
      throw conflict(`The store is not in order (gateway doctor): ${problem}`)
    const { length } = await listDeadCalls(gateway)
    if (length > 0)
      throw conflict(
        `A server that ended in the middle has left ${length} calls to settle: start and stop ` +
          `gateway serve on ${data} once`,
      )
  } finally {
    await gateway.close()
  }
}

async function copyFrom(
  source: CopySource,
  to: Place,
  { mac, name }: Secrets,
  { onProgress }: StoreCopyInput,
): Promise<CopyCounts> {
  if (!(await source.read(isSealedWith(mac))))
    throw conflict(`The data in ${source.name} was sealed with another secret than ${name}`)
  const fill = (target: CopyTarget) => copyRows(source, target, listCopiedTables(), onProgress)
  return 'directory' in to ? fillDirectory(to.directory, mac, fill) : fillPostgres(to, fill)
}

/** Fills a data directory: what is there has its names when all of it is on the disk. */
async function fillDirectory(
  directory: string,
  mac: Mac,
  fill: (target: CopyTarget) => Promise<CopyCounts>,
): Promise<CopyCounts> {
  const staging = join(directory, STAGING)
  makeOwnDirectory(staging)
  try {
    const path = join(staging, 'gateway.db')
    const counts = await fillSqlite(path, fill)
    syncPath(path)
    openHeadFile(staging, mac).write(counts.ends)
    for (const name of ['ledger.head', 'gateway.db'])
      renameSync(join(staging, name), join(directory, name))
    syncPath(directory)
    return counts
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

const summarize = (
  from: string,
  to: string,
  { rows, tables: { keys = 0, generations = 0, files = 0, container_files = 0 } }: CopyCounts,
): StoreCopySummary => ({ from, to, rows, keys, generations, files, container_files })
