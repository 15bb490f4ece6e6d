import { createPreset } from '../../../src/core/catalog/presets.ts'
import type { Gateway } from '../../../src/core/gateway.ts'
import { type Actor, operator } from '../../../src/core/identity/actor.ts'
import { createGroupMapping } from '../../../src/core/identity/scim/group-mappings.ts'
import { finishSyncJob } from '../../../src/core/identity/scim/sync-jobs.ts'
import { assignKeys } from '../../../src/core/policy/assignments.ts'
import { setBudget } from '../../../src/core/policy/budgets.ts'
import { createGuardrail } from '../../../src/core/policy/guardrails.ts'
import { generationWith } from '../generation.ts'
import { type Asking, byokKeyOf, groupOf, keyOf, workspaceOf } from '../operations.ts'

const GENERATION = 'gen-1772600767-00000000000000000077'

const plain: Asking = async () => ({})
const ofModel: Asking = async () => ({ params: { author: 'acme', slug: 'small' } })

/** Builds a request for a workspace that has a budget. */
const inWorkspace =
  (params: Record<string, string> = {}): Asking =>
  async (gateway, actor) => {
    const id = await workspaceOf(gateway, actor)
    await setBudget(gateway, operator(gateway), id, 'monthly', { limit_usd: 5 })
    return { params: { id, ...params } }
  }

/** Builds a request for a guardrail that is assigned to a key. */
const ofGuardrail: Asking = async (gateway, actor) => {
  const { id } = (await createGuardrail(gateway, actor, { name: 'Rules' })).data
  await assignKeys(gateway, actor, id, { key_hashes: [(await keyOf(gateway, actor)).hash] })
  return { params: { id } }
}

/** Creates a preset with an inference key of the workspace. */
export async function presetOf(gateway: Gateway, actor: Actor, slug = 'brief'): Promise<string> {
  await createPreset(gateway, { ...actor, kind: 'inference' }, slug, {
    system_prompt: 'Be brief',
    config: { temperature: 0 },
  })
  return slug
}

const ofPreset =
  (params: Record<string, string> = {}): Asking =>
  async (gateway, actor) => ({ params: { slug: await presetOf(gateway, actor), ...params } })

async function generationOf(gateway: Gateway, { workspace_id }: Actor): Promise<string> {
  await gateway.store.generations.record([
    { generation: generationWith({ id: GENERATION, workspace_id }), charge: null },
  ])
  return GENERATION
}

async function mappingOf(gateway: Gateway): Promise<string> {
  const input = {
    scim_group_id: await groupOf(gateway),
    workspace_id: gateway.memory.owner.workspace_id,
    role: 'member' as const,
  }
  return (await createGroupMapping(gateway, operator(gateway), input)).data.id
}

/** A valid request of every operation that only reads, by operation id. */
export const READINGS: Record<string, Asking> = {
  health: plain,
  ready: plain,
  metrics: plain,
  openapiJson: plain,
  openapiYaml: plain,
  docs: plain,
  docsPart: async () => ({ params: { part: 'page.css' } }),
  getModels: plain,
  listModelsCount: plain,
  listEmbeddingsModels: plain,
  listEndpointsZdr: plain,
  getModel: ofModel,
  listEndpoints: ofModel,
  listProviders: plain,
  createCoinbaseCharge: plain,
  getCurrentKey: plain,
  listModelsUser: plain,
  listPresets: plain,
  getPreset: ofPreset(),
  listPresetVersions: ofPreset(),
  getPresetVersion: ofPreset({ version: '1' }),
  getGeneration: async (gateway, actor) => ({ query: `id=${await generationOf(gateway, actor)}` }),
  list: plain,
  getKey: async (gateway, actor) => ({ params: { hash: (await keyOf(gateway, actor)).hash } }),
  listBYOKKeys: plain,
  getBYOKKey: async (gateway, actor) => ({ params: { id: (await byokKeyOf(gateway, actor)).id } }),
  listWorkspaces: plain,
  getWorkspace: inWorkspace(),
  listOrganizationMembers: plain,
  listWorkspaceMembers: inWorkspace(),
  listWorkspaceBudgets: inWorkspace(),
  getWorkspaceBudget: inWorkspace({ interval: 'monthly' }),
  listAudit: plain,
  getCredits: plain,
  listGuardrails: plain,
  getGuardrail: ofGuardrail,
  listKeyAssignments: plain,
  listMemberAssignments: plain,
  listGuardrailKeyAssignments: ofGuardrail,
  listGuardrailMemberAssignments: ofGuardrail,
  listScimGroups: plain,
  listScimGroupMappings: plain,
  getScimGroupMapping: async gateway => ({ params: { id: await mappingOf(gateway) } }),
  getScimSyncJob: async gateway => ({
    params: { id: (await finishSyncJob(gateway, operator(gateway))).data.id },
  }),
}
