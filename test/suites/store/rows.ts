import { GatewayError } from '../../../src/base/errors.ts'
import type { Budget } from '../../../src/limits/budgets/store.ts'
import type { Key, KeyDisabling } from '../../../src/resources/keys/store.ts'
import type { Member, WorkspaceMember } from '../../../src/resources/members/store.ts'
import type { Workspace } from '../../../src/resources/workspaces/store.ts'
import { buildDefaultWorkspace } from '../../../src/resources/workspaces.ts'
import type { Store } from '../../../src/store/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'

/** The workspace that every empty store of the suite gets, and the creation time of everything. */
export const WORKSPACE = '00000000-0000-7000-8000-000000000001'

/** Bounds that no test of something else reaches. */
export const PRESET_QUOTA = { workspace_id: WORKSPACE, presets: 100, bytes: 1024 * 1024 }
export const CREATED = '2026-03-04T05:06:07.000Z'
export const LATER = '2026-03-05T05:06:07.000Z'

/** The largest amount that fits into 64 bits. */
export const LARGEST = 2n ** 63n - 1n

/** Returns the store of the running test. */
export type GetStore = () => Store

export const buildKey = (more: Partial<Key> = {}): Key => ({
  hash: 'h1',
  name: 'ci “𝄞”',
  label: 'gw-v1-abc...def',
  kind: 'inference',
  workspace_id: WORKSPACE,
  isUnscoped: false,
  creator_user_id: 'user_1',
  external_user: null,
  external_api_key_hash: null,
  secret_hash: null,
  previous_secret_hash: null,
  previous_secret_until: null,
  disabled: false,
  limit: 1n,
  limit_reset: 'weekly',
  include_byok_in_limit: true,
  expires_at: '2027-01-01T00:00:00Z',
  created_at: CREATED,
  updated_at: null,
  ...more,
})

export const buildWorkspace = (more: Partial<Workspace> = {}): Workspace => ({
  ...buildDefaultWorkspace('w2', 'user_1', new Date(CREATED)),
  slug: 'other “𝄞”',
  is_default: false,
  ...more,
})

export const buildMember = (id: string, more: Partial<Member> = {}): Member => ({
  id,
  email: `${id}@acme.example`,
  first_name: 'Ada “𝄞”',
  last_name: null,
  role: 'org:member',
  active: true,
  created_at: CREATED,
  updated_at: null,
  ...more,
})

export const buildWorkspaceMember = (
  user_id: string,
  more: Partial<WorkspaceMember> = {},
): WorkspaceMember => ({
  id: `place of ${user_id}`,
  workspace_id: WORKSPACE,
  user_id,
  role: 'member',
  created_at: CREATED,
  source: 'manual',
  ...more,
})

export const buildBudget = (interval: Budget['interval'], limit_usd: bigint): Budget => ({
  id: `budget ${interval}`,
  workspace_id: WORKSPACE,
  interval,
  limit_usd,
  soft: false,
  created_at: CREATED,
  updated_at: CREATED,
})

/** Builds the disabling of keys along with something else, each with its audit entry. */
export const buildDisabling = (...hashes: string[]): KeyDisabling => ({
  hashes,
  updated_at: LATER,
  entries: hashes.map(hash => buildAuditEntry({ action: 'keys.disable', resource_id: hash })),
})

/** Returns the error type that a promise rejects with; undefined if it resolves. */
export const readErrorType = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    thrown => GatewayError.from(thrown).type,
  )

/** Returns the status and message that a promise rejects with; undefined if it resolves. */
export const readRefusal = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    thrown => `${GatewayError.from(thrown).status} ${GatewayError.from(thrown).message}`,
  )

/** Counts the audit entries. A change that is undone leaves none. */
export const countAudit = async (store: Store) => (await store.audit.listPage({}, 0, 1)).total

/** Sorts by a field that no two rows share. */
export const sortByField = <Row>(rows: Row[], field: keyof Row): Row[] =>
  rows.toSorted((a, b) => (a[field] < b[field] ? -1 : 1))
