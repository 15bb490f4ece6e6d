import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { conflict, invalid, notFound } from '../../base/errors.ts'
import { toUsd } from '../../base/money.ts'
import { giveToOwner, makeOwnDirectory } from '../../base/owner.ts'
import type { Config } from '../../config.ts'
import type { BlobDraft, BlobPlace, BlobStore } from '../../resources/files/blobs.ts'
import { openDiskBlobs } from '../../store/blobs/disk.ts'
import { RESTORING } from '../../store/data-directory.ts'
import { readDataFile, syncPath, writeDataFile } from '../../store/data-files.ts'
import { isSegmentName } from '../../store/log.ts'
import { RECORD_LOG } from '../../store/record-log.ts'
import { SPOOL } from '../../store/spool.ts'
import {
  type BackedUpPiece,
  BackupBytes,
  type Parts,
  summarizeStore,
  takeParts,
} from '../../store/sqlite/backup-file.ts'
import { lockData } from '../../store/sqlite/lock.ts'
import {
  type BackupSummary,
  BYTES_PART,
  checkStore,
  isPartName,
  listFilesElsewhere,
} from '../backup.ts'
import { examineFiles, examineHomes } from '../doctor.ts'
import { type Gateway, openGateway } from '../gateway.ts'

/** What is restored, and to where. */
export interface RestoreInput {
  /** The data directory; it is created if it is missing. */
  data: string
  file: string
  /** Moves aside what the directory holds. */
  force: boolean
  /**
   * Reads the config that says where the restored gateway will have the bytes of files, if not in the
   * data directory. The parts of the backup are in the directory.
   */
  readConfig?(staging: string): Promise<Config>
  /** The secret where it is neither in the backup nor in the data directory. */
  secret: string | undefined
  /** Hears how many rows of the backup were checked. */
  onProgress?: (done: number, total: number) => void
}

/** What may be in a directory that counts as empty. */
export const HARMLESS =
  /^(serve\.lock.*|serve\.sock|gateway\.reserve|files|[a-z0-9][a-z0-9._-]*\.key|gateway\.yaml|gateway\.schema\.json|lost\+found|before-restore-.*)$/

/**
 * Puts a backup into a data directory. Everything is checked before anything there changes; killed
 * in the middle, the directory is refused by other commands until the restore is repeated. Throws
 * 404 for a missing file, 400 for one that is damaged, is no backup or was written by a newer
 * program, 409 while a server runs, for a directory that is not empty, for a backup that was
 * changed, and without its secret.
 */
export async function restore(input: RestoreInput) {
  const { data, file } = input
  if (!statSync(file, { throwIfNoEntry: false })?.isFile())
    throw notFound(`There is no file ${file}`)
  const isNew = !existsSync(data)
  const unlock = lockData(data)
  try {
    refuseContent(input)
    const summary = await stageAndMove(input)
    return { data: summary }
  } catch (error) {
    if (isNew) rmSync(data, { recursive: true, force: true })
    throw error
  } finally {
    unlock()
  }
}

function refuseContent({ data, force }: RestoreInput): void {
  const names = readdirSync(data).filter(name => !HARMLESS.test(name) && name !== RESTORING)
  if (names.length > 0 && !force)
    throw conflict(`${data} is not empty (${names.slice(0, 3).join(', ')}): --force replaces it`)
}

async function stageAndMove(
  input: RestoreInput,
): Promise<BackupSummary & { moved: string | null }> {
  const staging = join(input.data, RESTORING)
  rmSync(staging, { recursive: true, force: true })
  makeOwnDirectory(staging)
  let isMoving = false
  try {
    const { parts, bytes } = await stageBackup(input, staging)
    await checkStore(staging, input, { checkMore: bytes === null ? undefined : requireBytes })
    if (bytes !== null) await moveToBucket(input, staging)
    const { nanos, ...counts } = summarizeStore(join(staging, 'gateway.db'))
    isMoving = true
    const moved = replaceFiles(input.data, staging)
    rmSync(staging, { recursive: true })
    return {
      file: input.file,
      ...counts,
      charged: toUsd(nanos),
      parts: [...parts.keys()],
      file_bytes: bytes,
      elsewhere: listFilesElsewhere(parts),
      moved,
    }
  } catch (error) {
    if (!isMoving) rmSync(staging, { recursive: true, force: true })
    throw error
  }
}

/** Makes a data directory of its own from a backup. Returns how many bytes of files it holds. */
async function stageBackup(
  { data, file, force, secret }: RestoreInput,
  staging: string,
): Promise<{ parts: Parts; bytes: number | null }> {
  const path = join(staging, 'gateway.db')
  copyFileSync(file, path)
  chmodSync(path, 0o600)
  giveToOwner(path)
  const parts = takeParts(path)
  const unknown = [...parts.keys()].find(name => !isPartName(name) && name !== BYTES_PART)
  if (unknown !== undefined) throw invalid('The backup holds a file that no backup has')
  const hasBytes = parts.has(BYTES_PART)
  refuseOtherFiles(data, parts, force)
  if (hasBytes && existsSync(join(data, FILES)) && !force)
    throw conflict(`${data} has files as the backup has: --force replaces them`)
  for (const [name, content] of parts)
    if (name !== BYTES_PART) writeDataFile(join(staging, name), content)
  const key = parts.has('secret.key') ? null : readDataFile(join(data, 'secret.key'))
  if (key && secret === undefined) writeDataFile(join(staging, 'secret.key'), key)
  return { parts, bytes: hasBytes ? await stageBytes(path, join(staging, FILES)) : null }
}

/** The directory of the bytes of files. */
const FILES = 'files'

/** Puts the bytes of a backup into a directory. Returns how many there are. */
async function stageBytes(path: string, directory: string): Promise<number> {
  const bytes = new BackupBytes(path)
  const blobs = openDiskBlobs(directory)
  const files = new StagedFiles(blobs)
  try {
    for (const piece of bytes.list()) await files.add(piece)
    await files.end()
    bytes.drop()
    return files.total
  } finally {
    await files.discard()
    await blobs.close()
    bytes.close()
  }
}

/** Writes files of pieces that follow each other. */
class StagedFiles {
  total = 0
  readonly #blobs: BlobStore
  #draft: BlobDraft | undefined
  #place: BlobPlace | undefined

  constructor(blobs: BlobStore) {
    this.#blobs = blobs
  }

  async add({ place, position, bytes }: BackedUpPiece): Promise<void> {
    if (position === 0) {
      await this.end()
      this.#place = place
      this.#draft = await this.#blobs.create(place)
    }
    const draft = place.name === this.#place?.name ? this.#draft : undefined
    if (!draft || draft.size !== position)
      throw invalid('The file is no backup, or is damaged: the bytes of a file are not in order')
    await draft.write(bytes)
    this.total += bytes.length
  }

  async end(): Promise<void> {
    await this.#draft?.keep(async () => undefined)
  }

  async discard(): Promise<void> {
    await this.#draft?.discard()
  }
}

/** Compares every file on record with its bytes. Throws 409 for those that differ. */
async function requireBytes(gateway: Gateway): Promise<void> {
  for (const { ok, found } of [await examineFiles(gateway), await examineHomes(gateway)])
    if (!ok) throw conflict(`The bytes of files are not in order: ${found}`)
}

/** Puts the bytes where the gateway will look for them. What is in a bucket already stays. */
async function moveToBucket({ readConfig, secret }: RestoreInput, staging: string): Promise<void> {
  const config = await readConfig?.(staging)
  if (!config?.storage.s3) return
  const directory = join(staging, FILES)
  const local = openDiskBlobs(directory)
  const given = secret === undefined ? {} : { secret }
  const gateway = await openGateway({ data: staging, access: 'copy', config, ...given })
  try {
    for await (const place of local.list())
      if ((await gateway.blobs.size(place)) !== (await local.size(place)))
        await copyBlob(local, gateway.blobs, place)
  } finally {
    await gateway.close()
    await local.close()
  }
  rmSync(directory, { recursive: true })
}

async function copyBlob(from: BlobStore, to: BlobStore, place: BlobPlace): Promise<void> {
  const draft = await to.create(place)
  try {
    for await (const piece of await from.read(place)) await draft.write(piece)
    await draft.keep(async () => undefined)
  } finally {
    await draft.discard()
  }
}

/** A secret or a config that is there already is replaced on request only. */
function refuseOtherFiles(data: string, parts: Parts, force: boolean): void {
  const kept = ['ledger.head', 'holds.log', RECORD_LOG, BYTES_PART]
  for (const name of [...parts.keys()].filter(one => !kept.includes(one) && !isSegmentName(one))) {
    const [present, given] = [readDataFile(join(data, name)), parts.get(name)]
    if (present && given && !present.equals(given) && !force)
      throw conflict(`${data} has another ${name} than the backup: --force replaces it`)
  }
}

const DATABASE = ['gateway.db-wal', 'gateway.db-shm', 'gateway.db-journal', 'gateway.db']

/**
 * Moves what is in the way into a directory of its own, whose name is returned, and the staged
 * files to their places: the database last, since without it nothing is served.
 */
function replaceFiles(data: string, staging: string): string | null {
  const staged = readdirSync(staging).filter(name => isPartName(name) || name === FILES)
  const logs = readdirSync(data).filter(isSegmentName)
  const left = ['ledger.head', 'holds.log', RECORD_LOG, ...logs, SPOOL]
  const inTheWay = [...DATABASE, ...left, ...staged].filter(name => existsSync(join(data, name)))
  const aside = join(data, `before-restore-${new Date().toISOString().replaceAll(':', '')}`)
  if (inTheWay.length > 0) makeOwnDirectory(aside)
  for (const name of new Set(inTheWay)) renameSync(join(data, name), join(aside, name))
  for (const name of staged) renameSync(join(staging, name), join(data, name))
  syncPath(join(staging, 'gateway.db'))
  renameSync(join(staging, 'gateway.db'), join(data, 'gateway.db'))
  syncPath(data)
  return inTheWay.length > 0 ? aside : null
}
