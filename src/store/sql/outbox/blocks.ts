import { SEAL_ROOM, type Seal } from '../../../base/seal.ts'
import type { Spool, SpoolPlace } from '../../spool.ts'
import { findPlace, type MessageRow } from './bundles.ts'

/** A block has two lines for each message: the id of its call, and its JSON. */
const LINES = 2

/** In bytes: what most blocks are written in before they are sealed. */
const ROOM = 1024 * 1024

/** Seals the messages of batches, each into a block. */
export class BlockWriter {
  // Kept: to make one for each block takes longer than to fill it.
  #room: Buffer | null = null

  /**
   * Seals messages into a block that opens at its place alone. Returns it, as it is until the next,
   * with the bytes of each payload.
   */
  seal(
    seal: Seal,
    { segment, start }: Omit<SpoolPlace, 'length'>,
    { ids, payloads }: { ids: string[]; payloads: string[] },
  ): { block: Uint8Array; sizes: number[] } {
    const room = this.#findRoom(ids, payloads)
    const sizes: number[] = []
    let end = SEAL_ROOM
    for (const [i, id] of ids.entries()) {
      end += room.write(id, end)
      room[end++] = LINE_FEED
      const size = room.write(payloads[i] ?? '', end)
      sizes.push(size)
      end += size
      room[end++] = LINE_FEED
    }
    const nonce = crypto.getRandomValues(new Uint8Array(12))
    const block = room.subarray(0, end)
    seal.sealInPlace(block, nameContext(segment, start), nonce)
    return { block, sizes }
  }

  #findRoom(ids: string[], payloads: string[]): Buffer {
    let most = SEAL_ROOM
    for (const [i, id] of ids.entries())
      most += (id.length + (payloads[i] ?? '').length) * MOST_BYTES + LINES
    if (most > ROOM) return Buffer.allocUnsafeSlow(most)
    this.#room ??= Buffer.allocUnsafeSlow(ROOM)
    return this.#room
  }
}

const LINE_FEED = 10
/** Of a character in UTF-8, as JavaScript counts them. */
const MOST_BYTES = 3

const nameContext = (segment: number, start: number): string => `spool ${segment} ${start}`

/** Reads messages from the spool: rows of one block, one after the other. */
export class BlockReader {
  readonly #spool: Spool | null
  readonly #seal: () => Seal
  #name = ''
  #lines: Buffer[] | null = null

  constructor(spool: Spool | null, seal: () => Seal) {
    this.#spool = spool
    this.#seal = seal
  }

  /**
   * Returns the payload of a message, wherever it is: as JSON, or sealed by itself. Empty where the
   * spool has it no more, or not as it was written.
   */
  readPayload(row: MessageRow): string {
    return findPlace(row) ? this.readBytes(row).toString() : row.payload
  }

  /** Returns the same in UTF-8. Messages of one block share its memory. */
  readBytes(row: MessageRow): Buffer {
    const place = findPlace(row)
    if (!place) return Buffer.from(row.payload)
    const lines = this.#openBlock(place)
    const line = (row.first ?? 0) * LINES
    const isCalls = lines?.[line]?.toString() === row.generation_id
    return (isCalls && lines?.[line + 1]) || NOTHING
  }

  #openBlock(place: SpoolPlace): Buffer[] | null {
    const name = nameContext(place.segment, place.start)
    if (name !== this.#name) {
      this.#lines = this.#readLines(place, name)
      this.#name = name
    }
    return this.#lines
  }

  #readLines(place: SpoolPlace, context: string): Buffer[] | null {
    const block = this.#spool?.read(place)
    if (!block) return null
    try {
      const opened = this.#seal().openBytes(block, context)
      return opened ? cutLines(opened) : null
    } catch {
      // The secret is missing.
      return null
    }
  }
}

const NOTHING = Buffer.alloc(0)

/** Cuts bytes after each line feed. */
function cutLines(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  let start = 0
  for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
    lines.push(bytes.subarray(start, end))
    start = end + 1
  }
  return lines
}
