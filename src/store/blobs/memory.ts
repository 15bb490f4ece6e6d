import {
  type BlobDraft,
  type BlobPlace,
  type BlobStore,
  checkPlace,
} from '../../resources/files/blobs.ts'

/** Creates a store of blobs that ends with the process. */
export function createMemoryBlobs(): BlobStore {
  const blobs = new Map<string, { place: BlobPlace; bytes: Uint8Array }>()
  const nameOf = (place: BlobPlace) => {
    checkPlace(place)
    return `${place.workspace_id}/${place.name}`
  }
  const removeWhere = (isMeant: (place: BlobPlace) => boolean) => {
    for (const [name, { place }] of blobs) if (isMeant(place)) blobs.delete(name)
  }
  return {
    isRemote: false,
    create: async place => {
      const name = nameOf(place)
      return createMemoryDraft(
        bytes => void blobs.set(name, { place, bytes }),
        () => void blobs.delete(name),
      )
    },
    countDrafts: () => 0,
    async read(place, { start, length } = { start: 0, length: Infinity }) {
      const found = blobs.get(nameOf(place))
      if (!found) throw new Error('There is no such blob')
      return new Blob([found.bytes.slice(start, start + length)]).stream()
    },
    size: async place => blobs.get(nameOf(place))?.bytes.length,
    async remove(place, removeRecord) {
      const name = nameOf(place)
      await removeRecord()
      blobs.delete(name)
    },
    removeWorkspace: async id => removeWhere(({ workspace_id }) => workspace_id === id),
    async *list() {
      yield* [...blobs.values()].map(({ place }) => place)
    },
    // No process outlives its memory.
    sweep: async () => 0,
    close: async () => undefined,
  }
}

function createMemoryDraft(publish: (bytes: Uint8Array) => void, remove: () => void): BlobDraft {
  let pieces: Uint8Array[] = []
  let size = 0
  const join = () => {
    pieces = [Buffer.concat(pieces)]
    return pieces[0] as Uint8Array
  }
  return {
    get size() {
      return size
    },
    async write(bytes) {
      pieces.push(Uint8Array.from(bytes))
      size += bytes.length
    },
    digest: () => new Bun.CryptoHasher('sha256').update(join()).digest('hex'),
    readAt: async (position, length) => join().slice(position, position + length),
    async keep(insertRecord) {
      publish(join())
      await insertRecord().catch(thrown => {
        remove()
        throw thrown
      })
    },
    discard: async () => undefined,
  }
}
