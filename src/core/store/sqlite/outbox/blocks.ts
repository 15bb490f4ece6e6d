import type { Seal } from '../../../kernel/seal.ts'
import type { Spool, SpoolPlace } from '../../spool.ts'
import { findPlace, type MessageRow } from './bundles.ts'

/** A block has two lines for each message: the id of its call, and its JSON. */
const LINES = 2

/** Seals messages into a block that opens at its place alone. */
export function sealBlock(
  seal: Seal,
  { segment, start }: Omit<SpoolPlace, 'length'>,
  { ids, payloads }: { ids: string[]; payloads: string[] },
): Uint8Array {
  let text = ''
  for (const [i, id] of ids.entries()) text += `${id}\n${payloads[i]}\n`
  const nonce = crypto.getRandomValues(new Uint8Array(12))
  return seal.sealBytes(text, nameContext(segment, start), nonce)
}

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
