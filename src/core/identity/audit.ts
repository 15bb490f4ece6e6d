import type { Gateway } from '../gateway.ts'
import type { Actor } from './actor.ts'

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

/**
 * The entry of a change, to be written in the same transaction as the change itself. `before` and `after` are records without secrets;
 * money in them may be nano-dollars.
 */
export function auditEntry(
  { clock, ids }: Pick<Gateway, 'clock' | 'ids'>,
  { kind, user_id, key_hash }: Actor,
  action: string,
  { id, workspace_id }: Audited,
  before: object | null,
  after: object | null,
): AuditEntry {
  const created_at = clock.now().toISOString()
  return { id: ids.uuid(), created_at, actor: kind, user_id, key_hash, workspace_id, action, resource_id: id, before, after }
}
