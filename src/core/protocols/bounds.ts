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
