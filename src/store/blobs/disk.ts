import { constants } from 'node:fs'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeOwnDirectory } from '../../base/owner.ts'
import {
  type BlobPlace,
  type BlobStore,
  checkOwnName,
  isOwnName,
} from '../../resources/files/blobs.ts'
import { hasCode } from '../data-files.ts'
import { type DraftFile, FileDraft } from './draft.ts'
import { ignoreMissing, listNames, NOTES, Notes, sweepNotes } from './notes.ts'
import { joinPlace } from './place.ts'

const { O_NOFOLLOW, O_RDONLY } = constants

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
  const remove = (place: BlobPlace) => removeBlob(directory, place)
  const publish = (place: BlobPlace, file: DraftFile) => publishFile(directory, place, file)
  const isRemote = false
  return {
    isRemote,
    create: place => FileDraft.open({ notes, isRemote, publish, remove }, place),
    countDrafts: workspace_id => notes.countDrafts(workspace_id),
    async read(place, range) {
      const path = getPath(directory, place)
      return streamFile(path, range ?? { start: 0, length: (await stat(path)).size })
    },
    async size(place) {
      const found = await ignoreMissing(stat(getPath(directory, place)))
      return found?.size
    },
    async remove(place, removeRecord) {
      // A disk that is full takes no note, and must not keep what would make room.
      await notes.add(place).catch(thrown => {
        if (!isFull(thrown)) throw thrown
      })
      await removeRecord().catch(async thrown => {
        await notes.forget(place)
        throw thrown
      })
      await remove(place)
      await notes.forget(place)
    },
    removeWorkspace(id) {
      checkOwnName(id)
      const removal = rm(join(directory, id), { recursive: true, force: true })
      running.add(removal)
      return removal.finally(() => running.delete(removal))
    },
    async *list() {
      for (const workspace_id of (await listNames(directory)).filter(isWorkspace))
        for (const shard of await listNames(join(directory, workspace_id)))
          for (const name of await listNames(join(directory, workspace_id, shard)))
            if (isOwnName(name)) yield { workspace_id, name }
    },
    sweep: hasRecord => sweepNotes({ directory, hasRecord, removeBlob: remove }),
    async close() {
      await Promise.allSettled(running)
      await notes.close()
    },
  }
}

const isFull = (error: unknown): boolean => hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')

const isWorkspace = (name: string) => name !== NOTES && isOwnName(name)

const getPath = (directory: string, place: BlobPlace): string => join(directory, joinPlace(place))

const removeBlob = async (directory: string, place: BlobPlace): Promise<void> => {
  await ignoreMissing(rm(getPath(directory, place), { force: true }))
}

async function publishFile(
  directory: string,
  place: BlobPlace,
  { path: temp, handle }: DraftFile,
): Promise<void> {
  await handle.sync()
  await handle.close()
  const path = getPath(directory, place)
  const [shard, workspace] = [join(path, '..'), join(path, '../..')]
  const isNew = makeOwnDirectory(shard)
  await rename(temp, path)
  for (const changed of isNew ? [shard, workspace, directory] : [shard])
    await syncDirectory(changed)
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, O_RDONLY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** How many bytes of a blob are read at once. */
const PIECE = 256 * 1024

// The file is opened when its first bytes are wanted: an answer to HEAD wants none.
function streamFile(path: string, range: { start: number; length: number }) {
  const reading = new FileReading(path, range)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const bytes = await reading.read()
        if (bytes) controller.enqueue(bytes)
        else controller.close()
      },
      cancel: () => reading.close(),
    },
    { highWaterMark: 0 },
  )
}

/** Reads a range of a file. It is closed at its end, and when its reader goes: then after the read. */
class FileReading {
  readonly #path: string
  #position: number
  #left: number
  #file: FileHandle | undefined
  #last: Promise<unknown> | undefined

  constructor(path: string, { start, length }: { start: number; length: number }) {
    this.#path = path
    this.#position = start
    this.#left = length
  }

  /** Reads the next bytes; null at the end. */
  async read(): Promise<Uint8Array | null> {
    const read = this.#read()
    this.#last = read
    const bytes = await read.catch(async thrown => {
      await this.#closeFile()
      throw thrown
    })
    if (!bytes) await this.#closeFile()
    return bytes
  }

  /** Closes the file when nothing is read from it any more. */
  async close(): Promise<void> {
    await this.#last?.catch(() => undefined)
    await this.#closeFile()
  }

  async #read(): Promise<Uint8Array | null> {
    this.#file ??= await open(this.#path, O_RDONLY | O_NOFOLLOW)
    const bytes = new Uint8Array(Math.min(PIECE, this.#left))
    const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, this.#position)
    this.#position += bytesRead
    this.#left -= bytesRead
    return bytesRead > 0 ? bytes.subarray(0, bytesRead) : null
  }

  async #closeFile(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }
}
