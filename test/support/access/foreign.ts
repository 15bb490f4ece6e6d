import { createGuardrail } from '../../../src/limits/guardrails.ts'
import type { World } from '../access.ts'
import { makePreset } from '../operations/readings.ts'
import {
  makeByokKey,
  makeGroup,
  makeKey,
  makeMember,
  type OperationRequest,
} from '../operations.ts'

/** Resources of a workspace that no credential belongs to, by their names in requests. */
export interface ForeignResources {
  workspace: string
  key: string
  member: string
  group: string
  guardrail: string
  'provider key': string
  preset: string
}

/** Creates one of each in the third workspace. */
export async function createForeignResources({
  gateway,
  actors: { third },
}: World): Promise<ForeignResources> {
  return {
    workspace: third.workspace_id,
    key: (await makeKey(gateway, third)).hash,
    member: (await makeMember(gateway, 'eve@acme.example')).id,
    group: await makeGroup(gateway),
    guardrail: (await createGuardrail(gateway, third, { name: 'Theirs' })).data.id,
    'provider key': (await makeByokKey(gateway, third)).id,
    preset: await makePreset(gateway, third, 'theirs'),
  }
}

const UUID = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

/** Returns a name of the same form that does not exist. */
export function toUnknownName(name: string): string {
  if (/^[0-9a-f-]{36}$/.test(name)) return UUID
  if (/^[0-9a-f]{64}$/.test(name)) return 'f'.repeat(64)
  if (name.startsWith('gen-')) return name.replace(/\d/g, '9')
  return 'nowhere'
}

/**
 * Returns the same request for resources that do not exist. Intervals and versions are not names.
 */
export const toUnknownRequest = ({
  params = {},
  query,
  body,
}: OperationRequest): OperationRequest => ({
  params: Object.fromEntries(
    Object.entries(params).map(([name, value]) => [
      name,
      isName(name) ? toUnknownName(value) : value,
    ]),
  ),
  ...(query === undefined ? {} : { query: query.replace(/(?<=^id=).*/, toUnknownName) }),
  ...(body === undefined ? {} : { body }),
})

const isName = (param: string) => param !== 'interval' && param !== 'version'

type NamedField = [
  id: string,
  thing: keyof ForeignResources,
  say: (name: string) => OperationRequest,
  status: number,
]

const query =
  (field: string) =>
  (name: string): OperationRequest => ({ query: `${field}=${name}` })
const body =
  (bodyOf: (name: string) => object) =>
  (name: string): OperationRequest => ({ body: bodyOf(name) })

const PROVIDER_KEY = { provider: 'openai', key: 'sk-canary-1' }
const messages = [{ role: 'user', content: 'Hi' }]

/**
 * The places besides the path where requests name resources, and the status if those are foreign.
 */
export const NAMED_FIELDS: NamedField[] = [
  ['createKeys', 'workspace', body(workspace_id => ({ name: 'ci', workspace_id })), 400],
  ['createKeys', 'member', body(creator_user_id => ({ name: 'ci', creator_user_id })), 400],
  ['list', 'workspace', query('workspace_id'), 400],
  ['createBYOKKey', 'workspace', body(workspace_id => ({ ...PROVIDER_KEY, workspace_id })), 400],
  [
    'createBYOKKey',
    'key',
    body(hash => ({ ...PROVIDER_KEY, allowed_api_key_hashes: [hash] })),
    400,
  ],
  ['updateBYOKKey', 'key', body(hash => ({ allowed_api_key_hashes: [hash] })), 400],
  ['listBYOKKeys', 'workspace', query('workspace_id'), 400],
  ['createGuardrail', 'workspace', body(workspace_id => ({ name: 'Rules', workspace_id })), 400],
  ['listGuardrails', 'workspace', query('workspace_id'), 400],
  ['bulkAssignKeysToGuardrail', 'key', body(hash => ({ key_hashes: [hash] })), 400],
  ['bulkUnassignKeysFromGuardrail', 'key', body(hash => ({ key_hashes: [hash] })), 200],
  ['bulkAssignMembersToGuardrail', 'member', body(id => ({ member_user_ids: [id] })), 403],
  ['bulkUnassignMembersFromGuardrail', 'member', body(id => ({ member_user_ids: [id] })), 403],
  [
    'createScimGroupMapping',
    'workspace',
    body(workspace_id => ({ scim_group_id: UUID, workspace_id, role: 'admin' })),
    403,
  ],
  [
    'createScimGroupMapping',
    'group',
    body(scim_group_id => ({ scim_group_id, workspace_id: UUID, role: 'admin' })),
    403,
  ],
  ['listAudit', 'workspace', query('workspace_id'), 200],
  ['listAudit', 'key', query('resource_id'), 200],
  ['listAudit', 'key', query('key_hash'), 200],
  ['listAudit', 'guardrail', query('resource_id'), 200],
  ['listAudit', 'provider key', query('resource_id'), 200],
  [
    'sendChatCompletionRequest',
    'preset',
    body(preset => ({ model: 'acme/small', messages, preset })),
    404,
  ],
  [
    'sendChatCompletionRequest',
    'preset',
    body(slug => ({ model: `@preset/${slug}`, messages })),
    404,
  ],
  [
    'sendChatCompletionRequest',
    'preset',
    body(slug => ({ model: `acme/small@preset/${slug}`, messages, stream: true })),
    404,
  ],
  [
    'sendCompletionRequest',
    'preset',
    body(slug => ({ model: `@preset/${slug}`, prompt: 'Hi' })),
    404,
  ],
  [
    'createMessages',
    'preset',
    body(slug => ({ model: `@preset/${slug}`, max_tokens: 5, messages })),
    404,
  ],
  ['createResponses', 'preset', body(slug => ({ model: `@preset/${slug}`, input: 'Hi' })), 404],
  [
    'createMessages',
    'preset',
    body(preset => ({ model: 'acme/small', max_tokens: 5, messages, preset })),
    404,
  ],
]
