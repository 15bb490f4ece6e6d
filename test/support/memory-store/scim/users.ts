import { conflict, notFound } from '../../../../src/base/errors.ts'
import { readString } from '../../../../src/base/json.ts'
import type { Member } from '../../../../src/resources/members/store.ts'
import type { LookupKey } from '../../../../src/resources/scim/query.ts'
import { taken } from '../../../../src/resources/scim/refusal.ts'
import type {
  AddressHolder,
  DecideMembership,
  MemberTransition,
  ScimUser,
  ScimUserStore,
  UserChange,
} from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import { deactivateMember, findMembersWithAddress } from '../members.ts'
import type { Connection, Memory } from '../memory.ts'
import { changedConcurrently, compareByFields, toAsciiLowerCase } from '../table.ts'
import { applyMoves } from './memberships.ts'

/** Users in memory. */
export const createMemoryScimUserStore = (connection: Connection): ScimUserStore => ({
  byId: id => connection.read(({ scimUsers }) => scimUsers.get(id)),
  byMember: id =>
    connection.read(({ scimUsers }) => scimUsers.all(({ user_id }) => user_id === id)[0]),
  find: known =>
    connection.read(({ scimUsers }) =>
      scimUsers.all(user => matchesKnown(user, known)).sort(compareByFields('created_at', 'id')),
    ),
  listGroups: ids =>
    connection.read(({ scimGroupMembers, scimGroups }) =>
      scimGroupMembers
        .all(({ scim_user_id }) => ids.includes(scim_user_id))
        .flatMap(({ scim_user_id, group_id }) => {
          const display_name = scimGroups.get(group_id)?.display_name ?? ''
          return [{ scim_user_id, group_id, display_name, key: display_name.toLowerCase() }]
        })
        .sort(compareByFields('key'))
        .map(({ key: _, ...group }) => group),
    ),
  insert: (address, decide) =>
    connection.write(memory => {
      const change = decide(findNamesakes(memory, address))
      changeMember(memory, change.member)
      addUser(memory, change.user)
      return change
    }),
  change: (id, decide, move) =>
    connection.write(memory => {
      const user = memory.scimUsers.get(id)
      if (!user) throw notFound('User not found')
      const member = memory.members.get(user.user_id)
      if (!member) throw conflict()
      const change = decide(user, member)
      if (change.member.entries.length > 0) applyChange(memory, user, change, move)
      return change
    }),
})

const readNameKey = ({ resource }: ScimUser): string =>
  (readString(resource.userName) ?? '').toLowerCase()

function matchesKnown(user: ScimUser, known: LookupKey | undefined): boolean {
  if (!known) return true
  const names = {
    id: user.id,
    externalId: readString(user.resource.externalId),
    name: readNameKey(user),
  }
  return names[known.by] === known.value
}

/** Finds the members with the address: active ones first, then the last to leave. */
function findNamesakes({ members, scimUsers }: Memory, address: string): AddressHolder[] {
  const found = members.all(({ email }) => toAsciiLowerCase(email) === toAsciiLowerCase(address))
  const rank = ({ active, updated_at }: Member) => `${Number(active)} ${updated_at ?? ''}`
  return found
    .sort((a, b) => (rank(a) > rank(b) ? -1 : 1))
    .map(member => ({
      member,
      isProvisioned: scimUsers.all(({ user_id }) => user_id === member.id).length > 0,
    }))
}

function applyChange(
  memory: Memory,
  before: ScimUser,
  change: UserChange,
  move: DecideMembership,
): void {
  changeMember(memory, change.member)
  if (change.user) {
    mustHaveFreeName(memory, change.user)
    memory.scimUsers.update(change.user.id, change.user)
    return
  }
  removeUser(memory, before, change.member.entries[0]?.created_at)
  applyMoves(memory, { user_ids: [before.user_id] }, move)
}

function changeMember(memory: Memory, { before, after, keys, entries }: MemberTransition): void {
  if (after.active && findMembersWithAddress(memory, after).length > 0)
    throw taken('emails: expected an address that no other member has')
  if (keys) deactivateMember(memory, after.id, keys)
  if (before) memory.members.update(after.id, after)
  else memory.members.insert(after.id, after)
  for (const entry of entries) addAudit(memory, entry)
}

function addUser(memory: Memory, user: ScimUser): void {
  mustHaveFreeName(memory, user)
  const isSame = ({ user_id }: ScimUser) => user_id === user.user_id
  if (!memory.members.has(user.user_id) || memory.scimUsers.all(isSame).length > 0)
    throw changedConcurrently()
  memory.scimUsers.insert(user.id, user)
}

function mustHaveFreeName({ scimUsers }: Memory, user: ScimUser): void {
  const name = readNameKey(user)
  if (scimUsers.all(other => other.id !== user.id && readNameKey(other) === name).length > 0)
    throw taken('userName: expected one that no other user has')
}

/** Removes a user. The groups that they were in count as changed. */
function removeUser(memory: Memory, { id }: ScimUser, at: string | undefined): void {
  const { scimUsers, scimGroups, scimGroupMembers } = memory
  for (const { group_id } of scimGroupMembers.all(({ scim_user_id }) => scim_user_id === id)) {
    const group = scimGroups.get(group_id)
    const version = (group?.version ?? 0) + 1
    scimGroups.update(group_id, { version, ...(at === undefined ? {} : { updated_at: at }) })
    scimGroupMembers.remove(JSON.stringify([group_id, id]))
  }
  scimUsers.remove(id)
}
