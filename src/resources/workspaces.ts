import { getIsoTime } from '../base/clock.ts'
import { invalid, requireFound } from '../base/errors.ts'
import { pickDefined } from '../base/json.ts'
import { overlay } from '../base/mirror.ts'
import { toPage } from '../base/pages.ts'
import { compareOldestFirst } from '../base/sorting.ts'
import { findRouter } from '../language/routing.ts'
import { type Actor, assertCanManageAll, canManage, getOperator } from './actor.ts'
import { defineAudit } from './audit/entry.ts'
import { getDefaultGuardrailId } from './default-guardrail.ts'
import { disableKeys, prepareKeyDisabling, tryKeyDisabling } from './keys/disabling.ts'
import type { Key } from './keys/store.ts'
import { createKey } from './keys.ts'
import {
  type NewWorkspace,
  WorkspaceChange,
  type WorkspaceDeletion,
  type WorkspaceQuery,
} from './workspaces/schema.ts'
import type { Workspace } from './workspaces/store.ts'
import type { IdentityWorld } from './world.ts'

/** Builds a workspace with default settings. */
const buildPlainWorkspace = (
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
export const buildDefaultWorkspace = (id: string, user_id: string, now: Date): Workspace => ({
  ...buildPlainWorkspace(id, user_id, now),
  name: 'Default',
  slug: 'default',
  is_default: true,
})

/**
 * Creates one management key and one inference key for a data directory without keys. Returns
 * undefined when keys exist. The plaintexts are shown once.
 */
export async function createFirstKeys(world: IdentityWorld) {
  if (world.memory.keys.size > 0) return undefined
  const management = await createKey(
    world,
    getOperator(world),
    { name: 'management' },
    'management',
  )
  const inference = await createKey(world, getOperator(world), { name: 'inference' })
  return {
    workspace_id: world.memory.owner.workspace_id,
    management_key: management.key,
    inference_key: inference.key,
  }
}

/**
 * Creates a workspace. Throws 403 for actors who manage one workspace only, and 400 for a slug that
 * is taken or a default model that does not exist.
 */
export const createWorkspace = (world: IdentityWorld, actor: Actor, input: NewWorkspace) =>
  insertWorkspace(world, actor, input, world.ids.uuid())

/** Creates a workspace with an id by which it is found again. Throws what `createWorkspace` does. */
export async function insertWorkspace(
  world: IdentityWorld,
  actor: Actor,
  input: NewWorkspace,
  id: string,
) {
  assertCanManageAll(world, actor)
  const { name, slug } = input
  const plain = buildPlainWorkspace(id, actor.user_id, world.clock.now())
  const workspace: Workspace = { ...plain, ...toWorkspaceChanges(world, input), name, slug }
  await world.store.workspaces.insert(workspace, auditWorkspace(world, actor, null, workspace))
  world.memory.workspaces.set(workspace)
  return { data: showWorkspace(workspace) }
}

/** Lists one page of the workspaces that the actor manages, the oldest first. */
export function listWorkspaces(world: IdentityWorld, actor: Actor, query: WorkspaceQuery) {
  const managed = world.memory.workspaces.filter(({ id }) => canManage(world, actor, id))
  return toPage(managed.sort(compareOldestFirst), query, showWorkspace)
}

/** Gets a workspace by id or slug. Throws 404, also for one that the actor does not manage. */
export const getWorkspace = (world: IdentityWorld, actor: Actor, idOrSlug: string) => ({
  data: showWorkspace(requireManagedWorkspace(world, actor, idOrSlug)),
})

/**
 * Changes a workspace. Throws 404, 400 as `createWorkspace` does, and 403 for a new slug from actors
 * who manage one workspace only.
 */
export async function updateWorkspace(
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  change: WorkspaceChange,
) {
  const workspace = requireManagedWorkspace(world, actor, idOrSlug)
  // The config knows workspaces by it: which tools and plugins they have, whose tokens are theirs.
  if (change.slug !== undefined && change.slug !== workspace.slug) assertCanManageAll(world, actor)
  const changes = { ...toWorkspaceChanges(world, change), updated_at: getIsoTime(world) }
  const entry = auditWorkspace(world, actor, workspace, { ...workspace, ...changes })
  const write = () => world.store.workspaces.update(workspace.id, changes, entry)
  const changed = await world.memory.workspaces.change(workspace.id, overlay(changes), write)
  return { data: showWorkspace(requireFound(changed, 'Workspace')) }
}

function toWorkspaceChanges(world: IdentityWorld, change: WorkspaceChange): Partial<Workspace> {
  checkDefaultModel(world, change.default_text_model)
  refuseUnusedSettings(change)
  const isAnyTool = change.disabled_server_tools?.length === 0
  return {
    ...pickDefined(change, WorkspaceChange.properties),
    ...(isAnyTool ? { disabled_server_tools: null } : {}),
  }
}

/** The settings that nothing reads yet, and the value that asks for nothing. */
const UNUSED_SETTINGS = {
  default_image_model: null,
  is_data_discount_logging_enabled: false,
  io_logging_api_key_ids: null,
} as const

// Someone who switches logging on would believe that there is a log.
function refuseUnusedSettings(change: WorkspaceChange): void {
  for (const [name, unused] of Object.entries(UNUSED_SETTINGS)) {
    const value = change[name as keyof typeof UNUSED_SETTINGS]
    if (value !== undefined && value !== unused)
      throw invalid(`${name}: expected ${unused}, as it has no effect in this gateway yet`, name)
  }
}

// The lookup matches the planner's. Otherwise every call that names no model would be refused.
function checkDefaultModel(
  { catalog, config }: IdentityWorld,
  slug: string | null | undefined,
): void {
  if (slug == null || findRouter(config, slug)) return
  const model = catalog.models.get(slug)
  // A name that is only passed on may be misspelt.
  if (model?.output_modalities.includes('text') && model.unlisted !== 'passed') return
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
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  query: WorkspaceDeletion,
) {
  const workspace = requireManagedWorkspace(world, actor, idOrSlug)
  const confirmed = query.confirm_default_workspace_deletion === 'true'
  if (workspace.is_default && !confirmed)
    throw invalid(
      `${CONFIRM}: expected "true" to delete the default workspace ` +
        'together with the keys that name no workspace',
      CONFIRM,
    )
  await tryKeyDisabling(world, async () => {
    const keys = prepareKeyDisabling(world, actor, workspace.id, key =>
      isDisabledWithWorkspace(workspace, key),
    )
    const entry = auditWorkspace(world, actor, workspace, null)
    await world.store.workspaces.remove(workspace, keys, entry)
    disableKeys(world, keys)
  })
  world.memory.forgetWorkspace(workspace.id)
  return { deleted: true as const }
}

const CONFIRM = 'confirm_default_workspace_deletion'

const isDisabledWithWorkspace = ({ id, is_default }: Workspace, key: Key) =>
  is_default && key.workspace_id === id && key.kind === 'inference' && key.isUnscoped

/** Returns the workspace with this id or slug. Throws 404. */
export function requireWorkspace(
  { memory: { workspaces } }: IdentityWorld,
  idOrSlug: string,
): Workspace {
  const found =
    workspaces.get(idOrSlug) ?? workspaces.values().find(({ slug }) => slug === idOrSlug)
  return requireFound(found, 'Workspace')
}

/** Returns the workspace with this id or slug if the actor manages it. Throws 404. */
export function requireManagedWorkspace(
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
): Workspace {
  const workspace = requireWorkspace(world, idOrSlug)
  return requireFound(canManage(world, actor, workspace.id) ? workspace : undefined, 'Workspace')
}

/** Returns the model for calls in this workspace that name none. */
export const getDefaultModel = (
  { memory: { workspaces }, config }: IdentityWorld,
  workspace_id: string,
): string => workspaces.get(workspace_id)?.default_text_model ?? config.default_model

/** Shows a workspace in its wire form. */
const showWorkspace = ({ is_default: _, ...workspace }: Workspace) => ({
  ...workspace,
  default_guardrail_id: getDefaultGuardrailId(workspace.id),
})

/** Creates the audit entry of a change of a workspace. */
const auditWorkspace = defineAudit<Workspace>('workspaces', {
  identify: ({ id }) => ({ id, workspace_id: id }),
})
