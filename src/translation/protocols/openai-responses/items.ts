import { type Json, parseCount, readString } from '../../../base/json.ts'
import { unreadableAnswer } from '../failure.ts'

/** The state of one item of the answer while its events arrive. */
export interface ItemState {
  /** The id that the item began with. Some servers send another one in each event. */
  id: string | null
  /**
   * The pieces that have been returned, by kind and position, each with the number of its block.
   */
  pieces: Map<string, number>
  /** The index of the item's tool call, once that has begun. */
  callIndex: number | null
  /** Whether a message announces what the model does next, or is its answer. */
  phase: string | null
  isDone: boolean
}

/** The keys of a lookup, and the item that it found. */
interface ItemLookup {
  outputIndex: unknown
  id: string | null
  item: ItemState | undefined
}

const NOTHING: ItemLookup = { outputIndex: undefined, id: null, item: undefined }

/** The most items and pieces of items that an answer may have. No real one comes close. */
const MAX_PIECES = 4_096

/**
 * The items of one answer. Their position in the output identifies them, or else their id. Some
 * servers leave out the position, and some change the id.
 */
export class Items {
  readonly #items = new Map<string, ItemState>()
  /** The last lookup and its item. */
  #lastLookup: ItemLookup = NOTHING
  #count = 0

  /** Whether nothing of any item has been returned. */
  get isUntouched(): boolean {
    return [...this.#items.values()].every(
      ({ pieces, callIndex, isDone }) => pieces.size === 0 && callIndex === null && !isDone,
    )
  }

  /** Returns the item that begins here. If an item begins twice, it is still one. */
  begin(event: Json, id: string | null): ItemState {
    const existing = this.#find(event, id)
    return existing && !existing.isDone && (existing.id === id || existing.id === null)
      ? existing
      : this.#addItem(event, id)
  }

  /** Returns the item that this event belongs to; a new one if its beginning never came. */
  findOrAdd(event: Json): ItemState {
    return (
      this.#find(event, readString(event.item_id)) ??
      this.#addItem(event, readString(event.item_id))
    )
  }

  /** Returns the item that is whole now; null if it already was. */
  finish(event: Json, id: string | null): ItemState | null {
    const existing = this.#find(event, id)
    if (existing?.isDone && existing.id === id) return null
    const item = existing && !existing.isDone ? existing : this.#addItem(event, id)
    item.isDone = true
    return item
  }

  /**
   * Records that a piece of the item has been returned as this block. Throws `provider_unavailable`
   * if there are too many pieces.
   */
  markReturned(item: ItemState, piece: string, block = 0): void {
    if (!item.pieces.has(piece)) this.#countPiece()
    item.pieces.set(piece, block)
  }

  // Most events belong to the same item as the one before.
  #find({ output_index }: Json, id: string | null): ItemState | undefined {
    const last = this.#lastLookup
    if (last.item && last.outputIndex === output_index && last.id === id) return last.item
    const item = this.#lookUp(output_index, id)
    this.#lastLookup = { outputIndex: output_index, id, item }
    return item
  }

  // If position and id point at two items, the one with the matching id wins.
  #lookUp(output_index: unknown, id: string | null): ItemState | undefined {
    const byPosition = this.#items.get(buildPositionKey(output_index))
    const byId = id === null ? undefined : this.#items.get(buildIdKey(id))
    return byId && byPosition?.id !== id ? byId : byPosition
  }

  #addItem({ output_index }: Json, id: string | null): ItemState {
    this.#countPiece()
    this.#lastLookup = NOTHING
    const item: ItemState = { id, pieces: new Map(), callIndex: null, phase: null, isDone: false }
    if (typeof output_index === 'number') this.#items.set(buildPositionKey(output_index), item)
    if (id !== null) this.#items.set(buildIdKey(id), item)
    // Without position and id, an item must be the only one.
    if (typeof output_index !== 'number' && id === null)
      this.#items.set(buildPositionKey(undefined), item)
    return item
  }

  #countPiece(): void {
    this.#count += 1
    if (this.#count > MAX_PIECES) throw unreadableAnswer()
  }
}

const buildPositionKey = (output_index: unknown) =>
  `at ${typeof output_index === 'number' ? output_index : ''}`
const buildIdKey = (id: string) => `id ${id}`

/** Returns the key of a piece of an item: its kind, and its position among those of its kind. */
export const buildPieceKey = (kind: string, index: unknown): string =>
  `${kind} ${parseCount(index) ?? 0}`
