import type { Refusal, RefusalCount } from '../refusals.ts'

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
export interface RefusalKinds {
  /** Grants a row, unless its kind has had all of its rows in this hour. */
  grantRow(refusal: Refusal): boolean
  /** Counts a refusal without a row at the last of its kind that has one. */
  count(refusal: KindOfRefusal): void
  /** Returns the counts that have changed since it was asked last. */
  takeCounts(): RefusalCount[]
}

/** Opens the kinds of refusals. What it holds is bounded, whatever callers send. */
export function openRefusalKinds(): RefusalKinds {
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
