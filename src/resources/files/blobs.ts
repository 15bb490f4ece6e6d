import type { ByteRange } from '../../base/byte-source.ts'
import { GatewayError, notFound } from '../../base/errors.ts'

/** Where a blob is: a workspace and a name. Both are ids that the gateway has made itself. */
export interface BlobPlace {
  workspace_id: string
  name: string
}

/**
 * Stores the bytes of files. Nothing that is half-written is ever readable. A process that is
 * killed leaves a note of each blob that it was writing or deleting, so that `sweep` finds what
 * has no record without looking at all others. `test/suites/blob-store.ts` specifies what every
 * store must do.
 */
export interface BlobStore {
  /** Whether it is elsewhere, so that reading everything takes long and costs. */
  readonly isRemote: boolean
  /** Begins a blob, which is unreadable until it is kept. */
  create(place: BlobPlace): Promise<BlobDraft>
  /** Returns what the drafts of a workspace take on the disk now, in bytes of whole blocks. */
  countDrafts(workspace_id: string): number
  /** Reads a blob, or bytes that it has, piece by piece. Throws where there is none. */
  read(place: BlobPlace, range?: ByteRange): Promise<ReadableStream<Uint8Array>>
  /** Returns the bytes of a blob; undefined where there is none. */
  size(place: BlobPlace): Promise<number | undefined>
  /** Deletes a blob after its record, which `removeRecord` removes. If that throws, it stays. */
  remove(place: BlobPlace, removeRecord: () => Promise<void>): Promise<void>
  /** Deletes all blobs of a workspace, which gets no more. Again it costs next to nothing. */
  removeWorkspace(workspace_id: string): Promise<void>
  /** Lists every blob, for checks. */
  list(): AsyncIterable<BlobPlace>
  /**
   * Deletes what killed processes have left: half-written blobs, and those without a record.
   * Returns how many blobs it has deleted.
   */
  sweep(hasRecord: (place: BlobPlace) => Promise<boolean>): Promise<number>
  /** Waits for deletions that still run. */
  close(): Promise<void>
}

/** A blob that is being written. It ends with `keep` or `discard`. */
export interface BlobDraft {
  /** How many bytes were written. */
  readonly size: number
  /** Returns the SHA-256 of what was written, in hexadecimal digits. Then nothing more is written. */
  digest(): string
  write(bytes: Uint8Array): Promise<void>
  /** Reads what was written: at most `length` bytes from a position. */
  readAt(position: number, length: number): Promise<Uint8Array>
  /**
   * Makes the blob durable, then runs `insertRecord`. If that throws, the blob is deleted and the
   * same is thrown.
   */
  keep(insertRecord: () => Promise<void>): Promise<void>
  /** Deletes what was written. After `keep`, and a second time, it does nothing. */
  discard(): Promise<void>
}

/** What is on record of a file’s bytes. */
export interface KnownBytes {
  /** What people know the file by. */
  name: string
  size_bytes: number
  /** Of all its bytes, in hexadecimal digits; null where that is not known. */
  sha256: string | null
}

/**
 * Reads a file’s bytes, or some of them, as they were written: what reads them never takes a cut or
 * changed file for a whole one. Throws 404 where they are missing or were cut. The stream of all
 * bytes fails in the place of its last piece where they were changed.
 */
export async function readBlob(
  blobs: BlobStore,
  place: BlobPlace,
  known: KnownBytes,
  range?: ByteRange,
): Promise<ReadableStream<Uint8Array>> {
  const size = await blobs.size(place)
  if (size === undefined) throw damaged(known, 'its bytes are missing')
  if (size !== known.size_bytes)
    throw damaged(known, `it has ${size} bytes, where ${known.size_bytes} were stored`)
  const bytes = await blobs.read(place, range ?? { start: 0, length: size })
  return range ? bytes : checkBytes(bytes, known)
}

const damaged = ({ name }: KnownBytes, found: string) =>
  notFound(`${name} is damaged, and has to be stored again: ${found}`)

// The last piece waits until all bytes are known to be right: with it an answer would be complete.
function checkBytes(
  bytes: ReadableStream<Uint8Array>,
  known: KnownBytes,
): ReadableStream<Uint8Array> {
  const reader = bytes.getReader()
  const hash = new Bun.CryptoHasher('sha256')
  let [read, last] = [0, undefined as Uint8Array | undefined]
  const requireSame = () => {
    if (read !== known.size_bytes) throw damaged(known, 'it ended before its last byte')
    if (known.sha256 !== null && hash.digest('hex') !== known.sha256)
      throw damaged(known, 'its bytes were changed')
  }
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read()
          if (done) {
            requireSame()
            if (last) controller.enqueue(last)
            return controller.close()
          }
          hash.update(value)
          read += value.length
          const piece = last
          last = value
          if (piece) return controller.enqueue(piece)
        }
      },
      cancel: reason => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

/**
 * Returns a sentence about what is wrong with a file’s bytes; null for those that are as they were
 * written. It reads them all, but in a bucket: there their number is compared.
 */
export async function findDamage(
  blobs: BlobStore,
  place: BlobPlace,
  known: KnownBytes,
): Promise<string | null> {
  try {
    const bytes = await readBlob(blobs, place, known)
    if (blobs.isRemote) await bytes.cancel()
    else for await (const _ of bytes);
    return null
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.type === 'not_found') return thrown.message
    throw thrown
  }
}

/** A name that the gateway makes: hexadecimal digits and hyphens, as in ids. */
const OWN_NAME = /^[0-9a-f][0-9a-f-]{0,63}$/

/** Throws for a place that is not made of ids: no path may be made of anything else. */
export function checkPlace({ workspace_id, name }: BlobPlace): void {
  checkOwnName(workspace_id)
  checkOwnName(name)
}

/** Throws for a text that is no id of the gateway's. */
export function checkOwnName(name: string): void {
  if (!isOwnName(name)) throw new Error('A blob has a name that is no id')
}

/** Whether a text may be a part of a blob's path. */
export const isOwnName = (name: string): boolean => OWN_NAME.test(name)
