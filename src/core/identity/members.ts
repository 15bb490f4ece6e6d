import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import type { Actor } from './actor.ts'
import { type AuditEntry, auditEntry } from './audit.ts'
import { type Disabling, disableKeys, disablingOf } from './keys.ts'
import { mustManageAll } from './management.ts'
import type { Owner } from './workspaces.ts'
import type { IdentityWorld } from './world.ts'

/** A person of the organization. His id is the `user_id` of what he makes. Times in ISO 8601. */
export interface Member {
  id: string
  email: string
  first_name: string | null
  last_name: string | null
  role: 'org:admin' | 'org:member'
  /** Whether he is still one. Who left stays on record. */
  active: boolean
  created_at: string
  updated_at: string | null
}

/** That a member was put into a workspace. */
export interface WorkspaceMember {
  id: string
  workspace_id: string
  user_id: string
  role: 'admin' | 'member'
  created_at: string
  /** Who put him there: an administrator, or a mapping of the identity provider's groups. Never shown. */
  source: 'manual' | 'scim'
}

/** Remembers the organization's members and who is in which workspace. What changes one is one transaction with the entries that tell of it. */
export interface MemberStore {
  /** A member, unless there is one with this id. */
  first(member: Member): Promise<void>
  /** The active ones, the oldest first. */
  list(offset: number, limit: number): Promise<Member[]>
  /** How many are active. */
  count(): Promise<number>
  /** Those of these ids that there are, active or not. */
  byIds(ids: string[]): Promise<Member[]>
  /** A new one. Throws 409 where an active member has the e-mail address. */
  insert(member: Member, entry: AuditEntry): Promise<void>
  /** Changes these fields of a member and no others. Throws 409 where an active member has the e-mail address. */
  update(id: string, change: Partial<Member>, entry: AuditEntry): Promise<void>
  /** Takes the membership and disables every key that he made. Throws 409 where he has made or lost one at the same moment. */
  deactivate(id: string, keys: Disabling, entry: AuditEntry): Promise<void>
  /** Who was put into a workspace and is active, the first first. */
  inWorkspace(workspace_id: string): Promise<WorkspaceMember[]>
  /** The membership of one, whether he is active or not. */
  workspaceMember(workspace_id: string, user_id: string): Promise<WorkspaceMember | undefined>
  /**
   * Puts people into a workspace, takes them out of it or changes how they are in it, all or none. Throws 409 where one is no longer in it
   * as he was `before`, and 400 where it is gone.
   */
  changeWorkspaceMembers(changes: Membership[]): Promise<void>
}

/** A change of how somebody is in a workspace; null: not at all. */
export interface Membership {
  before: WorkspaceMember | null
  after: WorkspaceMember | null
  entry: AuditEntry
}

const Name = Type.Union([Type.String({ minLength: 1, maxLength: 255 }), Type.Null()])

const FIELDS = {
  first_name: Type.Optional(Name),
  last_name: Type.Optional(Name),
  role: Type.Optional(Type.Union([Type.Literal('org:admin'), Type.Literal('org:member')])),
}
const Email = Type.String({ format: 'email', maxLength: 320 })

/** What a member is made of. The public API makes none: the terminal does, and the identity provider. */
export const NewMember = Type.Object({ email: Email, ...FIELDS })
export type NewMember = Static<typeof NewMember>

/** What may be changed of a member. Who left comes back as `active`; his keys stay disabled. */
export const MemberChange = Type.Object({ email: Type.Optional(Email), ...FIELDS, active: Type.Optional(Type.Literal(true)) })
export type MemberChange = Static<typeof MemberChange>

/** The owner of the data directory, who is a member from the start. */
export const firstMember = ({ user_id }: Owner, now: Date): Member => ({
  id: user_id,
  email: 'owner@localhost',
  first_name: null,
  last_name: null,
  role: 'org:admin',
  active: true,
  created_at: now.toISOString(),
  updated_at: null,
})

/** Adds a member to the organization. Throws 403 for who manages one workspace only, and 409 where an active member has the address. */
export async function addMember(gateway: IdentityWorld, actor: Actor, input: NewMember): Promise<Member> {
  mustManageAll(gateway, actor)
  const member: Member = {
    id: `user_${gateway.ids.uuid().replaceAll('-', '')}`,
    email: input.email,
    first_name: input.first_name ?? null,
    last_name: input.last_name ?? null,
    role: input.role ?? 'org:member',
    active: true,
    created_at: gateway.clock.now().toISOString(),
    updated_at: null,
  }
  await gateway.store.members.insert(member, memberEntry(gateway, actor, 'members.create', null, member))
  return member
}

/** One member, active or not. Throws 404. */
export async function memberOf({ store }: IdentityWorld, id: string): Promise<Member> {
  const [member] = await store.members.byIds([id])
  if (!member) throw notFound('Member not found')
  return member
}

/** Changes a member. Throws as `addMember` does, and 404. */
export async function updateMember(gateway: IdentityWorld, actor: Actor, id: string, change: MemberChange): Promise<Member> {
  mustManageAll(gateway, actor)
  const member = await memberOf(gateway, id)
  const changes = { ...givenOf(change), updated_at: gateway.clock.now().toISOString() }
  const changed = { ...member, ...changes }
  await gateway.store.members.update(id, changes, memberEntry(gateway, actor, 'members.update', member, changed))
  return changed
}

// Field by field: a body may hold more than it may change.
function givenOf({ email, first_name, last_name, role, active }: MemberChange): Partial<Member> {
  const given = { email, first_name, last_name, role, active }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/**
 * Takes somebody out of the organization: he is a member of nothing any more, and every key that he made is disabled in the same
 * transaction. They stay so when he comes back. Who has left already stays as he is. Throws 400 for the owner, 403, and 404.
 */
export async function deactivateMember(gateway: IdentityWorld, actor: Actor, id: string): Promise<Member> {
  mustManageAll(gateway, actor)
  const member = await memberOf(gateway, id)
  if (id === gateway.memory.owner.user_id) throw invalid('The owner of the data directory cannot be deactivated')
  if (!member.active) return member
  await gateway.catchUp()
  const keys = disablingOf(gateway, actor, key => key.creator_user_id === id)
  const changed = { ...member, active: false, updated_at: keys.updated_at }
  await gateway.store.members.deactivate(id, keys, memberEntry(gateway, actor, 'members.deactivate', member, changed))
  disableKeys(gateway, keys)
  return changed
}

/** Whether how somebody is in a workspace stays as it is when this is given. */
export const isKept = (before: WorkspaceMember, role: WorkspaceMember['role'], source: WorkspaceMember['source']) =>
  (before.source === 'manual' && source === 'scim') || (before.source === source && before.role === role)

/** Somebody new in a workspace, but for how he is in it. */
export const newWorkspaceMember = ({ clock, ids }: IdentityWorld, workspace_id: string, user_id: string) => ({
  id: ids.uuid(),
  workspace_id,
  user_id,
  created_at: clock.now().toISOString(),
})

/** A change of a workspace's members with the entry that tells of it. */
export function membership(
  gateway: IdentityWorld,
  actor: Actor,
  before: WorkspaceMember | null,
  after: WorkspaceMember | null,
): Membership {
  const verb = before === null ? 'add' : after === null ? 'remove' : 'update'
  return { before, after, entry: workspaceMemberEntry(gateway, actor, `workspace_members.${verb}`, before, after) }
}

/** The entry of a change of a workspace's members. */
export function workspaceMemberEntry(
  gateway: IdentityWorld,
  actor: Actor,
  action: string,
  before: WorkspaceMember | null,
  after: WorkspaceMember | null,
): AuditEntry {
  const { user_id: id = '', workspace_id = null } = after ?? before ?? {}
  return auditEntry(gateway, actor, action, { id, workspace_id }, before, after)
}

/** The entry of a change of a member. */
export const memberEntry = (gateway: IdentityWorld, actor: Actor, action: string, before: Member | null, after: Member): AuditEntry =>
  auditEntry(gateway, actor, action, { id: after.id, workspace_id: null }, before, after)
