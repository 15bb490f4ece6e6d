import type { Static, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../../../../app/gateway.ts'
import { requireValid } from '../../../../base/body.ts'
import { GatewayError } from '../../../../base/errors.ts'
import type { Actor } from '../../../../resources/actor.ts'
import type { Change } from '../../source.ts'

/** Makes a change by the core function that its command uses. */
type Make = (gateway: Gateway, actor: Actor, change: Change) => Promise<unknown>

/** Passes the input of a change to a core function. Throws 400 unless it matches the schema. */
const check = <Schema extends TSchema>(schema: Schema, { input }: Change): Static<Schema> =>
  requireValid(schema, input)

const keys = async () => ({
  ...(await import('../../../../resources/keys.ts')),
  ...(await import('../../../../resources/keys/schema.ts')),
})
const workspaces = async () => ({
  ...(await import('../../../../resources/workspaces.ts')),
  ...(await import('../../../../resources/workspaces/schema.ts')),
  ...(await import('../../../../resources/workspace-members.ts')),
  ...(await import('../../../../resources/members/schema.ts')),
})
const members = async () => ({
  ...(await import('../../../../resources/members.ts')),
  ...(await import('../../../../resources/members/schema.ts')),
})
const budgets = async () => ({
  ...(await import('../../../../limits/budgets.ts')),
  ...(await import('../../../../limits/budgets/schema.ts')),
})
const presets = async () => ({
  ...(await import('../../../../resources/presets.ts')),
  ...(await import('../../../../resources/presets/schema.ts')),
  ...(await import('../../../../translation/dialects/presets.ts')),
  ...(await import('../../../../translation/dialects/registry.ts')),
})
const guardrails = async () => ({
  ...(await import('../../../../limits/guardrails.ts')),
  ...(await import('../../../../limits/guardrails/schema.ts')),
  ...(await import('../../../../limits/assignments.ts')),
  ...(await import('../../../../limits/assignments/schema.ts')),
})
const byok = async () => ({
  ...(await import('../../../../resources/byok.ts')),
  ...(await import('../../../../resources/byok/schema.ts')),
})
const destinations = async () => ({
  ...(await import('../../../../observability/destinations.ts')),
  ...(await import('../../../../observability/destinations/schema.ts')),
})

/** Every change, by its noun and its verb. */
const CHANGES: Record<string, Make> = {
  'keys create': async (gateway, actor, change) => {
    const core = await keys()
    return (await core.createKey(gateway, actor, check(core.NewKey, change))).key
  },
  'keys update': async (gateway, actor, change) => {
    const core = await keys()
    return core.updateKey(gateway, actor, change.id, check(core.KeyChange, change))
  },
  'keys delete': async (gateway, actor, { id }) => (await keys()).deleteKey(gateway, actor, id),
  'workspaces create': async (gateway, actor, change) => {
    const core = await workspaces()
    return core.createWorkspace(gateway, actor, check(core.NewWorkspace, change))
  },
  'workspaces update': async (gateway, actor, change) => {
    const core = await workspaces()
    return core.updateWorkspace(gateway, actor, change.id, check(core.WorkspaceChange, change))
  },
  'workspaces delete': async (gateway, actor, { id }) =>
    (await workspaces()).deleteWorkspace(gateway, actor, id, {}),
  'workspaces add': async (gateway, actor, change) => {
    const core = await workspaces()
    return core.addWorkspaceMembers(gateway, actor, change.id, check(core.MemberIds, change))
  },
  'workspaces remove': async (gateway, actor, change) => {
    const core = await workspaces()
    return core.removeWorkspaceMembers(gateway, actor, change.id, check(core.MemberIds, change))
  },
  'members create': async (gateway, actor, change) => {
    const core = await members()
    return core.addMember(gateway, actor, check(core.NewMember, change))
  },
  'members update': async (gateway, actor, change) => {
    const core = await members()
    return core.updateMember(gateway, actor, change.id, check(core.MemberChange, change))
  },
  'members deactivate': async (gateway, actor, { id }) =>
    (await members()).deactivateMember(gateway, actor, id),
  'budgets set': async (gateway, actor, change) => {
    const core = await budgets()
    const input = check(core.BudgetInput, change)
    return core.setBudget(gateway, actor, ...splitBudgetId(change.id), input)
  },
  'budgets delete': async (gateway, actor, { id }) =>
    (await budgets()).deleteBudget(gateway, actor, ...splitBudgetId(id)),
  'presets create': async (gateway, actor, change) => {
    const core = await presets()
    const form = core.findPresetForm('chat')
    const owner = placeActor(actor, change)
    const draft = core.buildPresetDraft(gateway, owner, form, check(form.body, change))
    return core.createPreset(gateway, owner, change.id, draft)
  },
  'presets update': async (gateway, actor, change) => {
    const core = await presets()
    const input = check(core.PresetChange, change)
    return core.updatePreset(gateway, placeActor(actor, change), change.id, input)
  },
  'guardrails create': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.createGuardrail(gateway, actor, check(core.NewGuardrail, change))
  },
  'guardrails update': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.updateGuardrail(gateway, actor, change.id, check(core.GuardrailChange, change))
  },
  'guardrails delete': async (gateway, actor, { id }) =>
    (await guardrails()).deleteGuardrail(gateway, actor, id),
  'guardrails assign-keys': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.assignKeys(gateway, actor, change.id, check(core.KeyNames, change))
  },
  'guardrails unassign-keys': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.unassignKeys(gateway, actor, change.id, check(core.KeyNames, change))
  },
  'guardrails assign-members': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.assignMembers(gateway, actor, change.id, check(core.MemberNames, change))
  },
  'guardrails unassign-members': async (gateway, actor, change) => {
    const core = await guardrails()
    return core.unassignMembers(gateway, actor, change.id, check(core.MemberNames, change))
  },
  'byok create': async (gateway, actor, change) => {
    const core = await byok()
    return core.createByokKey(gateway, actor, check(core.NewByokKey, change))
  },
  'byok update': async (gateway, actor, change) => {
    const core = await byok()
    return core.updateByokKey(gateway, actor, change.id, check(core.ByokChange, change))
  },
  'byok delete': async (gateway, actor, { id }) => (await byok()).deleteByokKey(gateway, actor, id),
  'destinations create': async (gateway, actor, change) => {
    const core = await destinations()
    return core.createDestination(gateway, actor, check(core.NewDestination, change))
  },
  'destinations update': async (gateway, actor, change) => {
    const core = await destinations()
    return core.updateDestination(gateway, actor, change.id, check(core.DestinationChange, change))
  },
  'destinations delete': async (gateway, actor, { id }) =>
    (await destinations()).deleteDestination(gateway, actor, id),
  'credits create': async (gateway, actor, change) => {
    const core = await import('../../../../limits/credits.ts')
    return core.addCredit(gateway, actor, check(core.NewCredit, change))
  },
}

/**
 * Makes a change of a data directory. Returns a text that is shown this once: a new key. Throws 400
 * for an input that no such change takes, and what its core function throws.
 */
export async function makeLocalChange(
  gateway: Gateway,
  actor: Actor,
  change: Change,
): Promise<string | null> {
  const make = CHANGES[`${change.noun} ${change.verb}`]
  if (!make) throw new GatewayError('invalid_request', `${change.noun} know no ${change.verb}`)
  const made = await make(gateway, actor, change)
  return typeof made === 'string' ? made : null
}

/** The id of a budget: its workspace and its interval. */
function splitBudgetId(id: string): [workspace: string, interval: string] {
  const [workspace = '', interval = ''] = id.split(' ')
  return [workspace, interval]
}

// A preset belongs to the workspace of the actor.
const placeActor = (actor: Actor, { workspace_id }: Change): Actor =>
  workspace_id === undefined ? actor : { ...actor, workspace_id }
