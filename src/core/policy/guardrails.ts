import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { defaultGuardrailId } from '../identity/default-guardrail.ts'
import { managedWorkspace, reaches, requireManaged } from '../identity/management.ts'
import type { Workspace } from '../identity/workspaces/store.ts'
import { isoNow } from '../kernel/clock.ts'
import { pageOf } from '../kernel/pages.ts'
import { oldestFirst } from '../kernel/sorting.ts'
import { type Fields, fieldsOf, NOTHING } from './guardrails/fields.ts'
import type { GuardrailChange, GuardrailQuery, NewGuardrail } from './guardrails/schema.ts'
import type { Guardrail } from './guardrails/store.ts'
import { auditGuardrail, showGuardrail } from './guardrails/view.ts'
import type { PolicyWorld } from './world.ts'

/**
 * Creates a guardrail, which applies to no calls until it is assigned. Throws 400 for a workspace,
 * a model or a provider that does not exist, for an invalid pattern, and for a limit without an
 * interval or an interval without a limit.
 */
export async function createGuardrail(
  gateway: PolicyWorld,
  actor: Actor,
  { name, workspace_id, ...given }: NewGuardrail,
) {
  const workspace = managedWorkspace(gateway, actor, workspace_id)
  const guardrail = { id: gateway.ids.uuid(), workspace_id: workspace, name }
  return { data: await added(gateway, actor, guardrail, given) }
}

async function added(
  gateway: PolicyWorld,
  actor: Actor,
  identity: Pick<Guardrail, 'id' | 'workspace_id' | 'name'>,
  given: GuardrailChange,
) {
  const created_at = isoNow(gateway)
  const guardrail = {
    ...NOTHING,
    ...(await fieldsOf(gateway, given)),
    ...identity,
    revision: 1,
    created_at,
    updated_at: null,
  }
  checkBudget(guardrail)
  await gateway.store.guardrails.insert(guardrail, auditGuardrail(gateway, actor, null, guardrail))
  return kept(gateway, guardrail)
}

/**
 * Lists one page of a workspace's guardrails, oldest first. Throws 400 for a workspace that does
 * not exist.
 */
export function listGuardrails(
  gateway: PolicyWorld,
  actor: Actor,
  { workspace_id, ...page }: GuardrailQuery,
) {
  const workspace = managedWorkspace(gateway, actor, workspace_id)
  const guardrails = gateway.memory.guardrails.where(
    guardrail => guardrail.workspace_id === workspace,
  )
  return pageOf(guardrails.sort(oldestFirst), page, showGuardrail)
}

/**
 * Returns one guardrail. Throws 404, also for another workspace's and for a workspace's default one
 * before its first change.
 */
export const getGuardrail = (gateway: PolicyWorld, actor: Actor, id: string) => ({
  data: showGuardrail(managedGuardrail(gateway, actor, id)),
})

/**
 * Changes a guardrail: lists are replaced, null clears. The first change of a workspace's default
 * guardrail creates it. Throws 404, 400 as `createGuardrail` does and for renaming a default one,
 * and 409 when someone else changed it at the same moment.
 */
export async function updateGuardrail(
  gateway: PolicyWorld,
  actor: Actor,
  id: string,
  { name, ...given }: GuardrailChange,
) {
  await gateway.catchUp()
  const workspace = workspaceOfDefault(gateway, actor, id)
  if (workspace && name !== undefined && name !== defaultName(workspace))
    throw invalid('name: a default guardrail cannot be renamed', 'name')
  if (workspace && !gateway.memory.guardrails.has(id)) {
    const guardrail = { id, workspace_id: workspace.id, name: defaultName(workspace) }
    return { data: await added(gateway, actor, guardrail, given) }
  }
  const before = managedGuardrail(gateway, actor, id)
  const changes = { ...(await fieldsOf(gateway, given)), ...(name === undefined ? {} : { name }) }
  const after = {
    ...before,
    ...changes,
    revision: before.revision + 1,
    updated_at: isoNow(gateway),
  }
  checkBudget(after)
  await gateway.store.guardrails.replace(after, auditGuardrail(gateway, actor, before, after))
  return { data: kept(gateway, after) }
}

/** Deletes a guardrail: from the next call on it applies to no calls. Throws 404. */
export async function deleteGuardrail(gateway: PolicyWorld, actor: Actor, id: string) {
  const guardrail = managedGuardrail(gateway, actor, id)
  await gateway.store.guardrails.remove(id, auditGuardrail(gateway, actor, guardrail, null))
  forget(gateway, id)
  return { deleted: true as const }
}

function forget(gateway: PolicyWorld, id: string): void {
  gateway.memory.guardrails.delete(id)
  gateway.memory.assignments.deleteWhere(({ guardrail_id }) => guardrail_id === id)
}

/** Returns a guardrail that the actor may manage. Throws 404. */
export const managedGuardrail = (gateway: PolicyWorld, actor: Actor, id: string): Guardrail =>
  requireManaged(gateway, actor, gateway.memory.guardrails.get(id), 'Guardrail')

/**
 * Finds the workspace whose default guardrail has this id, created or not, if the actor may manage
 * it.
 */
function workspaceOfDefault(gateway: PolicyWorld, actor: Actor, id: string): Workspace | undefined {
  const workspace = gateway.memory.workspaces
    .values()
    .find(one => defaultGuardrailId(one.id) === id)
  return workspace && reaches(gateway, actor, workspace.id) ? workspace : undefined
}

const defaultName = ({ id }: Workspace) => `Workspace ${id} Default`

function checkBudget({
  limit_usd,
  reset_interval,
}: Pick<Fields, 'limit_usd' | 'reset_interval'>): void {
  if ((limit_usd === null) === (reset_interval === null)) return
  const [missing, given] =
    limit_usd === null ? ['limit_usd', 'reset_interval'] : ['reset_interval', 'limit_usd']
  throw invalid(`${missing}: expected together with ${given}, found nothing`, missing)
}

function kept(gateway: PolicyWorld, guardrail: Guardrail) {
  gateway.memory.guardrails.set(guardrail)
  return showGuardrail(guardrail)
}
