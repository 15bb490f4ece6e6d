import { type Static, Type } from '@sinclair/typebox'
import { defined, isObject } from '../kernel/json.ts'
import { PAGE_SIZE, PageQuery } from '../kernel/pages.ts'
import { Uuid } from '../kernel/schema-builders.ts'
import type { Actor } from './actor.ts'
import { managesAll } from './management.ts'
import type { IdentityWorld } from './world.ts'

/**
 * One change that somebody made: who, what and when, and the thing before and after it. Never a
 * secret. Times in ISO 8601.
 */
export interface AuditEntry {
  id: string
  created_at: string
  /** What kind of actor it was, who he is, and with which key; null at the terminal. */
  actor: Actor['kind']
  user_id: string
  key_hash: string | null
  /** The workspace of what was changed; null for what belongs to none. */
  workspace_id: string | null
  /** `<noun>.<verb>`: `keys.create`. */
  action: string
  resource_id: string
  before: object | null
  after: object | null
}

/**
 * Which entries are meant: those that fit in every member that is there. `since` is the first
 * moment, `until` the first one after it.
 */
export type AuditFilter = Partial<
  Pick<AuditEntry, 'action' | 'resource_id' | 'user_id' | 'key_hash' | 'workspace_id'>
> & {
  since?: string
  until?: string
}

/**
 * Remembers what was changed. Entries are added with the changes that they tell of, and no method
 * changes or removes one.
 */
export interface AuditStore {
  /** Some of the entries that are meant, the newest first, and how many they are in all. */
  page(
    filter: AuditFilter,
    offset: number,
    limit: number,
  ): Promise<{ entries: AuditEntry[]; total: number }>
}

const Text = Type.Optional(Type.String({ minLength: 1, maxLength: 1000 }))
const Time = Type.Optional(Type.String({ format: 'utc-time' }))

/** The query of `GET /audit`. */
export const AuditQuery = Type.Object({
  ...PageQuery.properties,
  action: Text,
  resource_id: Text,
  user_id: Text,
  key_hash: Text,
  workspace_id: Type.Optional(Uuid),
  since: Time,
  until: Time,
})
export type AuditQuery = Static<typeof AuditQuery>

/**
 * One page of what was changed, the newest first: from `since` on and before `until`. Whoever
 * manages one workspace only sees what was changed there. A thing or a workspace that is gone has
 * its entries still.
 */
export async function listAudit(
  gateway: IdentityWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE, ...query }: AuditQuery,
) {
  if (
    !managesAll(gateway, actor) &&
    (query.workspace_id ?? actor.workspace_id) !== actor.workspace_id
  )
    return { data: [], total_count: 0 }
  const own = managesAll(gateway, actor) ? {} : { workspace_id: actor.workspace_id }
  const { entries, total } = await gateway.store.audit.page(
    { ...filterOf(query), ...own },
    offset,
    limit,
  )
  return { data: entries.map(shownEntry), total_count: total }
}

// Field by field: a query may hold more. A moment is compared in the form in which entries have it.
function filterOf({
  action,
  resource_id,
  user_id,
  key_hash,
  workspace_id,
  since,
  until,
}: AuditQuery): AuditFilter {
  return defined({
    action,
    resource_id,
    user_id,
    key_hash,
    workspace_id,
    since: since && moment(since),
    until: until && moment(until),
  })
}

const moment = (time: string) => new Date(time).toISOString()

/**
 * An entry with the names of the fields that the change touched; none where a thing was made or
 * removed.
 */
const shownEntry = (entry: AuditEntry) => ({ ...entry, changed: changedIn(entry) })

function changedIn({ before, after }: AuditEntry): string[] {
  if (!isObject(before) || !isObject(after)) return []
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
}
