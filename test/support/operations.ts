import type { Gateway } from '../../src/app/gateway.ts'
import type { Batch } from '../../src/extensions/batches/store.ts'
import { createBatch } from '../../src/extensions/batches.ts'
import { assignKeys, assignMembers } from '../../src/limits/assignments.ts'
import { setBudget } from '../../src/limits/budgets.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { createAlert } from '../../src/observability/alerts.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { type Actor, canManageAll, getOperator } from '../../src/resources/actor.ts'
import { createByokKey } from '../../src/resources/byok.ts'
import { storeFile } from '../../src/resources/files.ts'
import { createKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { keepQueued, keepResponse } from '../../src/resources/responses.ts'
import { createScimGroup } from '../../src/resources/scim/groups.ts'
import { createGroupMapping } from '../../src/resources/scim/operations.ts'
import { addWorkspaceMembers } from '../../src/resources/workspace-members.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { makeContainerFile } from './containers.ts'
import { buildGeneration } from './generation.ts'
import { GROUP_ID } from './scim.ts'

/** A request of an operation: the parameters of its path, its query and its body. */
export interface OperationRequest {
  params?: Record<string, string>
  query?: string
  body?: object | FormData
}

/** Prepares and builds a valid request about the workspace that `actor` manages. */
export type RequestBuilder = (gateway: Gateway, actor: Actor) => Promise<OperationRequest>

/**
 * Builds a valid request that changes something. `key` is its kind of key if that is not a management key.
 */
export type Example = (
  gateway: Gateway,
  actor: Actor,
) => Promise<OperationRequest & { action: string; key?: 'inference' | 'either' }>

export const makeKey = async (gateway: Gateway, actor: Actor) =>
  (await createKey(gateway, actor, { name: 'ci' })).data
export const makeByokKey = async (gateway: Gateway, actor: Actor) =>
  (await createByokKey(gateway, actor, { provider: 'openai', key: 'sk-canary-1' })).data
const GENERATION = 'gen-1772600767-00000000000000000077'

/** Records a call of the actor's workspace, and returns its id. */
export async function makeGeneration(gateway: Gateway, actor: Actor): Promise<string> {
  const generation = buildGeneration({ id: GENERATION, workspace_id: actor.workspace_id })
  await gateway.store.generations.record([{ generation, charge: null }])
  return GENERATION
}

const DESTINATION = {
  type: 'webhook' as const,
  name: 'Traces',
  config: {
    url: 'https://hooks.example.com/traces',
    headers: { authorization: 'Bearer sk-canary-1' },
  },
}
const ALERT = {
  name: 'Near',
  cause: 'limit_near' as const,
  to: {
    type: 'webhook' as const,
    url: 'https://hooks.invalid/alerts',
    secret: 'whsec_c2stY2FuYXJ5LTE=',
  },
}
export const makeAlert = async (gateway: Gateway, actor: Actor) =>
  (await createAlert(gateway, actor, ALERT)).data
export const makeDestination = async (gateway: Gateway, actor: Actor) =>
  (await createDestination(gateway, actor, DESTINATION)).data
/** Stores a file that can be downloaded, in the actor's workspace. */
export const makeFile = (gateway: Gateway, actor: Actor, filename = 'notes.txt') =>
  storeFile(gateway, actor, { filename, downloadable: true }, streamText('Hello'))

/** Makes a batch in the actor's workspace, and returns its id. */
export async function makeBatch(
  gateway: Gateway,
  actor: Actor,
  more: Partial<Batch> = {},
  endpoint: Batch['endpoint'] = '/v1/chat/completions',
): Promise<string> {
  const { hash } = await makeKey(gateway, getOperator(gateway))
  const payer = { ...actor, kind: 'inference' as const, key_hash: hash }
  const body = { messages: [{ role: 'user', content: 'Hello' }] }
  const { id } = await createBatch(gateway, payer, {
    endpoint: endpoint as '/v1/messages',
    model: 'sandbox/echo',
    requests: [{ custom_id: 'a', body }],
  })
  if (Object.keys(more).length > 0) await gateway.store.batches.change(id, ['validating'], more)
  return id
}

const HELLO = [{ role: 'user', content: 'Hello' }]

/** Stores a response of the workspace’s own key for inference, and returns its id. */
export async function makeStoredResponse(
  gateway: Gateway,
  { workspace_id, ...actor }: Actor,
  status = 'completed',
): Promise<string> {
  const isCaller = (key: { name: string; workspace_id: string }) =>
    key.name === 'inference' && key.workspace_id === workspace_id
  const key_hash = gateway.memory.keys.values().find(isCaller)?.hash ?? null
  const id = gateway.ids.generation(gateway.clock.now())
  const response = { id, object: 'response', status, output: [], background: true }
  const input = [{ type: 'message', role: 'user', content: 'Hi' }]
  const keep = status === 'queued' ? keepQueued : keepResponse
  await keep(gateway, { ...actor, workspace_id, key_hash }, { input, response })
  return id
}

async function* streamText(text: string) {
  yield Buffer.from(text)
}

/** Builds the form that uploads a file. */
export function buildFileForm(content: BlobPart = 'Hello', filename = 'notes.txt'): FormData {
  const form = new FormData()
  form.set('file', new Blob([content]), filename)
  return form
}

export const makeMember = (gateway: Gateway, email = 'ada@acme.example') =>
  addMember(gateway, getOperator(gateway), { email })

/** Returns the id of a workspace that the actor manages and that is not the default one. */
export async function makeWorkspace(gateway: Gateway, actor: Actor): Promise<string> {
  if (!canManageAll(gateway, actor)) return actor.workspace_id
  return (await createWorkspace(gateway, actor, { name: 'Team', slug: 'team' })).data.id
}

/** Builds a request for a workspace that has a member and a budget. */
const buildWorkspaceExample =
  (
    action: string,
    more: (user_id: string) => { params?: Record<string, string>; body?: object },
  ): Example =>
  async (gateway, actor) => {
    const [id, member, other] = [
      await makeWorkspace(gateway, actor),
      await makeMember(gateway),
      gateway.memory.owner.user_id,
    ]
    await setBudget(gateway, getOperator(gateway), id, 'monthly', { limit_usd: 5 })
    await addWorkspaceMembers(gateway, getOperator(gateway), id, { user_ids: [other] })
    const { params, body } = more(action === 'workspace_members.remove' ? other : member.id)
    return { action, params: { id, ...params }, ...(body ? { body } : {}) }
  }

/** Builds a request for a guardrail assigned to one key and member, but not to others. */
const buildGuardrailExample =
  (
    action: string,
    bodyOf: (names: {
      key: string
      member: string
      otherKey: string
      otherMember: string
    }) => object | undefined,
  ): Example =>
  async (gateway, actor) => {
    const [key, otherKey] = [
      (await makeKey(gateway, actor)).hash,
      (await makeKey(gateway, actor)).hash,
    ]
    const [member, otherMember] = [gateway.memory.owner.user_id, (await makeMember(gateway)).id]
    const { id } = (await createGuardrail(gateway, actor, { name: 'Rules' })).data
    await assignKeys(gateway, actor, id, { key_hashes: [key] })
    await assignMembers(gateway, getOperator(gateway), id, { member_user_ids: [member] })
    const body = bodyOf({ key, member, otherKey, otherMember })
    return { action, params: { id }, ...(body ? { body } : {}) }
  }

export const makeGroup = async (gateway: Gateway) =>
  (
    await createScimGroup(gateway, getOperator(gateway), {
      schemas: [GROUP_ID],
      displayName: 'Engineers',
    })
  ).id

/** Builds a request for a mapping of a group. */
const buildMappingExample =
  (action: string, more: { body?: object; query?: string }): Example =>
  async gateway => {
    const input = {
      scim_group_id: await makeGroup(gateway),
      workspace_id: gateway.memory.owner.workspace_id,
      role: 'member' as const,
    }
    const { data } = await createGroupMapping(gateway, getOperator(gateway), input)
    return { action, params: { id: data.id }, ...more }
  }

const buildPresetExample =
  (body: object): Example =>
  async () => ({ action: 'presets.create', params: { slug: 'brief' }, body, key: 'inference' })
const messages = [{ role: 'user', content: 'Hi' }]

/** A valid request of every operation that changes something, by operation id. */
export const EXAMPLES: Record<string, Example> = {
  createAuthKeysCode: async () => ({
    action: 'auth_codes.create',
    body: { callback_url: 'https://app.example/callback', key_label: 'app' },
    key: 'inference',
  }),
  submitGenerationFeedback: async (gateway, actor) => ({
    action: 'feedback.create',
    body: {
      generation_id: await makeGeneration(gateway, actor),
      category: 'other',
      comment: 'Paris, not Rome',
    },
  }),
  createKeys: async () => ({ action: 'keys.create', body: { name: 'ci' } }),
  updateKeys: async (gateway, actor) => ({
    action: 'keys.update',
    params: { hash: (await makeKey(gateway, actor)).hash },
    body: { name: 'other' },
  }),
  rotateKey: async (gateway, actor) => ({
    action: 'keys.rotate',
    params: { hash: (await makeKey(gateway, actor)).hash },
    body: { overlap_seconds: 60 },
  }),
  deleteKeys: async (gateway, actor) => ({
    action: 'keys.delete',
    params: { hash: (await makeKey(gateway, actor)).hash },
  }),
  createAlert: async () => ({ action: 'alerts.create', body: ALERT }),
  updateAlert: async (gateway, actor) => ({
    action: 'alerts.update',
    params: { id: (await makeAlert(gateway, actor)).id },
    body: { to: { ...ALERT.to, secret: 'whsec_c2stY2FuYXJ5LTI=' } },
  }),
  deleteAlert: async (gateway, actor) => ({
    action: 'alerts.delete',
    params: { id: (await makeAlert(gateway, actor)).id },
  }),
  createObservabilityDestination: async () => ({
    action: 'destinations.create',
    body: DESTINATION,
  }),
  updateObservabilityDestination: async (gateway, actor) => ({
    action: 'destinations.update',
    params: { id: (await makeDestination(gateway, actor)).id },
    body: { config: { headers: { authorization: 'Bearer sk-canary-2' } } },
  }),
  deleteObservabilityDestination: async (gateway, actor) => ({
    action: 'destinations.delete',
    params: { id: (await makeDestination(gateway, actor)).id },
  }),
  createBYOKKey: async () => ({
    action: 'byok.create',
    body: { provider: 'openai', key: 'sk-canary-1' },
  }),
  updateBYOKKey: async (gateway, actor) => ({
    action: 'byok.update',
    params: { id: (await makeByokKey(gateway, actor)).id },
    body: { key: 'sk-canary-2' },
  }),
  deleteBYOKKey: async (gateway, actor) => ({
    action: 'byok.delete',
    params: { id: (await makeByokKey(gateway, actor)).id },
  }),
  createWorkspace: async () => ({
    action: 'workspaces.create',
    body: { name: 'Team', slug: 'team' },
  }),
  updateWorkspace: buildWorkspaceExample('workspaces.update', () => ({ body: { name: 'Crew' } })),
  deleteWorkspace: buildWorkspaceExample('workspaces.delete', () => ({})),
  bulkAddWorkspaceMembers: buildWorkspaceExample('workspace_members.add', user_id => ({
    body: { user_ids: [user_id] },
  })),
  bulkRemoveWorkspaceMembers: buildWorkspaceExample('workspace_members.remove', user_id => ({
    body: { user_ids: [user_id] },
  })),
  upsertWorkspaceBudget: buildWorkspaceExample('budgets.create', () => ({
    params: { interval: 'daily' },
    body: { limit_usd: 1 },
  })),
  deleteWorkspaceBudget: buildWorkspaceExample('budgets.delete', () => ({
    params: { interval: 'monthly' },
  })),
  uploadFile: async () => ({ action: 'files.create', body: buildFileForm(), key: 'either' }),
  deleteFile: async (gateway, actor) => ({
    action: 'files.delete',
    key: 'either',
    params: { file_id: (await makeFile(gateway, actor)).id },
  }),
  createBatch: async (gateway, actor) => ({
    action: 'batches.create',
    key: 'inference',
    body: {
      endpoint: '/v1/chat/completions',
      input_file_id: (await makeFile(gateway, actor)).id,
    },
  }),
  cancelBatch: async (gateway, actor) => ({
    action: 'batches.cancel',
    key: 'either',
    params: { id: await makeBatch(gateway, actor) },
  }),
  createMessageBatch: async () => ({
    action: 'batches.create',
    key: 'inference',
    body: {
      requests: [
        { custom_id: 'a', params: { model: 'sandbox/echo', max_tokens: 9, messages: HELLO } },
      ],
    },
  }),
  cancelMessageBatch: async (gateway, actor) => ({
    action: 'batches.cancel',
    key: 'either',
    params: { id: await makeBatch(gateway, actor, {}, '/v1/messages') },
  }),
  deleteMessageBatch: async (gateway, actor) => ({
    action: 'batches.delete',
    key: 'either',
    params: {
      id: await makeBatch(gateway, actor, { ended_at: '2026-03-04T05:06:08.000Z' }, '/v1/messages'),
    },
  }),
  deleteBatch: async (gateway, actor) => ({
    action: 'batches.delete',
    key: 'either',
    params: { id: await makeBatch(gateway, actor, { ended_at: '2026-03-04T05:06:08.000Z' }) },
  }),
  cancelResponse: async (gateway, actor) => ({
    action: 'responses.cancel',
    key: 'either',
    params: { response_id: await makeStoredResponse(gateway, actor, 'queued') },
  }),
  deleteResponse: async (gateway, actor) => ({
    action: 'responses.delete',
    key: 'either',
    params: { response_id: await makeStoredResponse(gateway, actor) },
  }),
  promoteContainerFile: async (gateway, { workspace_id }) => ({
    action: 'files.create',
    key: 'either',
    params: await makeContainerFile(gateway, workspace_id),
  }),
  createGuardrail: async () => ({
    action: 'guardrails.create',
    body: { name: 'Rules', limit_usd: 5, reset_interval: 'daily' },
  }),
  updateGuardrail: buildGuardrailExample('guardrails.update', () => ({ name: 'Others' })),
  deleteGuardrail: buildGuardrailExample('guardrails.delete', () => undefined),
  bulkAssignKeysToGuardrail: buildGuardrailExample('guardrails.assign', ({ otherKey }) => ({
    key_hashes: [otherKey],
  })),
  bulkUnassignKeysFromGuardrail: buildGuardrailExample('guardrails.unassign', ({ key }) => ({
    key_hashes: [key],
  })),
  bulkAssignMembersToGuardrail: buildGuardrailExample('guardrails.assign', ({ otherMember }) => ({
    member_user_ids: [otherMember],
  })),
  bulkUnassignMembersFromGuardrail: buildGuardrailExample('guardrails.unassign', ({ member }) => ({
    member_user_ids: [member],
  })),
  createScimGroupMapping: async gateway => ({
    action: 'scim_group_mappings.create',
    body: {
      scim_group_id: await makeGroup(gateway),
      workspace_id: gateway.memory.owner.workspace_id,
      role: 'admin',
    },
  }),
  updateScimGroupMapping: buildMappingExample('scim_group_mappings.update', {
    body: { role: 'admin' },
  }),
  deleteScimGroupMapping: buildMappingExample('scim_group_mappings.delete', {
    query: 'keep_members=true',
  }),
  createScimSyncJob: async () => ({ action: 'scim_sync_jobs.create' }),
  createPresetsChatCompletions: buildPresetExample({ messages, temperature: 0 }),
  createPresetsMessages: buildPresetExample({ model: 'sandbox/echo', max_tokens: 5, messages }),
  createPresetsResponses: buildPresetExample({ input: 'Hi', temperature: 0 }),
}
