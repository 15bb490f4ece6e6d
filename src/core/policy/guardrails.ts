import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { getDefaultGuardrailId } from '../identity/default-guardrail.ts'
import { canManage, requireManaged, resolveWorkspaceId } from '../identity/management.ts'
import type { Workspace } from '../identity/workspaces/store.ts'
import { getIsoTime } from '../kernel/clock.ts'
import { toPage } from '../kernel/pages.ts'
import { compareOldestFirst } from '../kernel/sorting.ts'
import { EMPTY_FIELDS, type GuardrailFields, readGuardrailFields } from './guardrails/fields.ts'
import type { GuardrailChange, GuardrailQuery, NewGuardrail } from './guardrails/schema.ts'
import type { Guardrail } from './guardrails/store.ts'
import { auditGuardrail, showGuardrailSpending } from './guardrails/view.ts'
import type { PolicyWorld } from './world.ts'

/**
 * Creates a guardrail, which applies to no calls until it is assigned. Throws 400 for a workspace,
 * a model or a provider that does not exist, for an invalid pattern, and for a limit without an
 * interval or an interval without a limit.
 */
export async function createGuardrail(
  world: PolicyWorld,
  actor: Actor,
  { name, workspace_id, ...change }: NewGuardrail,
) {
  const workspace = resolveWorkspaceId(world, actor, workspace_id)
  const guardrail = { id: world.ids.uuid(), workspace_id: workspace, name }
  return { data: await insertGuardrail(world, actor, guardrail, change) }
}

async function insertGuardrail(
  world: PolicyWorld,
  actor: Actor,
  identity: Pick<Guardrail, 'id' | 'workspace_id' | 'name'>,
  change: GuardrailChange,
) {
  const created_at = getIsoTime(world)
  const guardrail = {
    ...EMPTY_FIELDS,
    ...(await readGuardrailFields(world, change)),
    ...identity,
    revision: 1,
    created_at,
    updated_at: null,
  }
  checkBudget(guardrail)
  await world.store.guardrails.insert(guardrail, auditGuardrail(world, actor, null, guardrail))
  return rememberGuardrail(world, guardrail)
}

/**
 * Lists one page of a workspace's guardrails, oldest first. Throws 400 for a workspace that does
 * not exist.
 */
export function listGuardrails(
  world: PolicyWorld,
  actor: Actor,
  { workspace_id, ...page }: GuardrailQuery,
) {
  const workspace = resolveWorkspaceId(world, actor, workspace_id)
  const guardrails = world.memory.guardrails.filter(
    guardrail => guardrail.workspace_id === workspace,
  )
  return toPage(guardrails.sort(compareOldestFirst), page, one => showGuardrailSpending(world, one))
}

/**
 * Returns one guardrail. Throws 404, also for another workspace's and for a workspace's default one
 * before its first change.
 */
export const getGuardrail = (world: PolicyWorld, actor: Actor, id: string) => ({
  data: showGuardrailSpending(world, requireManagedGuardrail(world, actor, id)),
})

/**
 * Changes a guardrail: lists are replaced, null clears. The first change of a workspace's default
 * guardrail creates it. Throws 404, 400 as `createGuardrail` does and for renaming a default one,
 * and 409 when someone else changed it at the same moment.
 */
export async function updateGuardrail(
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { name, ...change }: GuardrailChange,
) {
  await world.catchUp()
  const workspace = findDefaultGuardrailWorkspace(world, actor, id)
  if (workspace && name !== undefined && name !== buildDefaultName(workspace))
    throw invalid('name: a default guardrail cannot be renamed', 'name')
  if (workspace && !world.memory.guardrails.has(id)) {
    const guardrail = { id, workspace_id: workspace.id, name: buildDefaultName(workspace) }
    return { data: await insertGuardrail(world, actor, guardrail, change) }
  }
  const before = requireManagedGuardrail(world, actor, id)
  const changes = {
    ...(await readGuardrailFields(world, change)),
    ...(name === undefined ? {} : { name }),
  }
  const after = {
    ...before,
    ...changes,
    revision: before.revision + 1,
    updated_at: getIsoTime(world),
  }
  checkBudget(after)
  await world.store.guardrails.replace(after, auditGuardrail(world, actor, before, after))
  return { data: rememberGuardrail(world, after) }
}

/** Deletes a guardrail: from the next call on it applies to no calls. Throws 404. */
export async function deleteGuardrail(world: PolicyWorld, actor: Actor, id: string) {
  const guardrail = requireManagedGuardrail(world, actor, id)
  await world.store.guardrails.remove(id, auditGuardrail(world, actor, guardrail, null))
  forgetGuardrail(world, id)
  return { deleted: true as const }
}

function forgetGuardrail(world: PolicyWorld, id: string): void {
  world.memory.guardrails.delete(id)
  world.memory.assignments.deleteMentioning(id, ({ guardrail_id }) => guardrail_id === id)
}

/** Returns a guardrail that the actor may manage. Throws 404. */
export const requireManagedGuardrail = (world: PolicyWorld, actor: Actor, id: string): Guardrail =>
  requireManaged(world, actor, world.memory.guardrails.get(id), 'Guardrail')

/**
 * Finds the workspace whose default guardrail has this id, created or not, if the actor may manage
 * it.
 */
function findDefaultGuardrailWorkspace(
  world: PolicyWorld,
  actor: Actor,
  id: string,
): Workspace | undefined {
  const workspace = world.memory.workspaces
    .values()
    .find(candidate => getDefaultGuardrailId(candidate.id) === id)
  return workspace && canManage(world, actor, workspace.id) ? workspace : undefined
}

const buildDefaultName = ({ id }: Workspace) => `Workspace ${id} Default`

function checkBudget({
  limit_usd,
  reset_interval,
}: Pick<GuardrailFields, 'limit_usd' | 'reset_interval'>): void {
  if ((limit_usd === null) === (reset_interval === null)) return
  const [missing, present] =
    limit_usd === null ? ['limit_usd', 'reset_interval'] : ['reset_interval', 'limit_usd']
  throw invalid(`${missing}: expected together with ${present}, found nothing`, missing)
}

function rememberGuardrail(world: PolicyWorld, guardrail: Guardrail) {
  world.memory.guardrails.set(guardrail)
  return showGuardrailSpending(world, guardrail)
}
