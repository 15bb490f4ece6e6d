import type { Fingerprint } from '../../kernel/fingerprint.ts'
import { isObject, isRawJson } from '../../kernel/json.ts'
import type { Actor } from '../actor.ts'
import type { AuditEntry } from '../audit.ts'
import type { IdentityWorld } from '../world.ts'

/** What was changed. */
export interface Audited {
  id: string
  workspace_id: string | null
}

/** Identifies a record by its own id, and by its workspace where it has one. */
export const byId = ({
  id,
  workspace_id = null,
}: {
  id: string
  workspace_id?: string | null
}): Audited => ({ id, workspace_id })

/** How a noun appears in the audit trail. */
export interface AuditedNoun<Noun, World> {
  identify(record: Noun): Audited
  /** The record as the trail keeps it: as it is, when absent. Never a secret. */
  show?(record: Noun, gateway: World): object
  /** Words for what is done to it, where they are not the usual. */
  verbs?: { create?: string; update?: string; delete?: string }
}

/**
 * Makes the entry of a change: of a creation where `before` is null, of a deletion where `after`
 * is.
 */
export type Audit<Noun, World> = (
  gateway: World,
  actor: Actor,
  before: Noun | null,
  after: Noun | null,
  verb?: string,
) => AuditEntry

/**
 * Defines how the changes of a noun are told: `<noun>.create`, `<noun>.update`, `<noun>.delete`.
 */
export function defineAudit<Noun extends object, World extends IdentityWorld = IdentityWorld>(
  noun: string,
  { identify, show = record => record, verbs = {} }: AuditedNoun<Noun, World>,
): Audit<Noun, World> {
  return (gateway, actor, before, after, verb) => {
    const kind = before === null ? 'create' : after === null ? 'delete' : 'update'
    const action = `${noun}.${verb ?? verbs[kind] ?? kind}`
    const changed = after ?? before
    if (changed === null) throw new Error(`${action}: nothing was changed`)
    const tell = (record: Noun | null) => record && show(record, gateway)
    return auditEntry(gateway, actor, action, identify(changed), tell(before), tell(after))
  }
}

/**
 * The entry of a change, to be written in the same transaction as the change itself. `before` and
 * `after` are the whole records; money in them may be nano-dollars. A text under a name that only
 * secrets have becomes its fingerprint, wherever it stands.
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
  const told = {
    before: withoutSecrets(before, fingerprint),
    after: withoutSecrets(after, fingerprint),
  }
  return {
    id: ids.uuid(),
    created_at,
    actor: kind,
    user_id,
    key_hash,
    workspace_id,
    action,
    resource_id: id,
    ...told,
  }
}

/**
 * What a record calls a secret: a preset's tool on a server of its own brings such along. What
 * headers say may be one too.
 */
const SECRET =
  /^(authorization|api[_-]?key|((access|auth|refresh|session)_)?token|(client_)?secret|secret_access_key|private_key|password)$/i
const SECRETS = 'headers'

function withoutSecrets<T>(value: T, fingerprint: Fingerprint, within?: string): T
function withoutSecrets(value: unknown, fingerprint: Fingerprint, within?: string): unknown {
  if (Array.isArray(value)) return value.map(item => withoutSecrets(item, fingerprint))
  if (!isObject(value) || isRawJson(value)) return value
  const told = (name: string, member: unknown) =>
    typeof member === 'string' && (within === SECRETS || SECRET.test(name))
      ? fingerprint(member)
      : withoutSecrets(member, fingerprint, name)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, told(name, member)]),
  )
}
