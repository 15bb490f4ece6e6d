import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { conflict, GatewayError, invalid, notFound, unavailable } from '../base/errors.ts'
import { toUsd } from '../base/money.ts'
import type { Config } from '../config.ts'
import { getHomeBlob } from '../network/containers/home.ts'
import {
  type BlobPlace,
  type BlobStore,
  type KnownBytes,
  readBlob,
} from '../resources/files/blobs.ts'
import { getBlobPlace } from '../resources/files.ts'
import { openDiskBlobs } from '../store/blobs/disk.ts'
import {
  appendDataFile,
  hasCode,
  openDataFile,
  readDataFile,
  syncPath,
  writeDataFile,
} from '../store/data-files.ts'
import { listHeldCalls, renderHolds } from '../store/hold-journal.ts'
import { isSegmentName, LOG, readSegments } from '../store/log.ts'
import { RECORD_LOG } from '../store/record-log.ts'
import { copySpool } from '../store/spool.ts'
import {
  addParts,
  BackupBytes,
  type ByteRecord,
  copyDatabase,
  findCharged,
  type Parts,
  summarizeStore,
} from '../store/sqlite/backup-file.ts'
import { examineGateway } from './doctor.ts'
import { type Gateway, type GatewayParts, openGateway } from './gateway.ts'

/** What is backed up, and to where. */
export interface BackupInput {
  /** The data directory. */
  data: string
  file: string
  /** Replaces a file that exists. */
  force: boolean
  /** Includes `secret.key`. */
  withSecret: boolean
  /**
   * The config file to include as `gateway.yaml`, with the keys that stand in it, and the key files
   * beside it that it names.
   */
  config?: string | undefined
  /** Says where the bytes of stored files are, to include them. Without it, they stay there. */
  withFiles?: Config | undefined
  /** The secret where it is not in the data directory. */
  secret: string | undefined
  /** Hears how many rows of the copy were checked. */
  onProgress?: (done: number, total: number) => void
}

/** The files that a backup may hold beside the database, and the key files of the config. */
const PART_NAMES = ['ledger.head', 'holds.log', RECORD_LOG, 'secret.key', 'gateway.yaml']

/** A file of a provider's key in the data directory, as `gateway init --provider` names it. */
const KEY_FILE = /^[a-z0-9][a-z0-9._-]*\.key$/

/** The part that tells what bytes of stored files a backup holds. Earlier programs refuse it. */
export const BYTES_PART = 'files'

/** Whether a file may be part of a backup: a plain name, never a path. */
export const isPartName = (name: string): boolean =>
  PART_NAMES.includes(name) || isSegmentName(name) || KEY_FILE.test(name)

/** What a backup holds. */
export interface BackupSummary {
  file: string
  keys: number
  generations: number
  ledger_rows: number
  audit_entries: number
  /** What the ledger has charged, in USD. */
  charged: number
  parts: string[]
  /** How many uploaded files and files of containers it has the records of. */
  files: number
  container_files: number
  /** How many bytes of theirs it holds; null where they stay where they are. */
  file_bytes: number | null
  /** Files that its config names and that it does not hold, as they are not in the directory. */
  elsewhere: string[]
}

/**
 * Writes the data directory at one moment into one file, also while a server runs. The file is an
 * SQLite database, readable only by its owner, and appears under its name when it is complete and
 * checked: structure, seals, ledger and counters, and the bytes of stored files where it holds them.
 * Throws 404 where there is no data directory, 400 for a file of the gateway itself, 409 for a file
 * that exists or a store that is not in order, 503 where the disk is full; then nothing is left.
 */
export async function backUp(input: BackupInput): Promise<{ data: BackupSummary }> {
  const target = resolve(input.file)
  if (!existsSync(join(input.data, 'gateway.db')))
    throw notFound(`There is no data directory ${input.data}`)
  refuseOwnFile(target, input.data)
  refuseExisting(target, input.force)
  const staging = openStaging(target)
  try {
    copyStore(input, staging)
    const path = join(staging, 'gateway.db')
    let bytes: number | null = null
    await checkStore(staging, input, {
      parts: input.withFiles ? openSource(input.data, input.withFiles) : {},
      async checkMore(gateway) {
        if (input.withFiles) bytes = await saveBytes(gateway, join(input.data, 'gateway.db'), path)
      },
    })
    const parts = collectParts(input, staging, bytes)
    const { nanos, ...counts } = summarizeStore(path)
    addParts(path, parts)
    publish(path, target, input.force)
    const summary = {
      file: target,
      ...counts,
      charged: toUsd(nanos),
      parts: [...parts.keys()],
      file_bytes: bytes,
      elsewhere: listFilesElsewhere(parts),
    }
    return { data: summary }
  } catch (thrown) {
    throw explainFullDisk(thrown)
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

// What a file of the copy throws when it cannot grow: its log, its database or its parts.
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG', 'SQLITE_FULL']

/** Says in a sentence that a file could not grow; what is thrown for anything else stays as it is. */
export function explainFullDisk(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || !FULL.some(code => hasCode(thrown, code))) return thrown
  const said = `The copy could not be written: ${thrown.message}. Is the disk full?`
  return unavailable(said, undefined, thrown)
}

/** Files of a data directory. A backup in the place of one would destroy what it has saved. */
const OWN_FILE = /^(gateway\.(db(-.*)?|reserve)|serve\.lock.*|before-schema-\d+\.backup)$/

function refuseOwnFile(target: string, data: string): void {
  const [directory, name] = [dirname(target), basename(target)]
  const isOwn = OWN_FILE.test(name) || PART_NAMES.some(part => part === name)
  if (isOwn && existsSync(directory) && realpathSync(directory) === realpathSync(data))
    throw invalid(`${target} is a file of the gateway: expected another name`)
}

function refuseExisting(target: string, force: boolean): void {
  const found = lstatSync(target, { throwIfNoEntry: false })
  if (found?.isDirectory()) throw invalid(`${target} is a directory: expected the name of a file`)
  if (found && !force) throw conflict(`${target} exists: --force replaces it`)
}

/** Makes a directory beside the file, and removes those that killed processes have left. */
function openStaging(target: string): string {
  const [directory, name] = [dirname(target), basename(target)]
  if (!existsSync(directory)) throw notFound(`There is no directory ${directory}`)
  for (const entry of readdirSync(directory)) {
    const [owner, end, ...rest] = entry.startsWith(`.${name}.`)
      ? entry.slice(name.length + 2).split('.')
      : []
    if (owner && end === 'part' && rest.length === 0 && !isRunning(Number(owner)))
      rmSync(join(directory, entry), { recursive: true, force: true })
  }
  const staging = join(directory, `.${name}.${process.pid}.part`)
  mkdirSync(staging, { mode: 0o700 })
  return staging
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return !hasCode(error, 'ESRCH')
  }
}

/** Copies the store and its journal into a data directory of their own. */
function copyStore({ data, secret }: BackupInput, staging: string): void {
  const copy = join(staging, 'gateway.db')
  // SQLite wants to write beside what it reads, and would not say why it cannot.
  closeSync(openDataFile(join(data, 'gateway.db'), 'append'))
  // In this order: what the end and the journal have named is in the database by then.
  const head = readDataFile(join(data, 'ledger.head'))
  copyLog(data, staging)
  const before = listHeldCalls(staging)
  copySpool(data, staging)
  copyDatabase(join(data, 'gateway.db'), copy)
  // What waits there is moved into the copy when that is checked.
  copySpool(data, staging)
  const known = new Set(before.map(({ id }) => id))
  const later = listHeldCalls(data).filter(({ id }) => !known.has(id))
  const charged = findCharged(
    copy,
    later.map(({ id }) => id),
  )
  const added = renderHolds(later.filter(({ id }) => charged.has(id)))
  appendDataFile(join(staging, 'holds.log'), added)
  if (head) writeDataFile(join(staging, 'ledger.head'), head)
  const key = readDataFile(join(data, 'secret.key'))
  if (key && secret === undefined) writeDataFile(join(staging, 'secret.key'), key)
  chmodSync(copy, 0o600)
}

/** Copies the log, and what programs before it have left. What waits in it is written by a check. */
function copyLog(data: string, staging: string): void {
  for (const [segment, bytes] of readSegments(data))
    writeDataFile(join(staging, `${LOG}.${segment}`), bytes)
  for (const name of ['holds.log', RECORD_LOG]) {
    const earlier = readDataFile(join(data, name))
    if (earlier) writeDataFile(join(staging, name), earlier)
  }
}

/** What is looked at in a copied data directory, beside what every copy is checked for. */
interface MoreChecks {
  parts?: Partial<GatewayParts>
  /** Throws where something is wrong. */
  checkMore?: ((gateway: Gateway) => Promise<void>) | undefined
}

/** Runs every check over a copied data directory. Throws 409 for the first that fails. */
export async function checkStore(
  staging: string,
  { secret, onProgress }: Pick<BackupInput, 'secret' | 'onProgress'>,
  { parts, checkMore }: MoreChecks = {},
): Promise<void> {
  if (secret === undefined && !existsSync(join(staging, 'secret.key')))
    throw conflict(
      'The secret is missing, so the seals cannot be checked: set GATEWAY_SECRET, or put the ' +
        'secret.key that belongs to this data into the data directory',
    )
  const gateway = await openGateway({
    data: staging,
    access: 'copy',
    // Under another secret every row would look as if somebody had changed it.
    requiresOwnSecret: true,
    ...(secret === undefined ? {} : { secret }),
    ...parts,
  })
  try {
    const { data } = await examineGateway(gateway, onProgress)
    const wrong = data.find(({ ok }) => !ok)
    if (wrong) throw conflict(`The store is not in order: ${wrong.check}: ${wrong.found}`)
    await checkMore?.(gateway)
  } finally {
    await gateway.close()
  }
}

/** Opens the bytes of a data directory for the copy of its database. */
const openSource = (data: string, config: Config): Partial<GatewayParts> =>
  config.storage.s3 ? { config } : { blobs: openDiskBlobs(join(data, 'files')) }

/** Bytes that are on record. */
interface StoredBytes {
  place: BlobPlace
  known: KnownBytes
  record: ByteRecord
}

/**
 * Copies the bytes of every file on record into the copy of the database, and checks them. What was
 * deleted since that copy was made is no longer on record there. Returns how many bytes it has.
 * Throws 409 that names the files whose bytes are gone or not as they were written.
 */
async function saveBytes(gateway: Gateway, source: string, path: string): Promise<number> {
  const bytes = new BackupBytes(path)
  try {
    bytes.begin()
    let [total, damages] = [0, [] as string[]]
    for (const stored of await listStoredBytes(gateway)) {
      const { size, damage } = await saveFile(gateway.blobs, stored, bytes)
      total += size
      if (damage !== null && !bytes.forgetDeleted(source, stored.place, stored.record))
        damages.push(damage)
    }
    if (damages.length > 0)
      throw conflict(`The bytes of files are not in order: ${damages.join('; ')}`)
    return total
  } finally {
    bytes.close()
  }
}

async function saveFile(
  blobs: BlobStore,
  { place, known }: StoredBytes,
  bytes: BackupBytes,
): Promise<{ size: number; damage: string | null }> {
  let size = 0
  try {
    // One without bytes has a piece, too.
    if (known.size_bytes === 0) bytes.add(place, 0, new Uint8Array())
    for await (const piece of await readBlob(blobs, place, known)) {
      bytes.add(place, size, piece)
      size += piece.length
    }
    return { size, damage: null }
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.type === 'not_found')
      return { size: 0, damage: thrown.message }
    throw thrown
  }
}

async function listStoredBytes({ store }: Gateway): Promise<StoredBytes[]> {
  const files = (await store.files.all()).map(
    (file): StoredBytes => ({
      place: getBlobPlace(file),
      known: { ...file, name: file.id },
      record: { table: 'files', column: 'id', value: file.id },
    }),
  )
  const homes = await Promise.all(
    (await store.containers.listUsable()).map(async container => {
      const range = { container_id: container.id, limit: Number.MAX_SAFE_INTEGER }
      return (await store.containers.listFiles(range)).map(
        (file): StoredBytes => ({
          place: getHomeBlob(container, file),
          known: { ...file, name: `${container.name}: ${file.path}` },
          record: { table: 'container_files', column: 'blob', value: file.blob },
        }),
      )
    }),
  )
  return [...files, ...homes.flat()]
}

function collectParts(
  { secret, ...input }: BackupInput,
  staging: string,
  bytes: number | null,
): Parts {
  if (input.withSecret && secret !== undefined)
    throw invalid('--with-secret: the secret is in GATEWAY_SECRET, not in the data directory')
  const config = input.config === undefined ? null : readConfigFile(input.config)
  const found: Record<string, Buffer | null> = {
    ...(input.config && config ? readKeyFiles(dirname(input.config), config.toString()) : {}),
    'ledger.head': readDataFile(join(staging, 'ledger.head')),
    'holds.log': Buffer.from(renderHolds(listHeldCalls(staging))),
    'secret.key': input.withSecret ? readDataFile(join(staging, 'secret.key')) : null,
    'gateway.yaml': config,
    [BYTES_PART]: bytes === null ? null : Buffer.from(`${bytes}`),
  }
  return new Map(
    Object.entries(found).flatMap(([name, content]) => (content ? [[name, content]] : [])),
  )
}

function readConfigFile(file: string): Buffer {
  const content = readDataFile(file)
  if (!content) throw notFound(`--with-config: there is no ${file}`)
  return content
}

/** Reads the key files beside a config that it names. Those elsewhere stay there. */
function readKeyFiles(directory: string, config: string): Record<string, Buffer | null> {
  const names = listKeyFiles(config).filter(name => KEY_FILE.test(name))
  const files = names.filter(name => name !== 'secret.key')
  return Object.fromEntries(files.map(name => [name, readDataFile(join(directory, name))]))
}

const listKeyFiles = (config: string): string[] =>
  Array.from(config.matchAll(/\$\{file:(?:\.\/)?([^{}\n]+)\}/g), ([, name = '']) => name)

/** Lists the files that a config names and that no backup carries, as they are elsewhere. */
export const listFilesElsewhere = (parts: Parts): string[] =>
  listKeyFiles(parts.get('gateway.yaml')?.toString() ?? '').filter(name => !parts.has(name))

/** Gives the finished file its name. Without `force` it never replaces another. */
function publish(path: string, target: string, force: boolean): void {
  chmodSync(path, 0o600)
  syncPath(path)
  if (force) renameSync(path, target)
  else linkOnce(path, target)
  syncPath(dirname(target))
}

function linkOnce(path: string, target: string): void {
  try {
    linkSync(path, target)
  } catch (error) {
    if (hasCode(error, 'EEXIST')) throw conflict(`${target} exists: --force replaces it`)
    // Not every file system has hard links.
    if (!hasCode(error, 'EPERM') && !hasCode(error, 'ENOTSUP')) throw error
    refuseExisting(target, false)
    renameSync(path, target)
  }
}
