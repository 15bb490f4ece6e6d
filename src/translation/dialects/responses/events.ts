import type { Json } from '../../../base/json.ts'

/** An event in the making of an output item. A stream numbers it; a whole answer ignores it. */
export type ItemEvent = { type: string } & Json

/** An item while it is made: its place in the output, its current value, and how it ends. */
export interface OpenItem {
  readonly value: Json
  /** Ends the item, and returns the events of its end. */
  end(status: ItemStatus): ItemEvent[]
}

/** How an item ended. */
export type ItemStatus = 'completed' | 'incomplete'

/** The place of an item: its position in the output, and its id. */
export interface ItemPlace {
  output_index: number
  item_id: string
}

/** Renders the event with which an item begins. The item changes later, so it is copied. */
export const renderAdded = ({ output_index }: ItemPlace, item: Json): ItemEvent => ({
  type: 'response.output_item.added',
  output_index,
  item: { ...item },
})

/** Renders the event with which an item is whole. */
export const renderDone = ({ output_index }: ItemPlace, item: Json): ItemEvent => ({
  type: 'response.output_item.done',
  output_index,
  item: { ...item },
})

/** Renders a piece of the text of an item that is no message: the words that a tool brings. */
export const renderTextDelta = (place: ItemPlace, delta: string): ItemEvent => ({
  type: 'response.output_text.delta',
  ...place,
  content_index: 0,
  delta,
  logprobs: [],
})
