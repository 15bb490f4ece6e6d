import { type Static, Type } from '@sinclair/typebox'
import type { GatewayError } from '../errors.ts'
import type { Events } from '../events.ts'
import type { Clock } from '../kernel/clock.ts'
import { hideCredentials } from '../kernel/credential.ts'
import { toPrintable } from '../kernel/printable.ts'
import { SomeId } from '../kernel/schema-builders.ts'

declare module '../events.ts' {
  interface EventMap {
    /** A call was refused before any provider was asked. */
    'call.refused': Refusal
    /** So many further refusals were not noted, as there were too many at once. */
    'refusals.skipped': { count: number }
  }
}

/** A call that was refused before any provider was asked: it cost nothing and is no generation. */
export interface Refusal {
  /** The request id that the caller saw. */
  id: string
  created_at: string
  path: string
  status: number
  error_type: string
  message: string
  /** The mask of the key that was sent; null without one. */
  key: string | null
  /** Whose key it was; null for a key that is not known. */
  key_hash: string | null
  workspace_id: string | null
  model: string | null
}

/** Stores refusals. They are a log: what is lost in a crash is lost. */
export interface RefusalStore {
  /** Adds refusals, oldest first, and removes all but the newest `keep`. */
  add(refusals: Refusal[], keep: number): Promise<void>
  /** Lists the newest, newest first; with `id` those of one request. */
  list(limit: number, id?: string): Promise<Refusal[]>
}

/** The query of `logs`. */
export const RefusalQuery = Type.Object({
  id: Type.Optional(SomeId),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
})
export type RefusalQuery = Static<typeof RefusalQuery>

/** Lists calls that were refused, newest first. */
export const listRefusals = async (
  { store }: { store: { refusals: RefusalStore } },
  { id, limit = 20 }: RefusalQuery,
) => ({ data: await store.refusals.list(limit, id) })

/** What is known of a request that is refused. */
export type RefusedRequest = Omit<Refusal, 'created_at' | 'status' | 'error_type' | 'message'>

/** Notes refusals. Never throws and never waits. */
export interface RefusalLog {
  note(request: RefusedRequest, error: GatewayError): void
  /** Writes what is pending. */
  flush(): Promise<void>
}

/** What a log of refusals needs. `readKeep` returns how many are kept; none if it is 0. */
interface RefusalWorld {
  store: RefusalStore
  events: Events
  clock: Clock
  readKeep(): number
}

/** In milliseconds: how long refusals are collected before they are written at once. */
const INTERVAL = 500
/** The most that are noted in one interval: a flood is counted and not written. */
const MOST_AT_ONCE = 100
const LONGEST_TEXT = 300

/** Opens the log. A flood costs a hundred rows each half second, and no call waits for a write. */
export function openRefusalLog({ store, events, clock, readKeep }: RefusalWorld): RefusalLog {
  let pending: Refusal[] = []
  let skipped = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let writing = Promise.resolve()

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const batch = pending
    pending = []
    if (skipped > 0) events.publish('refusals.skipped', { count: skipped })
    skipped = 0
    if (batch.length > 0)
      writing = writing.then(() => store.add(batch, readKeep())).catch(() => undefined)
    return writing
  }

  return {
    note(request, { status, type, message }) {
      if (readKeep() === 0) return
      timer ??= setTimeout(() => void flush(), INTERVAL).unref()
      if (pending.length === MOST_AT_ONCE) {
        skipped += 1
        return
      }
      const created_at = clock.now().toISOString()
      const { path, model } = request
      const callersWords = { path: cut(path), model: model && cut(model), message: cut(message) }
      const refusal = { ...request, created_at, status, error_type: type, ...callersWords }
      pending.push(refusal)
      events.publish('call.refused', refusal)
    },
    flush,
  }
}

// Paths and model names are callers' own words.
const cut = (text: string): string =>
  toPrintable(hideCredentials(text.slice(0, LONGEST_TEXT)).toWellFormed())
