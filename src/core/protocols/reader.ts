import type { Json } from '../kernel/json.ts'
import { unreadable } from './failure.ts'

/** More alternatives, tool calls or open blocks than this in one answer is a provider gone wrong, and nothing may grow for it. */
const MOST_CHOICES = 128
export const MOST_CALLS = 128
export const MOST_OPEN = 128

/** No more characters than this are kept of what is given only when it is whole. */
export const MOST_HELD = 16 * 1024 * 1024

/** Which alternative an entry of an answer is: by its index, or where it has none by its position. Undefined where no answer has it. */
export function choiceAt(index: unknown, position: number): number | undefined {
  const choice = typeof index === 'number' ? index : position
  return Number.isInteger(choice) && choice >= 0 && choice < MOST_CHOICES ? choice : undefined
}

/** How many events may be unreadable before the stream itself is. */
const MOST_GARBAGE = 20

/** The events of one stream that nobody could read. */
export class Garbage {
  #events = 0

  /** Passes over one, which has no parts. Throws `provider_unavailable` when there have been too many. */
  pass(): never[] {
    this.#events += 1
    if (this.#events > MOST_GARBAGE) throw unreadable()
    return []
  }
}

/** What is known of a source besides its address, and where in the answer the words stand that rest on it, in characters. */
interface Cited {
  title?: unknown
  content?: unknown
  start_index?: unknown
  end_index?: unknown
}

/** A source as the chat API shows it (wire reference C.2). What nobody knows of it is left out. */
export function urlCitation(url: string, { title, content, start_index, end_index }: Cited): Json {
  const known = Object.entries({ title, content, start_index, end_index }).filter(
    ([, value]) => value != null,
  )
  return { type: 'url_citation', url_citation: { url, ...Object.fromEntries(known) } }
}

/** Whether it is the address of a page. The chat API has a form for no other source: a document of the caller's has none. */
export const isWebAddress = (url: string): boolean => /^https?:\/\//i.test(url)
