import type { Gateway } from '../../../src/app/gateway.ts'
import { assignKeys } from '../../../src/limits/assignments.ts'
import { setBudget } from '../../../src/limits/budgets.ts'
import { createGuardrail } from '../../../src/limits/guardrails.ts'
import { sealTranscript } from '../../../src/observability/transcripts.ts'
import { type Actor, getOperator } from '../../../src/resources/actor.ts'
import { createPreset } from '../../../src/resources/presets.ts'
import { createGroupMapping, finishSyncJob } from '../../../src/resources/scim/operations.ts'
import { makeContainerFile } from '../containers.ts'
import { buildGeneration } from '../generation.ts'
import {
  makeAlert,
  makeBatch,
  makeByokKey,
  makeDestination,
  makeFile,
  makeGeneration,
  makeGroup,
  makeKey,
  makeStoredResponse,
  makeWorkspace,
  type RequestBuilder,
} from '../operations.ts'
import { buildVideoJob } from '../video-job.ts'

const GENERATION = 'gen-1772600767-00000000000000000077'

const requestNothing: RequestBuilder = async () => ({})
const requestModel: RequestBuilder = async () => ({ params: { author: 'acme', slug: 'small' } })

/** Builds a request for a workspace that has a budget. */
const requestWorkspace =
  (params: Record<string, string> = {}): RequestBuilder =>
  async (gateway, actor) => {
    const id = await makeWorkspace(gateway, actor)
    await setBudget(gateway, getOperator(gateway), id, 'monthly', { limit_usd: 5 })
    return { params: { id, ...params } }
  }

/** Builds a request for a guardrail that is assigned to a key. */
const requestGuardrail: RequestBuilder = async (gateway, actor) => {
  const { id } = (await createGuardrail(gateway, actor, { name: 'Rules' })).data
  await assignKeys(gateway, actor, id, { key_hashes: [(await makeKey(gateway, actor)).hash] })
  return { params: { id } }
}

/** Creates a preset with an inference key of the workspace. */
export async function makePreset(gateway: Gateway, actor: Actor, slug = 'brief'): Promise<string> {
  await createPreset(gateway, { ...actor, kind: 'inference' }, slug, {
    system_prompt: 'Be brief',
    config: { temperature: 0 },
  })
  return slug
}

const requestFile: RequestBuilder = async (gateway, actor) => ({
  params: { file_id: (await makeFile(gateway, actor)).id },
})

const requestResponse: RequestBuilder = async (gateway, actor) => ({
  params: { response_id: await makeStoredResponse(gateway, actor) },
})

/** Creates a job of the sandbox that is done. */
const requestVideo: RequestBuilder = async (gateway, { workspace_id, user_id }) => {
  const job = buildVideoJob({
    id: `job-${gateway.ids.secret().slice(-32)}`,
    generation_id: gateway.ids.generation(gateway.clock.now()),
    workspace_id,
    user_id,
    status: 'completed',
    ended_at: gateway.clock.now().toISOString(),
    outputs: '["/videos/sandbox-4-1/content"]',
  })
  await gateway.store.videos.insert(job)
  return { params: { jobId: job.id } }
}

const requestContainerFile: RequestBuilder = async (gateway, { workspace_id }) => ({
  params: await makeContainerFile(gateway, workspace_id),
})

const requestPreset =
  (params: Record<string, string> = {}): RequestBuilder =>
  async (gateway, actor) => ({ params: { slug: await makePreset(gateway, actor), ...params } })

async function makeTranscript(gateway: Gateway, { workspace_id }: Actor): Promise<string> {
  const isCaller = (key: { name: string; workspace_id: string }) =>
    key.name === 'inference' && key.workspace_id === workspace_id
  const key_hash = gateway.memory.keys.values().find(isCaller)?.hash ?? null
  const generation = buildGeneration({ id: GENERATION, workspace_id, key_hash })
  const answer = { completion: 'Hello', reasoning: null }
  const transcript = sealTranscript(
    gateway,
    { ...generation, created_at: gateway.clock.now().toISOString() },
    { input: { prompt: 'Hi' }, output: answer },
  )
  if (transcript) await gateway.store.generations.record([{ generation, charge: null, transcript }])
  return GENERATION
}

async function makeMapping(gateway: Gateway): Promise<string> {
  const input = {
    scim_group_id: await makeGroup(gateway),
    workspace_id: gateway.memory.owner.workspace_id,
    role: 'member' as const,
  }
  return (await createGroupMapping(gateway, getOperator(gateway), input)).data.id
}

/** A valid request of every operation that only reads, by operation id. */
export const READINGS: Record<string, RequestBuilder> = {
  home: requestNothing,
  creditsPage: requestNothing,
  favicon: requestNothing,
  health: requestNothing,
  healthz: requestNothing,
  ready: requestNothing,
  metrics: requestNothing,
  openapiJson: requestNothing,
  openapiYaml: requestNothing,
  docs: requestNothing,
  docsPart: async () => ({ params: { part: 'page.css' } }),
  // A code works once, so that these requests have none.
  exchangeAuthCodeForAPIKey: async () => ({ body: { code: 'gw-code-v1-none' } }),
  listOauthJwks: requestNothing,
  // No issuer is configured.
  createOauthToken: async () => ({
    body: {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: 'eyJhbGciOiJSUzI1NiJ9.e30.c2ln',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      federation_policy_id: 'none',
    },
  }),
  getModels: requestNothing,
  listModelsCount: requestNothing,
  listEmbeddingsModels: requestNothing,
  listImageModels: requestNothing,
  listVideosModels: requestNothing,
  getVideos: requestVideo,
  listVideosContent: requestVideo,
  listImageModelEndpoints: async () => ({ params: { author: 'sandbox', slug: 'image' } }),
  listEndpointsZdr: requestNothing,
  getModel: requestModel,
  retrieveModel: requestModel,
  retrieveModelById: async () => ({ params: { author: 'small' } }),
  listEndpoints: requestModel,
  listProviders: requestNothing,
  createCoinbaseCharge: requestNothing,
  getCurrentKey: requestNothing,
  listModelsUser: requestNothing,
  listPresets: requestNothing,
  getPreset: requestPreset(),
  listPresetVersions: requestPreset(),
  getPresetVersion: requestPreset({ version: '1' }),
  getGeneration: async (gateway, actor) => ({
    query: `id=${await makeGeneration(gateway, actor)}`,
  }),
  listGenerationContent: async (gateway, actor) => ({
    query: `id=${await makeTranscript(gateway, actor)}`,
  }),
  listGeminiModels: requestNothing,
  getGeminiModel: async () => ({ params: { model: 'acme/small' } }),
  getResponse: requestResponse,
  listResponseInputItems: requestResponse,
  list: requestNothing,
  getKey: async (gateway, actor) => ({ params: { hash: (await makeKey(gateway, actor)).hash } }),
  listAlerts: requestNothing,
  getAlert: async (gateway, actor) => ({ params: { id: (await makeAlert(gateway, actor)).id } }),
  testAlert: async (gateway, actor) => ({ params: { id: (await makeAlert(gateway, actor)).id } }),
  listObservabilityDestinations: requestNothing,
  getObservabilityDestination: async (gateway, actor) => ({
    params: { id: (await makeDestination(gateway, actor)).id },
  }),
  listBYOKKeys: requestNothing,
  getBYOKKey: async (gateway, actor) => ({
    params: { id: (await makeByokKey(gateway, actor)).id },
  }),
  listFiles: requestNothing,
  getFileMetadata: requestFile,
  downloadFileContent: requestFile,
  listBatches: requestNothing,
  listMessageBatches: requestNothing,
  getMessageBatch: async (gateway, actor) => ({
    params: { id: await makeBatch(gateway, actor, {}, '/v1/messages') },
  }),
  getMessageBatchResults: async (gateway, actor) => ({
    params: {
      id: await makeBatch(gateway, actor, { ended_at: '2026-03-04T05:06:08.000Z' }, '/v1/messages'),
    },
  }),
  getBatch: async (gateway, actor) => ({ params: { id: await makeBatch(gateway, actor) } }),
  listContainerFiles: async (gateway, { workspace_id }) => ({
    params: { container_id: (await makeContainerFile(gateway, workspace_id)).container_id },
  }),
  getContainerFile: requestContainerFile,
  downloadContainerFileContent: requestContainerFile,
  listWorkspaces: requestNothing,
  getWorkspace: requestWorkspace(),
  listOrganizationMembers: requestNothing,
  listWorkspaceMembers: requestWorkspace(),
  listWorkspaceBudgets: requestWorkspace(),
  getWorkspaceBudget: requestWorkspace({ interval: 'monthly' }),
  listAudit: requestNothing,
  getCredits: requestNothing,
  getUserActivity: requestNothing,
  getAnalyticsMeta: requestNothing,
  queryAnalytics: async () => ({ body: { metrics: ['request_count'] } }),
  getSessionCost: requestNothing,
  getAppRankings: requestNothing,
  getRankingsDaily: requestNothing,
  getTaskClassifications: requestNothing,
  getBenchmarks: requestNothing,
  streamActivity: async () => ({ query: 'limit=1' }),
  listGuardrails: requestNothing,
  getGuardrail: requestGuardrail,
  listKeyAssignments: requestNothing,
  listMemberAssignments: requestNothing,
  listGuardrailKeyAssignments: requestGuardrail,
  listGuardrailMemberAssignments: requestGuardrail,
  listScimGroups: requestNothing,
  listScimGroupMappings: requestNothing,
  getScimGroupMapping: async gateway => ({ params: { id: await makeMapping(gateway) } }),
  getScimSyncJob: async gateway => ({
    params: { id: (await finishSyncJob(gateway, getOperator(gateway))).data.id },
  }),
}
