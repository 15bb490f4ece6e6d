import { invalid, requireFound } from '../errors.ts'
import { isoNow } from '../kernel/clock.ts'
import { pickGiven } from '../kernel/json.ts'
import { overlay } from '../kernel/mirror.ts'
import { pageOf } from '../kernel/pages.ts'
import { oldestFirst } from '../kernel/sorting.ts'
import { routerCalled } from '../language/routing.ts'
import { type Actor, operator } from './actor.ts'
import { disableKeys, disablingOf } from './keys/disabling.ts'
import type { Key } from './keys/store.ts'
import { createKey } from './keys.ts'
import { mustManageAll, reaches } from './management.ts'
import {
  type NewWorkspace,
  WorkspaceChange,
  type WorkspaceDeletion,
  type WorkspaceQuery,
} from './workspaces/schema.ts'
import type { Workspace } from './workspaces/store.ts'
import { auditWorkspace, showWorkspace } from './workspaces/view.ts'
import type { IdentityWorld } from './world.ts'

/** Builds a workspace with default settings. */
const plainWorkspace = (
  id: string,
  created_by: string,
  now: Date,
): Omit<Workspace, 'name' | 'slug'> => ({
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

/** Builds the default workspace of a new data directory. */
export const firstWorkspace = (id: string, user_id: string, now: Date): Workspace => ({
  ...plainWorkspace(id, user_id, now),
  name: 'Default',
  slug: 'default',
  is_default: true,
})

/**
 * Creates one management key and one inference key for a data directory without keys. Returns
 * undefined when keys exist. The plaintexts are shown once.
 */
export async function firstKeys(gateway: IdentityWorld) {
  if (gateway.memory.keys.size > 0) return undefined
  const management = await createKey(
    gateway,
    operator(gateway),
    { name: 'management' },
    'management',
  )
  const inference = await createKey(gateway, operator(gateway), { name: 'inference' })
  return {
    workspace_id: gateway.memory.owner.workspace_id,
    management_key: management.key,
    inference_key: inference.key,
  }
}

/**
 * Creates a workspace. Throws 403 for actors who manage one workspace only, and 400 for a slug that
 * is taken or a default model that does not exist.
 */
export async function createWorkspace(gateway: IdentityWorld, actor: Actor, input: NewWorkspace) {
  mustManageAll(gateway, actor)
  const { name, slug } = input
  const plain = plainWorkspace(gateway.ids.uuid(), actor.user_id, gateway.clock.now())
  const workspace: Workspace = { ...plain, ...changesOf(gateway, input), name, slug }
  await gateway.store.workspaces.insert(workspace, auditWorkspace(gateway, actor, null, workspace))
  gateway.memory.workspaces.set(workspace)
  return { data: showWorkspace(workspace) }
}

/** Lists one page of the workspaces that the actor manages, the oldest first. */
export function listWorkspaces(gateway: IdentityWorld, actor: Actor, query: WorkspaceQuery) {
  const managed = gateway.memory.workspaces.where(({ id }) => reaches(gateway, actor, id))
  return pageOf(managed.sort(oldestFirst), query, showWorkspace)
}

/** Gets a workspace by id or slug. Throws 404, also for one that the actor does not manage. */
export const getWorkspace = (gateway: IdentityWorld, actor: Actor, idOrSlug: string) => ({
  data: showWorkspace(reachedWorkspace(gateway, actor, idOrSlug)),
})

/** Changes a workspace. Throws 404, and 400 as `createWorkspace` does. */
export async function updateWorkspace(
  gateway: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  change: WorkspaceChange,
) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const changes = { ...changesOf(gateway, change), updated_at: isoNow(gateway) }
  const entry = auditWorkspace(gateway, actor, workspace, { ...workspace, ...changes })
  const write = () => gateway.store.workspaces.update(workspace.id, changes, entry)
  const changed = await gateway.memory.workspaces.change(workspace.id, overlay(changes), write)
  return { data: showWorkspace(requireFound(changed, 'Workspace')) }
}

function changesOf(gateway: IdentityWorld, change: WorkspaceChange): Partial<Workspace> {
  checkModel(gateway, change.default_text_model)
  const isAnyTool = change.disabled_server_tools?.length === 0
  return {
    ...pickGiven(change, WorkspaceChange.properties),
    ...(isAnyTool ? { disabled_server_tools: null } : {}),
  }
}

// The lookup matches the planner's. Otherwise every call that names no model would be refused.
function checkModel({ catalog, config }: IdentityWorld, slug: string | null | undefined): void {
  if (
    slug == null ||
    catalog.models.get(slug)?.output_modalities.includes('text') ||
    routerCalled(config, slug)
  )
    return
  throw invalid(
    'default_text_model: expected a model of the catalogue with text output',
    'default_text_model',
  )
}

/**
 * E13: deletes a workspace with its budgets, guardrails, members, presets and provider keys,
 * including their sealed secrets. Deleting the default workspace permanently disables the inference
 * keys that were created without naming a workspace. Its management keys keep managing the whole
 * organization. Running calls continue, and records stay. Throws 404, and 400 when other keys are
 * active in it or the deletion of the default workspace is not confirmed.
 */
export async function deleteWorkspace(
  gateway: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  query: WorkspaceDeletion,
) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const confirmed = query.confirm_default_workspace_deletion === 'true'
  if (workspace.is_default && !confirmed)
    throw invalid(
      `${CONFIRM}: expected "true" to delete the default workspace ` +
        'together with the keys that name no workspace',
      CONFIRM,
    )
  await gateway.catchUp()
  const keys = disablingOf(gateway, actor, key => goesWith(workspace, key))
  await gateway.store.workspaces.remove(
    workspace,
    keys,
    auditWorkspace(gateway, actor, workspace, null),
  )
  disableKeys(gateway, keys)
  gateway.memory.forgetWorkspace(workspace.id)
  return { deleted: true as const }
}

const CONFIRM = 'confirm_default_workspace_deletion'

const goesWith = ({ id, is_default }: Workspace, key: Key) =>
  is_default && key.workspace_id === id && key.kind === 'inference' && key.isUnscoped

/** Returns the workspace with this id or slug. Throws 404. */
export function workspaceBy(
  { memory: { workspaces } }: IdentityWorld,
  idOrSlug: string,
): Workspace {
  const found =
    workspaces.get(idOrSlug) ?? workspaces.values().find(({ slug }) => slug === idOrSlug)
  return requireFound(found, 'Workspace')
}

/** Returns the workspace with this id or slug if the actor manages it. Throws 404. */
export function reachedWorkspace(
  gateway: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
): Workspace {
  const workspace = workspaceBy(gateway, idOrSlug)
  return requireFound(reaches(gateway, actor, workspace.id) ? workspace : undefined, 'Workspace')
}

/** Returns the model for calls in this workspace that name none. */
export const defaultModel = (
  { memory: { workspaces }, config }: IdentityWorld,
  workspace_id: string,
): string => workspaces.get(workspace_id)?.default_text_model ?? config.default_model
