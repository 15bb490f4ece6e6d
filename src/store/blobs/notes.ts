import { constants } from 'node:fs'
import { open, readdir, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { giveToOwner, makeOwnDirectory } from '../../base/owner.ts'
import { type BlobPlace, checkPlace, isOwnName } from '../../resources/files/blobs.ts'
import { hasCode } from '../data-files.ts'

const { O_CREAT, O_NOFOLLOW, O_RDWR } = constants

/** Where processes keep notes of what they are writing, below a directory of their own. */
export const NOTES = 'part'

/** The places that one process is writing or deleting, as empty files in its own directory. */
export class Notes {
  readonly #own: string
  /** What the drafts of each workspace take. */
  readonly #drafts = new Map<string, number>()

  constructor(directory: string) {
    this.#own = join(directory, NOTES, String(process.pid))
  }

  async add(place: BlobPlace): Promise<void> {
    checkPlace(place)
    makeOwnDirectory(this.#own)
    const note = await open(this.#getPath(place), O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
    giveToOwner(this.#getPath(place), note.fd)
    await note.close()
  }

  /** Returns where the bytes of a noted blob are written. */
  getTempPath = (place: BlobPlace): string => `${this.#getPath(place)}.temp`

  forget = (place: BlobPlace): Promise<void> => rm(this.#getPath(place), { force: true })

  countDrafts = (workspace_id: string): number => this.#drafts.get(workspace_id) ?? 0

  /** Counts that a draft has grown by so many bytes of blocks. */
  growDraft({ workspace_id }: BlobPlace, added: number): void {
    const bytes = this.countDrafts(workspace_id) + added
    if (bytes === 0) this.#drafts.delete(workspace_id)
    else this.#drafts.set(workspace_id, bytes)
  }

  /** Removes the process's directory, unless something in it is still running. */
  close = (): Promise<void> => rmdir(this.#own).catch(() => undefined)

  #getPath(place: BlobPlace): string {
    checkPlace(place)
    return join(this.#own, `${place.workspace_id}.${place.name}`)
  }
}

/** Lists the names in a directory; none where there is no such directory. */
export const listNames = async (path: string): Promise<string[]> =>
  (await ignoreMissing(readdir(path))) ?? []

/** Returns what work gives; undefined where its file is missing. */
export const ignoreMissing = <Result>(work: Promise<Result>): Promise<Result | undefined> =>
  work.catch(error => {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return undefined
    throw error
  })

/** What a sweep works with. */
interface Sweep {
  directory: string
  hasRecord(place: BlobPlace): Promise<boolean>
  removeBlob(place: BlobPlace): Promise<void>
  /** For how many milliseconds a blob may still arrive after its writer was killed; 0: not at all. */
  lateness?: number
}

/**
 * Deletes what processes that no longer run were writing, or had deleted the record of. Returns how
 * many blobs those were. What cannot be deleted stays noted, for the next time, and so does what may
 * still arrive.
 */
export async function sweepNotes({ directory, lateness = 0, ...sweep }: Sweep): Promise<number> {
  let swept = 0
  const root = join(directory, NOTES)
  for (const owner of await listNames(root)) {
    if (isRunningElsewhere(Number(owner))) continue
    for (const note of await listNames(join(root, owner))) {
      const path = join(root, owner, note)
      const isSwept = await sweepNote(note, sweep)
      if (isSwept) swept += 1
      if (!isSwept || !(await isYounger(path, lateness)))
        await rm(path, { recursive: true, force: true })
    }
    await rmdir(join(root, owner)).catch(() => undefined)
  }
  return swept
}

// A file may be a part of a millisecond newer than the clock, and so younger than nothing.
const isYounger = async (path: string, milliseconds: number): Promise<boolean> =>
  milliseconds > 0 && Date.now() - (await stat(path)).mtimeMs < milliseconds

async function sweepNote(
  note: string,
  { hasRecord, removeBlob }: Pick<Sweep, 'hasRecord' | 'removeBlob'>,
): Promise<boolean> {
  const [workspace_id = '', name = '', ...rest] = note.split('.')
  if (rest.length > 0 || !isOwnName(workspace_id) || !isOwnName(name)) return false
  const place = { workspace_id, name }
  if (await hasRecord(place)) return false
  await removeBlob(place)
  return true
}

// A restarted container has the number of the process that was killed in it.
function isRunningElsewhere(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return !hasCode(error, 'ESRCH')
  }
}
