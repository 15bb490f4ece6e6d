import { type Static, Type } from '@sinclair/typebox'
import { isObject, omitUndefined } from '../base/json.ts'
import { PAGE_SIZE, PageQuery } from '../base/pages.ts'
import { UtcTime, Uuid } from '../base/schema-builders.ts'
import { type Actor, canManageAll } from './actor.ts'
import type { AuditEntry, AuditFilter } from './audit/store.ts'
import { defineNoun, defineOperation } from './operation.ts'
import type { IdentityWorld } from './world.ts'

const Text = Type.Optional(Type.String({ minLength: 1, maxLength: 1000 }))

const Time = Type.Optional(UtcTime)

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
 * Lists one page of changes, the newest first, from `since` on and before `until`. An actor who
 * manages one workspace only sees the changes in it. The entries of a deleted resource or workspace
 * stay.
 */
export async function listAudit(
  world: IdentityWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE, ...query }: AuditQuery,
) {
  if (
    !canManageAll(world, actor) &&
    (query.workspace_id ?? actor.workspace_id) !== actor.workspace_id
  )
    return { data: [], total_count: 0 }
  const own = canManageAll(world, actor) ? {} : { workspace_id: actor.workspace_id }
  const { entries, total } = await world.store.audit.listPage(
    { ...toAuditFilter(query), ...own },
    offset,
    limit,
  )
  return { data: entries.map(showEntry), total_count: total }
}

// Copies field by field, since a query may have others. Times are compared in the entries' format.
function toAuditFilter({
  action,
  resource_id,
  user_id,
  key_hash,
  workspace_id,
  since,
  until,
}: AuditQuery): AuditFilter {
  return omitUndefined({
    action,
    resource_id,
    user_id,
    key_hash,
    workspace_id,
    since: since && normalizeTime(since),
    until: until && normalizeTime(until),
  })
}

const normalizeTime = (time: string) => new Date(time).toISOString()

/**
 * Shows an entry with the names of the fields that changed; none for a creation or deletion.
 */
const showEntry = (entry: AuditEntry) => ({ ...entry, changed: listChangedFields(entry) })

function listChangedFields({ before, after }: AuditEntry): string[] {
  if (!isObject(before) || !isObject(after)) return []
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
}

/** What can be done with the audit trail: it is read-only. */
export const audit = defineNoun(
  { tag: 'Audit', access: 'management' },
  {
    list: defineOperation('GET /audit', 'listAudit', 'List changes, newest first', listAudit, {
      query: AuditQuery,
    }),
  },
)
