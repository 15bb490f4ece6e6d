import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { assignKeys, assignMembers, unassignKeys } from '../../src/limits/assignments.ts'
import { deleteBudget, setBudget } from '../../src/limits/budgets.ts'
import { addCredit } from '../../src/limits/credits.ts'
import { createGuardrail, deleteGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import {
  createDestination,
  deleteDestination,
  updateDestination,
} from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createByokKey, deleteByokKey, updateByokKey } from '../../src/resources/byok.ts'
import { rotateKey } from '../../src/resources/keys/rotation.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember, updateMember } from '../../src/resources/members.ts'
import { createPreset, updatePreset } from '../../src/resources/presets.ts'
import {
  createScimGroup,
  deleteScimGroup,
  replaceScimGroup,
} from '../../src/resources/scim/groups.ts'
import {
  createGroupMapping,
  deleteGroupMapping,
  finishSyncJob,
} from '../../src/resources/scim/operations.ts'
import { createScimToken, revokeScimToken } from '../../src/resources/scim/tokens.ts'
import { createScimUser, deleteScimUser, replaceScimUser } from '../../src/resources/scim/users.ts'
import { beginSession, createSignInLink, signOut } from '../../src/resources/sign-ins.ts'
import {
  addWorkspaceMembers,
  removeWorkspaceMembers,
} from '../../src/resources/workspace-members.ts'
import {
  createWorkspace,
  deleteWorkspace,
  updateWorkspace,
} from '../../src/resources/workspaces.ts'
import { GROUP_ID, USER_ID } from './scim.ts'

const UNKNOWN = '00000000-0000-4000-8000-000000000000'
const ALWAYS = { ifMatch: null }
const TEXTS = ['a', "it's", "''", 'a\0b', '\ufeffa', '"?1 ? $1"', '\ud800', 'İ']

/** Lists what administrators do, with names, numbers and things of others that are drawn. */
export function listOperations(gateway: Gateway, draw: (below: number) => number) {
  const actor = getOperator(gateway)
  const { memory } = gateway
  const pick = <Item>(items: readonly Item[]) => items[draw(items.length)] as Item
  const text = () => pick(TEXTS) + pick(TEXTS)
  const flag = () => draw(2) === 0
  const money = () => pick([0.01, 1, 9_007_199.254740993])
  const rate = () => pick([1, 0.1, 0.0001, 0.29, 0.57])
  const email = () => `${pick(['a', 'B', 'b', "o'x"])}${draw(20)}@acme.example`
  const made: Record<string, string[]> = {}
  const note = async (kind: string, id: Promise<string>) => {
    made[kind] = [...(made[kind] ?? []), await id]
  }
  const noteData = (kind: string, answer: Promise<{ data: { id: string } }>) =>
    note(
      kind,
      answer.then(({ data }) => data.id),
    )
  // Many of them are gone by then.
  const find = (kind: string) => pick(made[kind] ?? [UNKNOWN])
  const key = () => pick([...[...memory.keys.values()].map(({ hash }) => hash), UNKNOWN])
  const keysOfDefault = () =>
    [...memory.keys.values()]
      .filter(({ workspace_id }) => workspace_id === memory.owner.workspace_id)
      .map(({ hash }) => hash)
  const workspace = () => pick([...memory.workspaces.values()].map(({ id }) => id))
  const member = () => pick([...(made.member ?? []), memory.owner.user_id])
  const user = () => ({ schemas: [USER_ID], userName: email(), displayName: text() })
  const group = () => ({
    schemas: [GROUP_ID],
    displayName: text(),
    members: [{ value: find('user') }],
  })
  const caller = () => ({ ...actor, kind: 'inference' as const, workspace_id: workspace() })
  const where = () => ({ workspace_id: workspace() })
  const interval = () => pick(['lifetime', 'monthly', 'daily'])
  const webhook = { type: 'webhook' as const, config: { url: 'https://hooks.invalid/' } }
  return [
    () => createKey(gateway, actor, { name: text(), limit: money(), ...where() }),
    () => createKey(gateway, actor, { name: text(), creator_user_id: member() }),
    () => updateKey(gateway, actor, key(), { name: text(), disabled: flag() }),
    () => rotateKey(gateway, actor, key(), { overlap_seconds: draw(2) * 60 }),
    () => deleteKey(gateway, actor, key()),
    () => createWorkspace(gateway, actor, { name: text(), slug: `team-${draw(4)}` }),
    () => updateWorkspace(gateway, actor, workspace(), { io_logging_sampling_rate: rate() }),
    () => deleteWorkspace(gateway, actor, workspace(), {}),
    () =>
      note(
        'member',
        addMember(gateway, actor, { email: email() }).then(({ id }) => id),
      ),
    () => updateMember(gateway, actor, member(), { first_name: text(), active: true }),
    () => deactivateMember(gateway, actor, member()),
    () => addWorkspaceMembers(gateway, actor, workspace(), { user_ids: [member(), member()] }),
    () => removeWorkspaceMembers(gateway, actor, workspace(), { user_ids: [member()] }),
    () => noteData('guardrail', createGuardrail(gateway, actor, { name: text() })),
    () => updateGuardrail(gateway, actor, find('guardrail'), { limit_usd: money() }),
    () => deleteGuardrail(gateway, actor, find('guardrail')),
    () => assignKeys(gateway, actor, find('guardrail'), { key_hashes: keysOfDefault() }),
    () => unassignKeys(gateway, actor, find('guardrail'), { key_hashes: [key()] }),
    () => assignMembers(gateway, actor, find('guardrail'), { member_user_ids: [member()] }),
    () => setBudget(gateway, actor, workspace(), interval(), { limit_usd: money(), soft: flag() }),
    () => deleteBudget(gateway, actor, workspace(), interval()),
    () => createPreset(gateway, caller(), 'brief', { system_prompt: text(), config: {} }),
    () => updatePreset(gateway, caller(), 'brief', { status: pick(['active', 'archived']) }),
    () =>
      noteData(
        'byok',
        createByokKey(gateway, actor, {
          provider: 'openai',
          key: 'sk-1',
          name: text(),
          ...where(),
        }),
      ),
    () => updateByokKey(gateway, actor, find('byok'), { name: text(), key: 'sk-2' }),
    () => deleteByokKey(gateway, actor, find('byok')),
    () =>
      noteData(
        'destination',
        createDestination(gateway, actor, { ...webhook, name: text(), ...where() }),
      ),
    () => updateDestination(gateway, actor, find('destination'), { sampling_rate: rate() }),
    () => deleteDestination(gateway, actor, find('destination')),
    () => addCredit(gateway, actor, { amount: money(), note: text() }),
    () => noteData('token', createScimToken(gateway, actor, { name: text() })),
    () => revokeScimToken(gateway, actor, find('token')),
    () =>
      note(
        'user',
        createScimUser(gateway, actor, user()).then(({ id }) => id),
      ),
    () => replaceScimUser(gateway, actor, find('user'), { ...user(), active: flag() }, ALWAYS),
    () => deleteScimUser(gateway, actor, find('user'), ALWAYS),
    () =>
      note(
        'group',
        createScimGroup(gateway, actor, group()).then(({ id }) => id),
      ),
    () => replaceScimGroup(gateway, actor, find('group'), group(), ALWAYS),
    () => deleteScimGroup(gateway, actor, find('group'), ALWAYS),
    () =>
      noteData(
        'mapping',
        createGroupMapping(gateway, actor, {
          ...{ scim_group_id: find('group'), ...where() },
          role: pick(['admin', 'member']),
        }),
      ),
    () => deleteGroupMapping(gateway, actor, find('mapping'), { keep_members: 'true' }),
    () => finishSyncJob(gateway, actor),
    () => createSignInLink(gateway, actor, member()),
    () => note('session', beginSession(gateway, member())),
    () => signOut(gateway, find('session')),
  ]
}

/** What is refused, or comes at the same moment as another change, is no fault. */
export const ignoreRefusal = (thrown: unknown) => {
  if (!(thrown instanceof GatewayError)) throw thrown
}
