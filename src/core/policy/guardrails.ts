import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { AuditEntry } from '../identity/audit.ts'
import { auditEntry } from '../identity/audit.ts'
import { defaultGuardrailId } from '../identity/default-guardrail.ts'
import { managedWorkspace, reaches } from '../identity/management.ts'
import type { Workspace } from '../identity/workspaces.ts'
import { usdOf } from '../kernel/money.ts'
import type { Period } from '../kernel/periods.ts'
import type { Region } from '../language/region.ts'
import { LABELS } from './filters/labels.data.ts'
import { FIELDS, type Fields, fieldsOf, NOTHING } from './guardrails/fields.ts'
import type { PolicyWorld } from './world.ts'

/** What happens to what a content filter finds. */
export type FilterAction = 'redact' | 'block' | 'flag'

/** Rules for calls, which hold for whom they are assigned to (specification, Guardrail record). Null says nothing. Times in ISO 8601. */
export interface Guardrail {
  id: string
  workspace_id: string
  name: string
  description: string | null
  allowed_data_regions: Region[] | null
  /** Slugs of models. */
  allowed_models: string[] | null
  ignored_models: string[] | null
  /** Providers as they were called. */
  allowed_providers: string[] | null
  ignored_providers: string[] | null
  content_filter_builtins: { slug: keyof typeof LABELS; action: FilterAction; scan_scope?: 'user_only' | 'all_messages' }[] | null
  content_filters: { pattern: string; action: FilterAction; label: string | null }[] | null
  /** Whether they scan what models say as well. */
  filterOutput: boolean
  enable_free_model_publication: boolean | null
  enable_free_model_training: boolean | null
  enable_paid_model_training: boolean | null
  /** Deprecated: what the groups were last given at once. It rules nothing itself. */
  enforce_zdr: boolean | null
  enforce_zdr_anthropic: boolean | null
  enforce_zdr_google: boolean | null
  enforce_zdr_openai: boolean | null
  enforce_zdr_other: boolean | null
  enforce_zdr_xai: boolean | null
  /** Nano-dollars; with an interval, or neither. */
  limit_usd: bigint | null
  reset_interval: Period | null
  include_byok_in_budgets: boolean
  /** Counts its changes, so that none is made over one that was not seen. */
  revision: number
  created_at: string
  updated_at: string | null
}

/** Remembers guardrails. An id is unique: 409 for a second one. */
export interface GuardrailStore {
  all(): Promise<Guardrail[]>
  insert(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Puts this in the place of the revision before it. Throws 409 when that is no longer there. */
  replace(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Forgets a guardrail and who had it. */
  remove(id: string, entry: AuditEntry): Promise<void>
}

const Name = Type.String({ minLength: 1, maxLength: 200 })

/** The body of E5, `POST /guardrails`. */
export const NewGuardrail = Type.Object({ ...FIELDS, name: Name, workspace_id: Type.Optional(Type.String({ format: 'uuid' })) })
export type NewGuardrail = Static<typeof NewGuardrail>

/** The body of `PATCH /guardrails/{id}`. */
export const GuardrailChange = Type.Object({ ...FIELDS, name: Type.Optional(Name) })
export type GuardrailChange = Static<typeof GuardrailChange>

/** Which page of a list. */
export const GuardrailPage = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export type GuardrailPage = Static<typeof GuardrailPage>

/** The query of `GET /guardrails`. */
export const GuardrailQuery = Type.Object({ ...GuardrailPage.properties, workspace_id: Type.Optional(Type.String({ format: 'uuid' })) })
export type GuardrailQuery = Static<typeof GuardrailQuery>

/**
 * Creates a guardrail, which holds for nobody until it is assigned. Throws 400 for a workspace, a model or a provider that does not exist,
 * a pattern that cannot be scanned with, and for a limit without an interval or the other way round.
 */
export async function createGuardrail(gateway: PolicyWorld, actor: Actor, { name, workspace_id, ...given }: NewGuardrail) {
  const workspace = managedWorkspace(gateway, actor, workspace_id)
  return { data: await added(gateway, actor, gateway.ids.uuid(), workspace, name, given) }
}

async function added(gateway: PolicyWorld, actor: Actor, id: string, workspace_id: string, name: string, given: GuardrailChange) {
  const created_at = gateway.clock.now().toISOString()
  const guardrail = { ...NOTHING, ...(await fieldsOf(gateway, given)), id, workspace_id, name, revision: 1, created_at, updated_at: null }
  checkBudget(guardrail)
  await gateway.store.guardrails.insert(
    guardrail,
    auditEntry(gateway, actor, 'guardrails.create', guardrail, null, shownGuardrail(guardrail)),
  )
  return kept(gateway, guardrail)
}

/** One page of a workspace's guardrails, the oldest first. Throws 400 for a workspace that does not exist. */
export function listGuardrails(gateway: PolicyWorld, actor: Actor, { workspace_id, offset = 0, limit = PAGE }: GuardrailQuery) {
  const workspace = managedWorkspace(gateway, actor, workspace_id)
  const own = [...gateway.memory.guardrails.values()].filter(guardrail => guardrail.workspace_id === workspace).sort(byAge)
  return { data: own.slice(offset, offset + limit).map(shownGuardrail), total_count: own.length }
}

/** How many a page has when nobody says. */
export const PAGE = 50

/** The oldest first, and always in the same order. */
export const byAge = (a: { created_at: string; id: string }, b: { created_at: string; id: string }) =>
  a.created_at === b.created_at ? (a.id < b.id ? -1 : 1) : a.created_at < b.created_at ? -1 : 1

/** One guardrail by its id. Throws 404, also for another workspace's and for a workspace's default one before it was first changed. */
export const getGuardrail = (gateway: PolicyWorld, actor: Actor, id: string) => ({
  data: shownGuardrail(managedGuardrail(gateway, actor, id)),
})

/**
 * Changes a guardrail: lists are replaced, null clears. A workspace's default one is made by its first change. Throws 404, 400 as
 * `createGuardrail` does and for another name of a default one, and 409 when another has changed it at the same moment.
 */
export async function updateGuardrail(gateway: PolicyWorld, actor: Actor, id: string, { name, ...given }: GuardrailChange) {
  await gateway.catchUp()
  const workspace = workspaceOfDefault(gateway, actor, id)
  if (workspace && name !== undefined && name !== defaultName(workspace)) throw invalid('name: a default guardrail keeps its own', 'name')
  if (workspace && !gateway.memory.guardrails.has(id))
    return { data: await added(gateway, actor, id, workspace.id, defaultName(workspace), given) }
  const before = managedGuardrail(gateway, actor, id)
  const changes = { ...(await fieldsOf(gateway, given)), ...(name === undefined ? {} : { name }) }
  const after = { ...before, ...changes, revision: before.revision + 1, updated_at: gateway.clock.now().toISOString() }
  checkBudget(after)
  const entry = auditEntry(gateway, actor, 'guardrails.update', after, shownGuardrail(before), shownGuardrail(after))
  await gateway.store.guardrails.replace(after, entry)
  return { data: kept(gateway, after) }
}

/** Deletes a guardrail: from the next call on it holds for nobody. Throws 404. */
export async function deleteGuardrail(gateway: PolicyWorld, actor: Actor, id: string) {
  const guardrail = managedGuardrail(gateway, actor, id)
  await gateway.store.guardrails.remove(id, auditEntry(gateway, actor, 'guardrails.delete', guardrail, shownGuardrail(guardrail), null))
  forget(gateway, id)
  return { deleted: true as const }
}

function forget(gateway: PolicyWorld, id: string): void {
  gateway.memory.guardrails.delete(id)
  gateway.memory.assignments.deleteWhere(({ guardrail_id }) => guardrail_id === id)
}

/** Reads every guardrail, by its id. */
export async function readGuardrails(store: GuardrailStore): Promise<Map<string, Guardrail>> {
  return new Map((await store.all()).map(guardrail => [guardrail.id, guardrail]))
}

/** A guardrail that the actor may manage. Throws 404. */
export function managedGuardrail(gateway: PolicyWorld, actor: Actor, id: string): Guardrail {
  const guardrail = gateway.memory.guardrails.get(id)
  if (!guardrail || !reaches(gateway, actor, guardrail.workspace_id)) throw notFound('Guardrail not found')
  return guardrail
}

/** The workspace that the actor may manage whose default guardrail has this id, whether it has been made or not. */
function workspaceOfDefault(gateway: PolicyWorld, actor: Actor, id: string): Workspace | undefined {
  const workspace = [...gateway.memory.workspaces.values()].find(one => defaultGuardrailId(one.id) === id)
  return workspace && reaches(gateway, actor, workspace.id) ? workspace : undefined
}

const defaultName = ({ id }: Workspace) => `Workspace ${id} Default`

function checkBudget({ limit_usd, reset_interval }: Pick<Fields, 'limit_usd' | 'reset_interval'>): void {
  if ((limit_usd === null) === (reset_interval === null)) return
  const [missing, given] = limit_usd === null ? ['limit_usd', 'reset_interval'] : ['reset_interval', 'limit_usd']
  throw invalid(`${missing}: expected together with ${given}, found nothing`, missing)
}

function kept(gateway: PolicyWorld, guardrail: Guardrail) {
  gateway.memory.guardrails.set(guardrail.id, guardrail)
  return shownGuardrail(guardrail)
}

function shownGuardrail({ revision: _, filterOutput, limit_usd, content_filter_builtins: builtins, ...shown }: Guardrail) {
  return {
    ...shown,
    content_filter_builtins: builtins?.map(one => ({ ...one, label: LABELS[one.slug] })) ?? null,
    limit_usd: limit_usd === null ? null : usdOf(limit_usd),
    // Ours, and told only where it says something.
    ...(filterOutput ? { filterOutput } : {}),
  }
}
