import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import { routerCalled } from '../language/routing.ts'
import { type Actor, operator } from './actor.ts'
import { type AuditEntry, auditEntry } from './audit.ts'
import { defaultGuardrailId } from './default-guardrail.ts'
import { createKey, type Disabling, disableKeys, disablingOf, type Key } from './keys.ts'
import { mustManageAll, reaches } from './management.ts'
import type { IdentityWorld } from './world.ts'

/** A place for keys and rules. Every gateway has a default one at first. Times in ISO 8601. */
export interface Workspace {
  id: string
  name: string
  slug: string
  description: string | null
  is_default: boolean
  /** The model of a call that names none; null: the gateway's own default. */
  default_text_model: string | null
  default_image_model: string | null
  default_provider_sort: 'price' | 'throughput' | 'latency' | 'exacto' | null
  /** Whether spending through own provider keys counts against the workspace's budgets. */
  include_byok_in_budgets: boolean
  is_observability_io_logging_enabled: boolean
  is_observability_broadcast_enabled: boolean
  is_data_discount_logging_enabled: boolean
  io_logging_sampling_rate: number
  io_logging_api_key_ids: number[] | null
  disabled_server_tools: string[] | null
  created_by: string
  created_at: string
  updated_at: string | null
}

/** Remembers workspaces. What changes one is one transaction with the entries that tell of it. */
export interface WorkspaceStore {
  /** Those that were not deleted. */
  all(): Promise<Workspace[]>
  /** A workspace, unless there is or was one with this id. */
  first(workspace: Workspace): Promise<void>
  /** A new one. Throws 400 where another has its slug. */
  insert(workspace: Workspace, entry: AuditEntry): Promise<void>
  /** Changes these fields of a workspace and no others. Throws 400 where another has its slug, and 404 where it is gone. */
  update(id: string, change: Partial<Workspace>, entry: AuditEntry): Promise<void>
  /**
   * Deletes a workspace with all that is in it, and disables these keys. What points to it stays. Throws 404 where it is gone, 400 where
   * another key is active in it, and 409 where one of its unscoped keys came or went at the same moment.
   */
  remove(workspace: Workspace, keys: Disabling, entry: AuditEntry): Promise<void>
}

/** Who owns this data directory, and where what names no workspace belongs. */
export interface Owner {
  user_id: string
  workspace_id: string
}

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const Name = Type.String({ minLength: 1, maxLength: 100 })
const Slug = Type.String({
  title: 'small letters and digits, with hyphens between',
  minLength: 1,
  maxLength: 50,
  pattern: '^[a-z0-9]+(?:-[a-z0-9]+)*$',
})
const SORTS = ['price', 'throughput', 'latency', 'exacto'] as const
const SERVER_TOOLS = [
  ...['advisor', 'apply_patch', 'bash', 'datetime', 'fusion', 'image_generation', 'experimental__search_models'],
  ...['shell', 'subagent', 'tool_search', 'web_fetch', 'web_search'],
]
// A name that carries the service's name may be said in both forms.
const ServerTool = Type.Union(['openrouter', 'gateway'].flatMap(service => SERVER_TOOLS.map(tool => Type.Literal(`${service}:${tool}`))))

const CHANGEABLE = {
  default_image_model: Type.Optional(nullable(Type.String())),
  default_provider_sort: Type.Optional(nullable(Type.Union(SORTS.map(sort => Type.Literal(sort))))),
  default_text_model: Type.Optional(nullable(Type.String())),
  description: Type.Optional(nullable(Type.String({ maxLength: 500 }))),
  disabled_server_tools: Type.Optional(nullable(Type.Array(ServerTool))),
  io_logging_api_key_ids: Type.Optional(nullable(Type.Array(Type.Integer(), { maxItems: 1_000 }))),
  io_logging_sampling_rate: Type.Optional(Type.Number({ minimum: 0.0001, maximum: 1 })),
  is_data_discount_logging_enabled: Type.Optional(Type.Boolean()),
  is_observability_broadcast_enabled: Type.Optional(Type.Boolean()),
  is_observability_io_logging_enabled: Type.Optional(Type.Boolean()),
}

/** The body of `POST /workspaces`. */
export const NewWorkspace = Type.Object({ ...CHANGEABLE, name: Name, slug: Slug })
export type NewWorkspace = Static<typeof NewWorkspace>

/** The body of `PATCH /workspaces/{id}`. */
export const WorkspaceChange = Type.Object({ ...CHANGEABLE, name: Type.Optional(Name), slug: Type.Optional(Slug) })
export type WorkspaceChange = Static<typeof WorkspaceChange>

/** The query of `GET /workspaces`. */
export const WorkspaceQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export type WorkspaceQuery = Static<typeof WorkspaceQuery>

/** The query of E13, `DELETE /workspaces/{id}`. */
export const WorkspaceDeletion = Type.Object({
  confirm_default_workspace_deletion: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])),
})
export type WorkspaceDeletion = Static<typeof WorkspaceDeletion>

const PAGE = 50

/** A workspace of which nothing but its name is said. */
const plainWorkspace = (id: string, created_by: string, now: Date): Omit<Workspace, 'name' | 'slug'> => ({
  id,
  description: null,
  is_default: false,
  default_text_model: null,
  default_image_model: null,
  default_provider_sort: null,
  include_byok_in_budgets: false,
  is_observability_io_logging_enabled: false,
  is_observability_broadcast_enabled: false,
  is_data_discount_logging_enabled: false,
  io_logging_sampling_rate: 1,
  io_logging_api_key_ids: null,
  disabled_server_tools: null,
  created_by,
  created_at: now.toISOString(),
  updated_at: null,
})

/** The default workspace that every data directory has at first. */
export const firstWorkspace = (id: string, user_id: string, now: Date): Workspace => ({
  ...plainWorkspace(id, user_id, now),
  name: 'Default',
  slug: 'default',
  is_default: true,
})

/** One management key and one inference key, for a data directory that has none yet; undefined where keys exist. Shown once. */
export async function firstKeys(gateway: IdentityWorld) {
  if (gateway.memory.keys.size > 0) return undefined
  const management = await createKey(gateway, operator(gateway), { name: 'management' }, 'management')
  const inference = await createKey(gateway, operator(gateway), { name: 'inference' })
  return { workspace_id: gateway.memory.owner.workspace_id, management_key: management.key, inference_key: inference.key }
}

/**
 * Creates a workspace. Throws 403 for who manages one workspace only, and 400 for a slug that another has or a default model that there
 * is not.
 */
export async function createWorkspace(gateway: IdentityWorld, actor: Actor, input: NewWorkspace) {
  mustManageAll(gateway, actor)
  const { name, slug } = input
  const plain = plainWorkspace(gateway.ids.uuid(), actor.user_id, gateway.clock.now())
  const workspace: Workspace = { ...plain, ...changesOf(gateway, input), name, slug }
  await gateway.store.workspaces.insert(workspace, entryOf(gateway, actor, 'workspaces.create', null, workspace))
  gateway.memory.workspaces.set(workspace.id, workspace)
  return { data: shownWorkspace(workspace) }
}

/** One page of the workspaces that the actor manages, the oldest first. */
export function listWorkspaces(gateway: IdentityWorld, actor: Actor, { offset = 0, limit = PAGE }: WorkspaceQuery) {
  const managed = [...gateway.memory.workspaces.values()].filter(({ id }) => reaches(gateway, actor, id)).sort(byCreation)
  return { data: managed.slice(offset, offset + limit).map(shownWorkspace), total_count: managed.length }
}

const byCreation = (a: Workspace, b: Workspace) =>
  a.created_at === b.created_at ? (a.id < b.id ? -1 : 1) : a.created_at < b.created_at ? -1 : 1

/** One workspace by its id or slug. Throws 404, also for one that the actor does not manage. */
export const getWorkspace = (gateway: IdentityWorld, actor: Actor, idOrSlug: string) => ({
  data: shownWorkspace(reachedWorkspace(gateway, actor, idOrSlug)),
})

/** Changes a workspace. Throws 404, and 400 as `createWorkspace` does. */
export async function updateWorkspace(gateway: IdentityWorld, actor: Actor, idOrSlug: string, change: WorkspaceChange) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const changes = { ...changesOf(gateway, change), updated_at: gateway.clock.now().toISOString() }
  const entry = entryOf(gateway, actor, 'workspaces.update', workspace, { ...workspace, ...changes })
  await gateway.store.workspaces.update(workspace.id, changes, entry)
  // As it is now: it may have changed, or gone, while the store was writing.
  const changed = { ...workspaceBy(gateway, workspace.id), ...changes }
  gateway.memory.workspaces.set(workspace.id, changed)
  return { data: shownWorkspace(changed) }
}

// Field by field: a body may hold more than it may change.
function changesOf(gateway: IdentityWorld, change: WorkspaceChange): Partial<Workspace> {
  checkModel(gateway, change.default_text_model)
  const known = ['name', 'slug', ...Object.keys(CHANGEABLE)] as (keyof WorkspaceChange)[]
  const given = Object.fromEntries(known.filter(name => change[name] !== undefined).map(name => [name, change[name]]))
  return { ...given, ...(change.disabled_server_tools?.length === 0 ? { disabled_server_tools: null } : {}) }
}

// As a plan finds it, or every call that names none would be refused.
function checkModel({ catalog, config }: IdentityWorld, slug: string | null | undefined): void {
  if (slug == null || catalog.models.get(slug)?.output_modalities.includes('text') || routerCalled(config, slug)) return
  throw invalid('default_text_model: expected a model of the catalogue that gives text', 'default_text_model')
}

/**
 * E13: deletes a workspace with its budgets, guardrails, members, presets and provider keys; what was sealed is forgotten. With the default
 * one, the inference keys that were made without naming a workspace are disabled for good, while management keys go on managing all. Calls
 * that run go on, and what was recorded stays. Throws 404, and 400 where other keys are active in it or the default one is not confirmed.
 */
export async function deleteWorkspace(gateway: IdentityWorld, actor: Actor, idOrSlug: string, query: WorkspaceDeletion) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const confirmed = query.confirm_default_workspace_deletion === 'true'
  if (workspace.is_default && !confirmed)
    throw invalid(`${CONFIRM}: expected "true" to delete the default workspace, and the keys that name none with it`, CONFIRM)
  await gateway.catchUp()
  const keys = disablingOf(gateway, actor, key => goesWith(workspace, key))
  await gateway.store.workspaces.remove(workspace, keys, entryOf(gateway, actor, 'workspaces.delete', workspace, null))
  disableKeys(gateway, keys)
  gateway.memory.forgetWorkspace(workspace.id)
  return { deleted: true as const }
}

const CONFIRM = 'confirm_default_workspace_deletion'

const goesWith = ({ id, is_default }: Workspace, key: Key) =>
  is_default && key.workspace_id === id && key.kind === 'inference' && key.isUnscoped

/** The workspace with this id or slug. Throws 404. */
export function workspaceBy(gateway: IdentityWorld, idOrSlug: string): Workspace {
  const found =
    gateway.memory.workspaces.get(idOrSlug) ?? [...gateway.memory.workspaces.values()].find(workspace => workspace.slug === idOrSlug)
  if (!found) throw notFound('Workspace not found')
  return found
}

/** The workspace with this id or slug, if the actor manages it. Throws 404. */
export function reachedWorkspace(gateway: IdentityWorld, actor: Actor, idOrSlug: string): Workspace {
  const workspace = workspaceBy(gateway, idOrSlug)
  if (!reaches(gateway, actor, workspace.id)) throw notFound('Workspace not found')
  return workspace
}

/** The model of a call in this workspace that names none. */
export const defaultModel = ({ memory: { workspaces }, config }: IdentityWorld, workspace_id: string): string =>
  workspaces.get(workspace_id)?.default_text_model ?? config.default_model

/** Reads every workspace, by its id. */
export const readWorkspaces = async (store: WorkspaceStore): Promise<Map<string, Workspace>> =>
  new Map((await store.all()).map(workspace => [workspace.id, workspace]))

const entryOf = (gateway: IdentityWorld, actor: Actor, action: string, before: Workspace | null, after: Workspace | null): AuditEntry => {
  const id = (after ?? before)?.id ?? ''
  return auditEntry(gateway, actor, action, { id, workspace_id: id }, before, after)
}

function shownWorkspace({ is_default: _, ...workspace }: Workspace) {
  return { ...workspace, default_guardrail_id: defaultGuardrailId(workspace.id) }
}
