import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type BlobDraft,
  type BlobPlace,
  type BlobStore,
  checkOwnName,
  checkPlace,
  isOwnName,
} from '../../files/blobs.ts'
import { hasCode } from '../data-files.ts'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR } = constants

/** Where processes keep notes of what they are writing, below a directory of their own. */
const NOTES = 'part'

/**
 * Opens the store of blobs in a directory, which is created at the first blob. Blobs are files
 * that only their owner may read. A blob is written beside the others, synced and renamed, its
 * directory is synced, and then its record is written. Before all that, and before a deletion, the
 * process notes the blob's place, and forgets it at the end: what a killed process was doing is
 * known from its notes.
 */
export function openDiskBlobs(directory: string): BlobStore {
  const running = new Set<Promise<unknown>>()
  const notes = new Notes(directory)
  const store: BlobStore = {
    async create(place) {
      checkPlace(place)
      await notes.add(place)
      return DiskDraft.open(directory, place, notes)
    },
    async read(place) {
      const path = getPath(directory, place)
      await stat(path)
      return streamFile(path)
    },
    async size(place) {
      const found = await ignoreMissing(stat(getPath(directory, place)))
      return found?.size
    },
    async remove(place, removeRecord) {
      await notes.add(place)
      await removeRecord().catch(async thrown => {
        await notes.forget(place)
        throw thrown
      })
      await removeBlob(directory, place)
      await notes.forget(place)
    },
    removeWorkspace(id) {
      checkOwnName(id)
      const removal = rm(join(directory, id), { recursive: true, force: true })
      running.add(removal)
      return removal.finally(() => running.delete(removal))
    },
    async *list() {
      for (const workspace_id of await store.listWorkspaces())
        for (const shard of await listNames(join(directory, workspace_id)))
          for (const name of await listNames(join(directory, workspace_id, shard)))
            if (isOwnName(name)) yield { workspace_id, name }
    },
    listWorkspaces: async () => (await listNames(directory)).filter(isWorkspace),
    sweep: hasRecord => sweepNotes(directory, hasRecord),
    async close() {
      await Promise.allSettled(running)
      await notes.close()
    },
  }
  return store
}

const isWorkspace = (name: string) => name !== NOTES && isOwnName(name)

// Names grow with time, so that their ends differ most.
function getPath(directory: string, place: BlobPlace): string {
  checkPlace(place)
  return join(directory, place.workspace_id, place.name.slice(-2), place.name)
}

const removeBlob = (directory: string, place: BlobPlace) =>
  rm(getPath(directory, place), { force: true })

/** The places that one process is writing or deleting, as empty files in its own directory. */
class Notes {
  readonly #root: string
  readonly #own: string

  constructor(directory: string) {
    this.#root = directory
    this.#own = join(directory, NOTES, String(process.pid))
  }

  async add(place: BlobPlace): Promise<void> {
    await makeDirectory(this.#root)
    await makeDirectory(this.#own)
    const note = await open(this.#getPath(place), O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
    await note.close()
  }

  /** Returns where the bytes of a noted blob are written. */
  getTempPath = (place: BlobPlace): string => `${this.#getPath(place)}.temp`

  forget = (place: BlobPlace): Promise<void> => rm(this.#getPath(place), { force: true })

  /** Removes the process's directory, unless something in it is still running. */
  close = (): Promise<void> => rmdir(this.#own).catch(() => undefined)

  #getPath(place: BlobPlace): string {
    checkPlace(place)
    return join(this.#own, `${place.workspace_id}.${place.name}`)
  }
}

class DiskDraft implements BlobDraft {
  readonly #directory: string
  readonly #place: BlobPlace
  readonly #notes: Notes
  readonly #file: FileHandle
  #size = 0
  #isPublished = false
  #isOver = false

  private constructor(directory: string, place: BlobPlace, notes: Notes, file: FileHandle) {
    this.#directory = directory
    this.#place = place
    this.#notes = notes
    this.#file = file
  }

  static async open(directory: string, place: BlobPlace, notes: Notes): Promise<DiskDraft> {
    const flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
    const file = await open(notes.getTempPath(place), flags, 0o600).catch(async thrown => {
      await notes.forget(place)
      throw thrown
    })
    return new DiskDraft(directory, place, notes, file)
  }

  get size(): number {
    return this.#size
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, done, bytes.length - done, this.#size)
      done += bytesWritten
      this.#size += bytesWritten
    }
  }

  async readAt(position: number, length: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.#size - position)))
    let done = 0
    while (done < bytes.length) {
      const { bytesRead } = await this.#file.read(bytes, done, bytes.length - done, position + done)
      if (bytesRead === 0) break
      done += bytesRead
    }
    return bytes.subarray(0, done)
  }

  async keep(insertRecord: () => Promise<void>): Promise<void> {
    try {
      await this.#publish()
      await insertRecord()
    } catch (thrown) {
      await this.#withdraw()
      throw thrown
    }
    this.#isOver = true
    await this.#notes.forget(this.#place)
  }

  // The note of a blob that cannot be deleted stays: the next start of a server tries again.
  async #withdraw(): Promise<void> {
    const removal = this.#isPublished ? removeBlob(this.#directory, this.#place) : undefined
    const isGone = await Promise.resolve(removal).then(
      () => true,
      () => false,
    )
    if (isGone) await this.discard()
    this.#isOver = true
  }

  async #publish(): Promise<void> {
    await this.#file.sync()
    await this.#file.close()
    const path = getPath(this.#directory, this.#place)
    const [shard, workspace] = [join(path, '..'), join(path, '../..')]
    const isNew = await makeDirectory(shard)
    await rename(this.#notes.getTempPath(this.#place), path)
    this.#isPublished = true
    for (const changed of isNew ? [shard, workspace, this.#directory] : [shard])
      await syncDirectory(changed)
  }

  async discard(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    await this.#file.close().catch(() => undefined)
    await rm(this.#notes.getTempPath(this.#place), { force: true })
    await this.#notes.forget(this.#place)
  }
}

/** Makes a directory for its owner alone. Returns whether it was missing. */
const makeDirectory = async (path: string): Promise<boolean> =>
  (await mkdir(path, { recursive: true, mode: 0o700 })) !== undefined

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, O_RDONLY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

const listNames = async (path: string): Promise<string[]> =>
  (await ignoreMissing(readdir(path))) ?? []

const ignoreMissing = <Result>(work: Promise<Result>): Promise<Result | undefined> =>
  work.catch(error => {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return undefined
    throw error
  })

/** How many bytes of a blob are read at once. */
const PIECE = 256 * 1024

// The file is opened when its first bytes are wanted: an answer to HEAD wants none.
function streamFile(path: string): ReadableStream<Uint8Array> {
  let file: FileHandle | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        file ??= await open(path, O_RDONLY | O_NOFOLLOW)
        const bytes = new Uint8Array(PIECE)
        const { bytesRead } = await file.read(bytes, 0, PIECE)
        if (bytesRead > 0) return controller.enqueue(bytes.subarray(0, bytesRead))
        await file.close()
        controller.close()
      },
      cancel: () => file?.close(),
    },
    { highWaterMark: 0 },
  )
}

/** Deletes what processes that no longer run were writing, or had deleted the record of. */
async function sweepNotes(
  directory: string,
  hasRecord: (place: BlobPlace) => Promise<boolean>,
): Promise<number> {
  let swept = 0
  const root = join(directory, NOTES)
  for (const owner of await listNames(root)) {
    if (isRunningElsewhere(Number(owner))) continue
    for (const note of await listNames(join(root, owner)))
      if (await sweepNote(directory, note, hasRecord)) swept += 1
    await rm(join(root, owner), { recursive: true, force: true })
  }
  return swept
}

async function sweepNote(
  directory: string,
  note: string,
  hasRecord: (place: BlobPlace) => Promise<boolean>,
): Promise<boolean> {
  const [workspace_id = '', name = '', ...rest] = note.split('.')
  if (rest.length > 0 || !isOwnName(workspace_id) || !isOwnName(name)) return false
  const place = { workspace_id, name }
  if (await hasRecord(place)) return false
  await removeBlob(directory, place)
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
