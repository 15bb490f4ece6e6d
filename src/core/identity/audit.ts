import { type Static, Type } from '@sinclair/typebox'
import type { Fingerprint } from '../kernel/fingerprint.ts'
import { isObject } from '../kernel/json.ts'
import type { Actor } from './actor.ts'
import { managesAll } from './management.ts'
import type { IdentityWorld } from './world.ts'

/** One change that somebody made: who, what and when, and the thing before and after it. Never a secret. Times in ISO 8601. */
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

/** What was changed. */
export interface Audited {
  id: string
  workspace_id: string | null
}

/** Which entries are meant: those that fit in every member that is there. `since` is the first moment, `until` the first one after it. */
export type AuditFilter = Partial<Pick<AuditEntry, 'action' | 'resource_id' | 'user_id' | 'key_hash' | 'workspace_id'>> & {
  since?: string
  until?: string
}

/** Remembers what was changed. Entries are added with the changes that they tell of, and no method changes or removes one. */
export interface AuditStore {
  /** Some of the entries that are meant, the newest first, and how many they are in all. */
  page(filter: AuditFilter, offset: number, limit: number): Promise<{ entries: AuditEntry[]; total: number }>
}

const Text = Type.Optional(Type.String({ minLength: 1, maxLength: 1000 }))
const Time = Type.Optional(Type.String({ format: 'utc-time' }))

/** The query of `GET /audit`. */
export const AuditQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  action: Text,
  resource_id: Text,
  user_id: Text,
  key_hash: Text,
  workspace_id: Type.Optional(Type.String({ format: 'uuid' })),
  since: Time,
  until: Time,
})
export type AuditQuery = Static<typeof AuditQuery>

const PAGE = 50

/**
 * One page of what was changed, the newest first: from `since` on and before `until`. Whoever manages one workspace only sees what was
 * changed there. A thing or a workspace that is gone has its entries still.
 */
export async function listAudit(gateway: IdentityWorld, actor: Actor, { offset = 0, limit = PAGE, ...query }: AuditQuery) {
  if (!managesAll(gateway, actor) && (query.workspace_id ?? actor.workspace_id) !== actor.workspace_id) return { data: [], total_count: 0 }
  const own = managesAll(gateway, actor) ? {} : { workspace_id: actor.workspace_id }
  const { entries, total } = await gateway.store.audit.page({ ...filterOf(query), ...own }, offset, limit)
  return { data: entries.map(shownEntry), total_count: total }
}

// Field by field: a query may hold more. A moment is compared in the form in which entries have it.
function filterOf({ action, resource_id, user_id, key_hash, workspace_id, since, until }: AuditQuery): AuditFilter {
  const given = { action, resource_id, user_id, key_hash, workspace_id, since: since && moment(since), until: until && moment(until) }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

const moment = (time: string) => new Date(time).toISOString()

/** An entry with the names of the fields that the change touched; none where a thing was made or removed. */
const shownEntry = (entry: AuditEntry) => ({ ...entry, changed: changedIn(entry) })

function changedIn({ before, after }: AuditEntry): string[] {
  if (!isObject(before) || !isObject(after)) return []
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
}

/**
 * The entry of a change, to be written in the same transaction as the change itself. `before` and `after` are the whole records; money in
 * them may be nano-dollars. A text under a name that only secrets have becomes its fingerprint, wherever it stands.
 */
export function auditEntry(
  { clock, ids, secrets: { fingerprint } }: Pick<IdentityWorld, 'clock' | 'ids' | 'secrets'>,
  { kind, user_id, key_hash }: Actor,
  action: string,
  { id, workspace_id }: Audited,
  before: object | null,
  after: object | null,
): AuditEntry {
  const created_at = clock.now().toISOString()
  const told = { before: withoutSecrets(before, fingerprint), after: withoutSecrets(after, fingerprint) }
  return { id: ids.uuid(), created_at, actor: kind, user_id, key_hash, workspace_id, action, resource_id: id, ...told }
}

/** What a record calls a secret: a preset's tool on a server of its own brings such along. What headers say may be one too. */
const SECRET =
  /^(authorization|api[_-]?key|((access|auth|refresh|session)_)?token|(client_)?secret|secret_access_key|private_key|password)$/i
const SECRETS = 'headers'

function withoutSecrets<T>(value: T, fingerprint: Fingerprint, within?: string): T
function withoutSecrets(value: unknown, fingerprint: Fingerprint, within?: string): unknown {
  if (Array.isArray(value)) return value.map(one => withoutSecrets(one, fingerprint))
  if (!isObject(value) || isRawJson(value)) return value
  const told = (name: string, member: unknown) =>
    typeof member === 'string' && (within === SECRETS || SECRET.test(name))
      ? fingerprint(member)
      : withoutSecrets(member, fingerprint, name)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, told(name, member)]))
}

// An integer that JavaScript would round, as `parseExact` keeps it: to be written as it is, and not looked into.
const isRawJson = (value: unknown): boolean => (JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON(value)
