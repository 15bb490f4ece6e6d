import { constants } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { giveToOwner } from '../../base/owner.ts'
import type { BlobDraft, BlobPlace } from '../../resources/files/blobs.ts'
import { countBlocks } from '../../resources/files/quota.ts'
import type { Notes } from './notes.ts'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants

/** Where drafts become blobs. */
interface BlobShelf {
  notes: Notes
  /** Whether it is elsewhere: it may get something without knowing. */
  isRemote: boolean
  /** Makes a durable blob of a draft's file, which it may move. */
  publish(place: BlobPlace, file: DraftFile): Promise<void>
  /** Deletes a blob, if there is one. */
  remove(place: BlobPlace): Promise<void>
}

/** The file of a draft that is complete. */
export interface DraftFile {
  path: string
  handle: FileHandle
  size: number
  /** The SHA-256 of its bytes, in hexadecimal digits. */
  sha256: string
}

/**
 * A blob as a file beside the notes, until it is published. Its place is noted before its first
 * byte, and forgotten when it has its record or is gone.
 */
export class FileDraft implements BlobDraft {
  readonly #shelf: BlobShelf
  readonly #place: BlobPlace
  readonly #file: FileHandle
  readonly #hash = new Bun.CryptoHasher('sha256')
  #digest: string | undefined
  #size = 0
  #blocks = 0
  #isOver = false

  private constructor(shelf: BlobShelf, place: BlobPlace, file: FileHandle) {
    this.#shelf = shelf
    this.#place = place
    this.#file = file
    this.#countBlocks(countBlocks(0))
  }

  static async open(shelf: BlobShelf, place: BlobPlace): Promise<FileDraft> {
    const flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
    await shelf.notes.add(place)
    const file = await open(shelf.notes.getTempPath(place), flags, 0o600).catch(async thrown => {
      await shelf.notes.forget(place)
      throw thrown
    })
    giveToOwner(shelf.notes.getTempPath(place), file.fd)
    return new FileDraft(shelf, place, file)
  }

  get size(): number {
    return this.#size
  }

  digest(): string {
    this.#digest ??= this.#hash.digest('hex')
    return this.#digest
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes)
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, done, bytes.length - done, this.#size)
      done += bytesWritten
      this.#size += bytesWritten
    }
    this.#countBlocks(countBlocks(this.#size))
  }

  #countBlocks(blocks: number): void {
    this.#shelf.notes.growDraft(this.#place, blocks - this.#blocks)
    this.#blocks = blocks
  }

  async readAt(position: number, length: number): Promise<Uint8Array> {
    return readFileAt(this.#file, position, Math.min(length, this.#size - position))
  }

  async keep(insertRecord: () => Promise<void>): Promise<void> {
    const { notes } = this.#shelf
    const path = notes.getTempPath(this.#place)
    const file = { path, handle: this.#file, size: this.#size, sha256: this.digest() }
    await this.#shelf.publish(this.#place, file).catch(async thrown => {
      if (this.#shelf.isRemote) await this.#withdraw(true)
      else await this.discard()
      throw thrown
    })
    await insertRecord().catch(async thrown => {
      await this.#withdraw(false)
      throw thrown
    })
    this.#isOver = true
    await this.#dropFile()
    await notes.forget(this.#place)
  }

  // The note of a blob that cannot be deleted stays: the next start of a server tries again.
  // So does that of one whose request was cut: it may be complete after all, and later.
  async #withdraw(isUncertain: boolean): Promise<void> {
    const isGone = await this.#shelf.remove(this.#place).then(
      () => true,
      () => false,
    )
    if (isGone && !isUncertain) await this.discard()
    else await this.#dropFile()
    this.#isOver = true
  }

  async discard(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    await this.#dropFile()
    await this.#shelf.notes.forget(this.#place)
  }

  async #dropFile(): Promise<void> {
    await this.#file.close().catch(() => undefined)
    this.#countBlocks(0)
    await rm(this.#shelf.notes.getTempPath(this.#place), { force: true })
  }
}

/** Reads so many bytes of a file from a position, or fewer at its end. */
export async function readFileAt(
  file: FileHandle,
  position: number,
  length: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(Math.max(0, length))
  let done = 0
  while (done < bytes.length) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done)
    if (bytesRead === 0) break
    done += bytesRead
  }
  return bytes.subarray(0, done)
}
