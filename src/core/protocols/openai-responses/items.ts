import { count, type Json, text } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'

/** One item of the answer while its events come. */
export interface Item {
  /** The id that the item began with: some servers give it another in each event. */
  id: string | null
  /** Which of its pieces have been given, by kind and place, with the number of the block that each is. */
  given: Map<string, number>
  /** The call that it is, once that has begun. */
  call: number | null
  done: boolean
}

/** By what an item was asked for, and the item. */
interface Asked {
  place: unknown
  id: string | null
  item: Item | undefined
}

const NOTHING: Asked = { place: undefined, id: null, item: undefined }

/** More items, or pieces of items, than any answer has. */
const MOST = 4_096

/**
 * The items of one answer. They are told apart by their place in the output, which stays the same, or else by their id: some
 * servers leave out the one, some change the other.
 */
export class Items {
  readonly #known = new Map<string, Item>()
  /** What was asked for last, and which item it was. */
  #last: Asked = NOTHING
  #kept = 0

  /** Whether nothing has been given of any item. */
  get untouched(): boolean {
    return [...this.#known.values()].every(
      ({ given, call, done }) => given.size === 0 && call === null && !done,
    )
  }

  /** The item that begins here. Told twice, it is one. */
  begun(event: Json, id: string | null): Item {
    const known = this.#find(event, id)
    return known && !known.done && (known.id === id || known.id === null)
      ? known
      : this.#new(event, id)
  }

  /** The item that this event tells of; a new one where nothing was said of its beginning. */
  of(event: Json): Item {
    return this.#find(event, text(event.item_id)) ?? this.#new(event, text(event.item_id))
  }

  /** The item that is whole now; null when it has been before. */
  done(event: Json, id: string | null): Item | null {
    const known = this.#find(event, id)
    if (known?.done && known.id === id) return null
    const item = known && !known.done ? known : this.#new(event, id)
    item.done = true
    return item
  }

  /** Notes that a piece of the item has been given, as this block. Throws `provider_unavailable` when there is no end to them. */
  give(item: Item, piece: string, block = 0): void {
    if (!item.given.has(piece)) this.#keep()
    item.given.set(piece, block)
  }

  // Most events tell of the item that the one before told of.
  #find({ output_index }: Json, id: string | null): Item | undefined {
    const last = this.#last
    if (last.item && last.place === output_index && last.id === id) return last.item
    const item = this.#look(output_index, id)
    this.#last = { place: output_index, id, item }
    return item
  }

  // Where place and id point at two items, the id that fits decides.
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
    // What has neither a place nor an id is the one item that there is.
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

/** What a piece of an item is known by: its kind, and its place among its like. */
export const pieceOf = (kind: string, index: unknown): string => `${kind} ${count(index) ?? 0}`
