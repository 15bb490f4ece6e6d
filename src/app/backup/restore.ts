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
import { RESTORING } from '../../store/data-directory.ts'
import { readDataFile, syncPath, writeDataFile } from '../../store/data-files.ts'
import { lockData } from '../../store/lock.ts'
import { RECORD_LOG } from '../../store/record-log.ts'
import { SPOOL } from '../../store/spool.ts'
import { type Parts, summarizeStore, takeParts } from '../../store/sqlite/backup-file.ts'
import { type BackupSummary, checkStore, isPartName, listFilesElsewhere } from '../backup.ts'

/** What is restored, and to where. */
export interface RestoreInput {
  /** The data directory; it is created if it is missing. */
  data: string
  file: string
  /** Moves aside what the directory holds. */
  force: boolean
  /** The secret where it is neither in the backup nor in the data directory. */
  secret: string | undefined
  /** Hears how many rows of the backup were checked. */
  onProgress?: (done: number, total: number) => void
}

/** What may be in a directory that counts as empty. */
const HARMLESS =
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
    const parts = stageBackup(input, staging)
    await checkStore(staging, input.secret, input.onProgress)
    const { nanos, ...counts } = summarizeStore(join(staging, 'gateway.db'))
    isMoving = true
    const moved = replaceFiles(input.data, staging)
    rmSync(staging, { recursive: true })
    return {
      file: input.file,
      ...counts,
      charged: toUsd(nanos),
      parts: [...parts.keys()],
      elsewhere: listFilesElsewhere(parts),
      moved,
    }
  } catch (error) {
    if (!isMoving) rmSync(staging, { recursive: true, force: true })
    throw error
  }
}

/** Makes a data directory of its own from a backup. */
function stageBackup({ data, file, force, secret }: RestoreInput, staging: string): Parts {
  const path = join(staging, 'gateway.db')
  copyFileSync(file, path)
  chmodSync(path, 0o600)
  giveToOwner(path)
  const parts = takeParts(path)
  const unknown = [...parts.keys()].find(name => !isPartName(name))
  if (unknown !== undefined) throw invalid('The backup holds a file that no backup has')
  refuseOtherFiles(data, parts, force)
  for (const [name, content] of parts) writeDataFile(join(staging, name), content)
  const key = parts.has('secret.key') ? null : readDataFile(join(data, 'secret.key'))
  if (key && secret === undefined) writeDataFile(join(staging, 'secret.key'), key)
  return parts
}

/** A secret or a config that is there already is replaced on request only. */
function refuseOtherFiles(data: string, parts: Parts, force: boolean): void {
  const kept = ['ledger.head', 'holds.log', RECORD_LOG]
  for (const name of [...parts.keys()].filter(one => !kept.includes(one))) {
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
  const staged = readdirSync(staging).filter(isPartName)
  const inTheWay = [...DATABASE, 'ledger.head', 'holds.log', RECORD_LOG, SPOOL, ...staged].filter(
    name => existsSync(join(data, name)),
  )
  const aside = join(data, `before-restore-${new Date().toISOString().replaceAll(':', '')}`)
  if (inTheWay.length > 0) makeOwnDirectory(aside)
  for (const name of new Set(inTheWay)) renameSync(join(data, name), join(aside, name))
  for (const name of staged) renameSync(join(staging, name), join(data, name))
  syncPath(join(staging, 'gateway.db'))
  renameSync(join(staging, 'gateway.db'), join(data, 'gateway.db'))
  syncPath(data)
  return inTheWay.length > 0 ? aside : null
}
