import type { Generation } from '../generations/store.ts'
import {
  addCall,
  type CallFacts,
  type CallSums,
  type CountedCall,
  createSums,
  toDay,
  toHour,
  toWeek,
} from './calls.ts'
import type { SessionSums } from './sessions.ts'

/** What sums read of a call: of its record, or of what was read of that. */
export type SummedCall = CountedCall &
  Pick<
    Generation,
    | 'settled_at'
    | 'workspace_id'
    | 'key_hash'
    | 'user_id'
    | 'model'
    | 'provider_name'
    | 'http_referer'
    | 'title'
    | 'session_id'
  >

/** What the calls of one hour come to that share all that sums are grouped by. */
export interface HourSums {
  hour: number
  /** One of the calls: what they share is read from it. */
  call: SummedCall
  endpoint_id: string
  sums: CallSums
}

/** What a session did in a week with one model. */
interface SessionWeek extends SessionSums {
  week: number
  /** One of its calls. */
  call: SummedCall
}

/** Whether a call has in common with those of sums what these are kept by. */
const isOfSums = (
  { hour, call, endpoint_id }: HourSums,
  other: Pick<HourSums, 'hour' | 'call' | 'endpoint_id'>,
): boolean =>
  hour === other.hour &&
  endpoint_id === other.endpoint_id &&
  call.workspace_id === other.call.workspace_id &&
  call.key_hash === other.call.key_hash &&
  call.user_id === other.call.user_id &&
  call.model === other.call.model &&
  call.provider_name === other.call.provider_name &&
  call.is_byok === other.call.is_byok &&
  call.http_referer === other.call.http_referer &&
  call.title === other.call.title

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

  /** Adds the call that follows the last one, with its row and what a record lists. */
  add(
    call: SummedCall,
    { row, endpoint_id, isFiltered }: Pick<CallFacts, 'row' | 'endpoint_id' | 'isFiltered'>,
  ): void {
    const hour = toHour(Date.parse(call.settled_at))
    if (this.count === 0) this.first = row
    this.last = row
    this.count += 1
    const added = { hour, call, endpoint_id }
    if (!this.#lastSums || !isOfSums(this.#lastSums, added)) this.#lastSums = this.#openSums(added)
    addCall(this.#lastSums.sums, call, isFiltered)
    const rows = this.rows.get(hour)
    if (rows) rows.last = row
    else this.rows.set(hour, { first: row, last: row })
    if (call.session_id !== null) this.#addToSession(toWeek(toDay(hour)), call)
  }

  #openSums({ hour, call, endpoint_id }: Omit<HourSums, 'sums'>): HourSums {
    const { workspace_id, key_hash, user_id, model, provider_name, http_referer, title } = call
    const payer = [workspace_id, key_hash, user_id, call.is_byok]
    const server = [model, provider_name, endpoint_id]
    const name = JSON.stringify([hour, payer, server, http_referer, title])
    const found = this.hours.get(name) ?? { hour, call, endpoint_id, sums: createSums() }
    this.hours.set(name, found)
    return found
  }

  #addToSession(week: number, call: SummedCall): void {
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
    this.slice.add(generation, {
      row,
      endpoint_id: generation.provider_responses.at(-1)?.endpoint_id ?? '',
      isFiltered: generation.contentFilters.length > 0,
    })
  }

  /** Forgets them: they are in the roll-ups now, or are read again. */
  clear(): void {
    this.slice = new Slice()
  }
}

/** Adds a call to the sums of its session. A turn is a call that was answered. */
function addSessionCall(sums: SessionSums, call: CountedCall): void {
  sums.turns += Number(call.error_type === null && !call.cancelled)
  sums.cost += (call.total_cost ?? 0n) + readByokCost(call)
  sums.unpriced_calls += Number(isUnpriced(call))
}

const readByokCost = ({ is_byok, upstream_inference_cost }: CountedCall): bigint =>
  is_byok ? (upstream_inference_cost ?? 0n) : 0n

const isUnpriced = ({ is_byok, total_cost, upstream_inference_cost, error_type }: CountedCall) =>
  error_type === null && (is_byok ? upstream_inference_cost : total_cost) === null
