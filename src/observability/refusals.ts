import { type Static, Type } from '@sinclair/typebox'
import type { Clock } from '../base/clock.ts'
import { hideCredentials } from '../base/credential.ts'
import type { GatewayError } from '../base/errors.ts'
import type { Events } from '../base/events.ts'
import { toPrintable } from '../base/printable.ts'
import { SomeId, SomeName } from '../base/schema-builders.ts'

/**
 * How many refusals of one kind, by status and error, have a row of their own in an hour of the
 * clock: of one known key, and of all callers whose key is missing or not known, as one can pretend
 * to be many.
 */
const MOST_OF_KEY = 100
const MOST_OF_STRANGERS = 10

/** How many kinds are told apart in an hour. */
const MOST_KINDS = 10_000

/** What tells the kind of a refusal. */
type KindOfRefusal = Pick<Refusal, 'created_at' | 'key_hash' | 'status' | 'error_type'>

/** Decides which refusals have a row of their own, and counts the others. */
interface RefusalKinds {
  /** Grants a row, unless its kind has had all of its rows in this hour. */
  grantRow(refusal: Refusal): boolean
  /** Counts a refusal without a row at the last of its kind that has one. */
  count(refusal: KindOfRefusal): void
  /** Returns the counts that have changed since it was asked last. */
  takeCounts(): RefusalCount[]
}

/** Opens the kinds of refusals. What it holds is bounded, whatever callers send. */
function openRefusalKinds(): RefusalKinds {
  const kinds = new Map<string, { rows: number; last: RefusalCount }>()
  const changed = new Set<RefusalCount>()
  let hour = ''

  function enterHour({ created_at }: KindOfRefusal): void {
    const now = created_at.slice(0, 'YYYY-MM-DDTHH'.length)
    if (now !== hour) kinds.clear()
    hour = now
  }

  return {
    grantRow(refusal) {
      enterHour(refusal)
      const name = nameKind(refusal)
      const rows = kinds.get(name)?.rows ?? 0
      const most = refusal.key_hash === null ? MOST_OF_STRANGERS : MOST_OF_KEY
      if (rows === most || (rows === 0 && kinds.size === MOST_KINDS)) return false
      const { id, created_at } = refusal
      const last = { id, created_at, left_out: 0, left_out_until: created_at }
      kinds.set(name, { rows: rows + 1, last })
      return true
    },
    count(refusal) {
      enterHour(refusal)
      const last = kinds.get(nameKind(refusal))?.last
      if (!last) return
      last.left_out += 1
      last.left_out_until = refusal.created_at
      changed.add(last)
    },
    takeCounts() {
      const counts = [...changed].map(count => ({ ...count }))
      changed.clear()
      return counts
    },
  }
}

const nameKind = ({ key_hash, status, error_type }: KindOfRefusal): string =>
  `${key_hash ?? ''} ${status} ${error_type}`

declare module '../base/events.ts' {
  interface EventMap {
    /** A call was refused before any provider was asked. */
    'call.refused': Refusal
    /** So many further refusals were not published, as there were too many at once. */
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

/** How many refusals like one that is stored have no row of their own. */
export interface RefusalCount {
  /** The stored one, by its id and time. */
  id: string
  created_at: string
  left_out: number
  /** The time of the last of them. */
  left_out_until: string
}

/** A refusal as it is stored: a larger sequence is a later one. */
export interface StoredRefusal extends Refusal {
  sequence: number
  left_out: number
  left_out_until: string | null
}

/** Which stored refusals are listed. */
export interface RefusalFilter {
  id?: string
  key_hash?: string
  /** A status, or all of a hundred: `5xx`. */
  status?: number | '4xx' | '5xx'
  /** Those before this sequence. */
  before?: number
  /** Those after this sequence. */
  after?: number
}

/** Stores refusals. They are a log: what is lost in a crash is lost. */
export interface RefusalStore {
  /** Adds refusals, oldest first, sets counts, and removes all but the newest `keep`. */
  add(refusals: Refusal[], counts: RefusalCount[], keep: number): Promise<void>
  /** Removes at most 1,000 from before this time, and counts them. */
  removeBefore(time: string, now: string): Promise<number>
  /** Lists the newest that match, newest first. */
  list(limit: number, filter?: RefusalFilter): Promise<StoredRefusal[]>
}

/** The query of `logs`. */
export const RefusalQuery = Type.Object({
  id: Type.Optional(SomeId),
  key_hash: Type.Optional(SomeName),
  status: Type.Optional(
    Type.Union([
      Type.Integer({ minimum: 400, maximum: 599 }),
      Type.Literal('4xx'),
      Type.Literal('5xx'),
    ]),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  /** What the page before has named. */
  cursor: Type.Optional(Type.String({ pattern: '^[1-9]\\d{0,14}$', title: 'a cursor of a list' })),
})
export type RefusalQuery = Static<typeof RefusalQuery>

/** The services that refusals use. */
interface RefusalReader {
  store: { refusals: Pick<RefusalStore, 'list'> }
}

/**
 * Lists calls that were refused, newest first. `next_cursor` asks for the page after; it is null on
 * the last one.
 */
export async function listRefusals(
  { store }: RefusalReader,
  { limit = 20, cursor, ...query }: RefusalQuery,
) {
  const before = cursor === undefined ? {} : { before: Number(cursor) }
  const found = await store.refusals.list(limit + 1, { ...query, ...before })
  const page = found.slice(0, limit)
  const isLast = found.length === page.length
  return {
    data: page.map(({ sequence: _, ...refusal }) => refusal),
    next_cursor: isLast ? null : String(page.at(-1)?.sequence),
  }
}

/** How many are read at once of those that are new. */
const MOST_NEW = 1000

/**
 * Yields calls that are refused from now on, oldest first, and never ends by itself: `wait` says
 * when to look again, and that there is an end by returning false.
 */
export async function* followRefusals(
  { store: { refusals } }: RefusalReader,
  filter: Pick<RefusalFilter, 'id' | 'key_hash' | 'status'>,
  wait: () => Promise<boolean>,
): AsyncGenerator<Refusal> {
  let [{ sequence: after } = { sequence: 0 }] = await refusals.list(1)
  while (await wait()) {
    const found = await refusals.list(MOST_NEW, { ...filter, after })
    for (const { sequence, left_out: _, left_out_until: __, ...refusal } of found.reverse()) {
      after = sequence
      yield refusal
    }
  }
}

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
/** The most that are published or written in one interval: a flood is counted. */
const MOST_AT_ONCE = 100
const LONGEST_TEXT = 300

/** Opens the log. What a flood costs has a bound, and no call waits for a write. */
export function openRefusalLog({ store, events, clock, readKeep }: RefusalWorld): RefusalLog {
  const kinds = openRefusalKinds()
  let pending: Refusal[] = []
  let published = 0
  let skipped = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let writing = Promise.resolve()

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const [batch, counts] = [pending, kinds.takeCounts()]
    pending = []
    if (skipped > 0) events.publish('refusals.skipped', { count: skipped })
    skipped = 0
    published = 0
    if (batch.length > 0 || counts.length > 0)
      writing = writing.then(() => store.add(batch, counts, readKeep())).catch(() => undefined)
    return writing
  }

  return {
    note(request, error) {
      if (readKeep() === 0) return
      timer ??= setTimeout(() => void flush(), INTERVAL).unref()
      const created_at = clock.now().toISOString()
      if (published === MOST_AT_ONCE) {
        skipped += 1
        kinds.count({ ...request, created_at, status: error.status, error_type: error.type })
        return
      }
      published += 1
      const refusal = describeRefusal(request, error, created_at)
      if (kinds.grantRow(refusal)) pending.push(refusal)
      else kinds.count(refusal)
      events.publish('call.refused', refusal)
    },
    flush,
  }
}

function describeRefusal(
  request: RefusedRequest,
  { status, type, message }: GatewayError,
  created_at: string,
): Refusal {
  const { path, model } = request
  const callersWords = { path: cut(path), model: model && cut(model), message: cut(message) }
  return { ...request, created_at, status, error_type: type, ...callersWords }
}

// Paths and model names are callers' own words.
const cut = (text: string): string =>
  toPrintable(hideCredentials(text.slice(0, LONGEST_TEXT)).toWellFormed())
