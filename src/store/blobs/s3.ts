import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ByteRange } from '../../base/byte-source.ts'
import { giveToOwner, makeOwnDirectory } from '../../base/owner.ts'
import type { Bucket } from '../../network/bucket.ts'
import {
  type BlobPlace,
  type BlobStore,
  checkOwnName,
  checkPlace,
} from '../../resources/files/blobs.ts'
import { type DraftFile, FileDraft, readFileAt } from './draft.ts'
import { Notes, sweepNotes } from './notes.ts'
import { joinPlace, splitPlace } from './place.ts'

/**
 * Opens the store of blobs in a bucket, below `prefix`, with the paths that a directory has. A blob
 * is a file in `directory` until it is whole, and then one object that is there as a whole or not
 * at all. Its place is noted in `directory` as for a disk, so what a killed process was doing is
 * known where its database is.
 */
export function openS3Blobs(bucket: Bucket, prefix: string, directory: string): BlobStore {
  const notes = new Notes(directory)
  const root = prefix.replace(/\/$/, '').replace(/(.)$/, '$1/')
  const getKey = (place: BlobPlace) => root + joinPlace(place)
  const remove = async (place: BlobPlace) => bucket.remove(getKey(place))
  const publish = (place: BlobPlace, file: DraftFile) => putFile(bucket, getKey(place), file)
  const running = new Set<Promise<unknown>>()
  const store: BlobStore = {
    isRemote: true,
    async create(place) {
      checkPlace(place)
      // A backup may bring a workspace back.
      await rm(join(directory, EMPTIED, place.workspace_id), { force: true })
      return FileDraft.open({ notes, isRemote: true, publish, remove }, place)
    },
    countDrafts: workspace_id => notes.countDrafts(workspace_id),
    async read(place, range) {
      if (range) return streamObject(bucket, getKey(place), range)
      const size = await store.size(place)
      if (size === undefined) throw new Error('There is no such blob')
      return streamObject(bucket, getKey(place), { start: 0, length: size })
    },
    async size(place) {
      const key = getKey(place)
      const found = await bucket.find(key)
      return found?.size
    },
    async remove(place, removeRecord) {
      await notes.add(place)
      await removeRecord().catch(async thrown => {
        await notes.forget(place)
        throw thrown
      })
      // What cannot be deleted now stays noted: the next start of a server tries again.
      const isGone = await remove(place).then(
        () => true,
        () => false,
      )
      if (isGone) await notes.forget(place)
    },
    removeWorkspace(id) {
      checkOwnName(id)
      const removal = emptyWorkspace(bucket, `${root}${id}/`, join(directory, EMPTIED, id))
      running.add(removal)
      return removal.finally(() => running.delete(removal))
    },
    async *list() {
      for await (const { key } of bucket.list(root)) {
        const place = splitPlace(key.slice(root.length))
        if (place) yield place
      }
    },
    sweep: hasRecord =>
      sweepNotes({ directory, hasRecord, removeBlob: remove, lateness: LATEST_PUT }),
    async close() {
      await Promise.allSettled(running)
      await notes.close()
    },
  }
  return store
}

const putFile = (bucket: Bucket, key: string, { handle, size, sha256 }: DraftFile) =>
  bucket.put(
    key,
    { size, read: (position, length) => readFileAt(handle, position, Math.min(length, size)) },
    sha256,
  )

/** In milliseconds: what a process had sent may become an object so long after it was killed. */
const LATEST_PUT = 15 * 60_000

/** Where the workspaces are noted that have no blobs any more, and get none. */
const EMPTIED = 'emptied'

// A start of a server empties all deleted workspaces: asking the bucket about each once is enough.
async function emptyWorkspace(bucket: Bucket, folder: string, note: string): Promise<void> {
  if (existsSync(note)) return
  for await (const { key } of bucket.list(folder)) await bucket.remove(key)
  makeOwnDirectory(dirname(note))
  await writeFile(note, '', { mode: 0o600 })
  giveToOwner(note)
}

// The object is asked for when its first bytes are wanted: an answer to HEAD wants none.
function streamObject(bucket: Bucket, key: string, range: ByteRange): ReadableStream<Uint8Array> {
  const pieces = bucket.read(key, range)[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: async () => void (await pieces.return?.()),
    },
    { highWaterMark: 0 },
  )
}
