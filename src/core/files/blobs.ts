import type { ByteRange } from '../kernel/byte-source.ts'

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
  /** Begins a blob, which is unreadable until it is kept. */
  create(place: BlobPlace): Promise<BlobDraft>
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
