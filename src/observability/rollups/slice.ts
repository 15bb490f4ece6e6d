import type { Generation } from '../generations.ts'
import {
  addCall,
  type CallFacts,
  type CallSums,
  createSums,
  readFacts,
  toDay,
  toHour,
  toWeek,
} from './calls.ts'
import { addSessionCall, type SessionSums } from './sessions.ts'

/** What the calls of one hour come to that share all that sums are grouped by. */
interface HourSums {
  hour: number
  /** One of the calls: what they share is read from it. */
  call: CallFacts
  sums: CallSums
}

/** What a session did in a week with one model. */
interface SessionWeek extends SessionSums {
  week: number
  /** One of its calls. */
  call: CallFacts
}

/** What the calls of an hour have in common whose sums are kept together. */
const SHARED = [
  'workspace_id',
  'key_hash',
  'user_id',
  'model',
  'provider_name',
  'endpoint_id',
  'is_byok',
  'http_referer',
  'title',
] as const satisfies (keyof CallFacts)[]

const isOfSums = ({ hour, call }: HourSums, ofHour: number, other: CallFacts): boolean =>
  hour === ofHour && SHARED.every(fact => call[fact] === other[fact])

/** Consecutive calls as sums, by what they share. */
export class Slice {
  /** The rows of its first and last call; 0 without calls. */
  first = 0
  last = 0
  count = 0
  readonly hours = new Map<string, HourSums>()
  /** Which rows the calls of an hour are among. */
  readonly rows = new Map<number, { first: number; last: number }>()
  readonly sessions = new Map<string, SessionWeek>()
  /** The sums that the last call was added to: often those of the next one, too. */
  #lastSums: HourSums | null = null

  /** Adds the call that follows the last one. */
  add(call: CallFacts): void {
    const hour = toHour(Date.parse(call.settled_at))
    if (this.count === 0) this.first = call.row
    this.last = call.row
    this.count += 1
    this.#addToHour(hour, call)
    this.#addRow(hour, call.row)
    if (call.session_id !== null) this.#addToSession(toWeek(toDay(hour)), call)
  }

  #addToHour(hour: number, call: CallFacts): void {
    const last = this.#lastSums
    const found = last && isOfSums(last, hour, call) ? last : this.#openSums(hour, call)
    this.#lastSums = found
    addCall(found.sums, call)
  }

  #openSums(hour: number, call: CallFacts): HourSums {
    const name = JSON.stringify([hour, ...SHARED.map(fact => call[fact])])
    const found = this.hours.get(name) ?? { hour, call, sums: createSums() }
    this.hours.set(name, found)
    return found
  }

  #addRow(hour: number, row: number): void {
    const found = this.rows.get(hour)
    if (found) found.last = row
    else this.rows.set(hour, { first: row, last: row })
  }

  #addToSession(week: number, call: CallFacts): void {
    const { http_referer, title, model, key_hash, session_id } = call
    const name = JSON.stringify([week, http_referer, title, model, key_hash, session_id])
    const found = this.sessions.get(name) ?? { week, call, turns: 0, cost: 0n, unpriced_calls: 0 }
    this.sessions.set(name, found)
    addSessionCall(found, call)
  }
}

/** How many calls may wait in memory. A process that never adds them to the roll-ups forgets them. */
const MOST = 1_000

/**
 * The sums of the calls that this process recorded last, so that they need not be read again. They
 * are a part of the records without a gap: what does not follow on the last call begins anew.
 */
export class FreshCalls {
  slice = new Slice()

  /** Adds a call that is on record now, at this row. */
  note(generation: Generation, row: number): void {
    if (row !== this.slice.last + 1 || this.slice.count >= MOST) this.clear()
    this.slice.add(readFacts(generation, row))
  }

  /** Forgets them: they are in the roll-ups now, or are read again. */
  clear(): void {
    this.slice = new Slice()
  }
}
