import { type CredentialSpan, replaceCredentials } from '../../base/credential.ts'
import type { Fingerprint } from '../../base/fingerprint.ts'
import type { Actor } from '../actor.ts'
import type { IdentityWorld } from '../world.ts'
import type { AuditEntry } from './store.ts'

/** The resource that was changed. */
interface AuditTarget {
  id: string
  workspace_id: string | null
}

/** Identifies a record by its own id, and by its workspace if it has one. */
export const identifyById = ({
  id,
  workspace_id = null,
}: {
  id: string
  workspace_id?: string | null
}): AuditTarget => ({ id, workspace_id })

/** How a noun appears in the audit trail. */
interface AuditedNoun<Noun, World> {
  identify(record: Noun): AuditTarget
  /** Shows the record as the trail keeps it, never with a secret. Default: the record itself. */
  show?(record: Noun, world: World): object
  /** The verbs of its changes, if they differ from the usual ones. */
  verbs?: { create?: string; update?: string; delete?: string }
}

/**
 * Creates the entry of a change. It is a creation when `before` is null, a deletion when `after`
 * is null.
 */
type CreateNounEntry<Noun, World> = (
  world: World,
  actor: Actor,
  before: Noun | null,
  after: Noun | null,
  verb?: string,
) => AuditEntry

/**
 * Defines how changes of a noun are recorded: `<noun>.create`, `<noun>.update`, `<noun>.delete`.
 */
export function defineAudit<Noun extends object, World extends IdentityWorld = IdentityWorld>(
  noun: string,
  { identify, show = record => record, verbs = {} }: AuditedNoun<Noun, World>,
): CreateNounEntry<Noun, World> {
  return (gateway, actor, before, after, verb) => {
    const kind = before === null ? 'create' : after === null ? 'delete' : 'update'
    const action = `${noun}.${verb ?? verbs[kind] ?? kind}`
    const changed = after ?? before
    if (changed === null) throw new Error(`${action}: nothing was changed`)
    const showRecord = (record: Noun | null) => record && show(record, gateway)
    return createAuditEntry(
      gateway,
      actor,
      action,
      identify(changed),
      showRecord(before),
      showRecord(after),
    )
  }
}

/**
 * Creates the entry of a change, which is written in the same transaction as the change itself. It
 * has the version that the actor requires of this resource.
 * `before` and `after` are the complete records; money in them may be nano-dollars. A text whose
 * name marks it as a secret is replaced by its fingerprint, at any depth, and so is the part of a
 * text that looks like a credential.
 */
export function createAuditEntry(
  { clock, ids, secrets: { fingerprint } }: Pick<IdentityWorld, 'clock' | 'ids' | 'secrets'>,
  { kind, user_id, key_hash, requires }: Actor,
  action: string,
  { id, workspace_id }: AuditTarget,
  before: object | null,
  after: object | null,
): AuditEntry {
  const created_at = clock.now().toISOString()
  const redacted = {
    before: redactSecrets(before, fingerprint),
    after: redactSecrets(after, fingerprint),
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
    ...redacted,
    ...(requires?.id === id ? { ifMatch: requires.ifMatch } : {}),
  }
}

function redactSecrets<T>(record: T, fingerprint: Fingerprint): T {
  return replaceCredentials(record, {
    whole: fingerprint,
    partial: (text, spans) => redactSpans(text, spans, fingerprint),
  }) as T
}

function redactSpans(text: string, spans: CredentialSpan[], fingerprint: Fingerprint): string {
  let redacted = ''
  let end = 0
  for (const span of spans) {
    redacted += text.slice(end, span.start) + fingerprint(text.slice(span.start, span.end))
    end = span.end
  }
  return redacted + text.slice(end)
}
