import { SEAL_ROOM, type Seal } from '../../../kernel/seal.ts'
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
  #lines: string[] | null = null

  constructor(spool: Spool | null, seal: () => Seal) {
    this.#spool = spool
    this.#seal = seal
  }

  /**
   * Returns the payload of a message, wherever it is: as JSON, or sealed by itself. Empty where the
   * spool has it no more, or not as it was written.
   */
  readPayload(row: MessageRow): string {
    const place = findPlace(row)
    if (!place) return row.payload
    const lines = this.#openBlock(place)
    const line = (row.first ?? 0) * LINES
    return lines?.[line] === row.generation_id ? (lines[line + 1] ?? '') : ''
  }

  #openBlock(place: SpoolPlace): string[] | null {
    const name = nameContext(place.segment, place.start)
    if (name !== this.#name) {
      this.#lines = this.#readLines(place, name)
      this.#name = name
    }
    return this.#lines
  }

  #readLines(place: SpoolPlace, context: string): string[] | null {
    const block = this.#spool?.read(place)
    if (!block) return null
    try {
      return this.#seal().openBytes(block, context)?.split('\n') ?? null
    } catch {
      // The secret is missing.
      return null
    }
  }
}
