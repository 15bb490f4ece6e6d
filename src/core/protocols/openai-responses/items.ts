import { count, type Json, text } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'

/** The state of one item of the answer while its events arrive. */
export interface Item {
  /** The id that the item began with. Some servers send another one in each event. */
  id: string | null
  /**
   * The pieces that have been returned, by kind and position, each with the number of its block.
   */
  given: Map<string, number>
  /** The index of the item's tool call, once that has begun. */
  call: number | null
  done: boolean
}

/** The keys of a lookup, and the item that it found. */
interface Asked {
  place: unknown
  id: string | null
  item: Item | undefined
}

const NOTHING: Asked = { place: undefined, id: null, item: undefined }

/** The most items and pieces of items that an answer may have. No real one comes close. */
const MOST = 4_096

/**
 * The items of one answer. Their position in the output identifies them, or else their id. Some
 * servers leave out the position, and some change the id.
 */
export class Items {
  readonly #known = new Map<string, Item>()
  /** The last lookup and its item. */
  #last: Asked = NOTHING
  #kept = 0

  /** Whether nothing of any item has been returned. */
  get untouched(): boolean {
    return [...this.#known.values()].every(
      ({ given, call, done }) => given.size === 0 && call === null && !done,
    )
  }

  /** Returns the item that begins here. If an item begins twice, it is still one. */
  begun(event: Json, id: string | null): Item {
    const known = this.#find(event, id)
    return known && !known.done && (known.id === id || known.id === null)
      ? known
      : this.#new(event, id)
  }

  /** Returns the item that this event belongs to; a new one if its beginning never came. */
  of(event: Json): Item {
    return this.#find(event, text(event.item_id)) ?? this.#new(event, text(event.item_id))
  }

  /** Returns the item that is whole now; null if it already was. */
  done(event: Json, id: string | null): Item | null {
    const known = this.#find(event, id)
    if (known?.done && known.id === id) return null
    const item = known && !known.done ? known : this.#new(event, id)
    item.done = true
    return item
  }

  /**
   * Records that a piece of the item has been returned as this block. Throws `provider_unavailable`
   * if there are too many pieces.
   */
  give(item: Item, piece: string, block = 0): void {
    if (!item.given.has(piece)) this.#keep()
    item.given.set(piece, block)
  }

  // Most events belong to the same item as the one before.
  #find({ output_index }: Json, id: string | null): Item | undefined {
    const last = this.#last
    if (last.item && last.place === output_index && last.id === id) return last.item
    const item = this.#look(output_index, id)
    this.#last = { place: output_index, id, item }
    return item
  }

  // If position and id point at two items, the one with the matching id wins.
  #look(output_index: unknown, id: string | null): Item | undefined {
    const here = this.#known.get(placed(output_index))
    const called = id === null ? undefined : this.#known.get(named(id))
    return called && here?.id !== id ? called : here
  }

  #new({ output_index }: Json, id: string | null): Item {
    this.#keep()
    this.#last = NOTHING
    const item: Item = { id, given: new Map(), call: null, done: false }
    if (typeof output_index === 'number') this.#known.set(placed(output_index), item)
    if (id !== null) this.#known.set(named(id), item)
    // Without position and id, an item must be the only one.
    if (typeof output_index !== 'number' && id === null) this.#known.set(placed(undefined), item)
    return item
  }

  #keep(): void {
    this.#kept += 1
    if (this.#kept > MOST) throw unreadable()
  }
}

const placed = (output_index: unknown) =>
  `at ${typeof output_index === 'number' ? output_index : ''}`
const named = (id: string) => `id ${id}`

/** Returns the key of a piece of an item: its kind, and its position among those of its kind. */
export const pieceOf = (kind: string, index: unknown): string => `${kind} ${count(index) ?? 0}`
