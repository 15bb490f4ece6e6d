import { type Json, objects, text } from '../../kernel/json.ts'
import type { IdentityWorld } from '../world.ts'
import type { ResourceType } from './attributes.ts'
import { groupResource, type MemberOfGroup, type ScimGroup } from './groups.ts'
import { knownBy, mentions, paged, type Query, sorted, wanted } from './query.ts'
import { projected } from './resource.ts'
import { GROUP, USER } from './schemas.data.ts'
import type { GroupOfUser, ScimUser } from './users/store.ts'
import { tagOf } from './version.ts'

/** Users as they are shown, with their groups. `base` is where SCIM is, without a slash at its end. */
export async function shownUsers(
  { store }: IdentityWorld,
  base: string,
  users: ScimUser[],
): Promise<Json[]> {
  const rows = users.length === 0 ? [] : await store.scim.users.groupsOf(users.map(({ id }) => id))
  const groups = Map.groupBy(rows, row => row.scim_user_id)
  return users.map(user => ({
    ...bareUser(base, user),
    ...withList(
      'groups',
      (groups.get(user.id) ?? []).map(one => groupOf(base, one)),
    ),
  }))
}

/** Groups as they are shown, with their members. */
export async function shownGroups(
  { store }: IdentityWorld,
  base: string,
  groups: ScimGroup[],
): Promise<Json[]> {
  const rows =
    groups.length === 0 ? [] : await store.scim.groups.membersOf(groups.map(({ id }) => id))
  const members = Map.groupBy(rows, row => row.group_id)
  return groups.map(group => ({
    ...bareGroup(base, group),
    ...withList(
      'members',
      (members.get(group.id) ?? []).map(one => memberOf(base, one)),
    ),
  }))
}

/** A page of the users that are asked for. Throws 400. */
export async function searchScimUsers(
  gateway: IdentityWorld,
  base: string,
  query: Query,
): Promise<Json> {
  const users = await gateway.store.scim.users.find(knownBy(USER, query))
  const bare = (user: ScimUser) => bareUser(base, user)
  return listOf(USER, query, users, 'groups', bare, some => shownUsers(gateway, base, some))
}

/** A page of the groups that are asked for. Throws 400. */
export async function searchScimGroups(
  gateway: IdentityWorld,
  base: string,
  query: Query,
): Promise<Json> {
  const groups = await gateway.store.scim.groups.find(knownBy(GROUP, query))
  const bare = (group: ScimGroup) => bareGroup(base, group)
  return listOf(GROUP, query, groups, 'members', bare, some => shownGroups(gateway, base, some))
}

/** A page of everything that is asked for, users before groups: `POST /.search`. Throws 400. */
export async function searchScim(
  gateway: IdentityWorld,
  base: string,
  query: Query,
): Promise<Json> {
  const users = await searchScimUsers(gateway, base, query)
  const [found, shown] = [Number(users.totalResults), objects(users.Resources)]
  const rest = {
    ...query,
    startIndex: Math.max(1, query.startIndex - found),
    count: query.count - shown.length,
  }
  const groups = await searchScimGroups(gateway, base, rest)
  return listResponse(
    [...shown, ...objects(groups.Resources)],
    found + Number(groups.totalResults),
    query.startIndex,
  )
}

/**
 * What is costly to show, who is in what, is looked at for the page alone, or for all where it is asked for by that, and not where nobody
 * wants to see it: a provider that looks for a group by its name leaves its thousands of members out.
 */
async function listOf<One>(
  type: ResourceType,
  query: Query,
  all: One[],
  costly: string,
  bare: (one: One) => Json,
  whole: (some: One[]) => Promise<Json[]>,
): Promise<Json> {
  const seen = mentions(query, costly) ? await whole(all) : all.map(bare)
  const isWanted = wanted(type, query)
  const candidates = all.flatMap((one, i) =>
    isWanted(seen[i] ?? {}) ? [{ one, shown: seen[i] ?? {} }] : [],
  )
  const page = paged(sorted(type, candidates, query), query)
  const isHidden = query.excludedAttributes?.some(name => name.toLowerCase() === costly) ?? false
  const shown = isHidden
    ? page.map(({ one }) => bare(one))
    : await whole(page.map(({ one }) => one))
  return listResponse(
    shown.map(one => projected(type, one, query)),
    candidates.length,
    query.startIndex,
  )
}

/** Resources as a list shows them (RFC 7644, 3.4.2). */
export const listResponse = (
  Resources: unknown[],
  totalResults = Resources.length,
  startIndex = 1,
): Json => ({
  schemas: ['urn:ietf:params:scim:api:messages:2.0:ListResponse'],
  totalResults,
  startIndex,
  itemsPerPage: Resources.length,
  Resources,
})

const bareUser = (base: string, user: ScimUser): Json => ({
  ...common(USER, base, user, user.resource),
  ...user.resource,
})

const bareGroup = (base: string, group: ScimGroup): Json => ({
  ...common(GROUP, base, group, {}),
  ...groupResource(group, []),
})

type Versioned = Pick<ScimUser, 'id' | 'version' | 'created_at' | 'updated_at'>

const common = (
  type: ResourceType,
  base: string,
  { id, version, created_at, updated_at }: Versioned,
  resource: Json,
): Json => ({
  schemas: [
    type.schema.id,
    ...type.extensions.map(one => one.id).filter(one => resource[one] !== undefined),
  ],
  id,
  meta: {
    resourceType: type.name,
    created: created_at,
    lastModified: updated_at,
    location: `${base}${type.endpoint}/${id}`,
    version: tagOf({ version }),
  },
})

const withList = (name: string, values: Json[]): Json =>
  values.length === 0 ? {} : { [name]: values }

const groupOf = (base: string, { group_id, display_name }: GroupOfUser): Json => ({
  value: group_id,
  $ref: `${base}/Groups/${group_id}`,
  display: display_name,
  type: 'direct',
})

const memberOf = (base: string, { scim_user_id, resource }: MemberOfGroup): Json => ({
  value: scim_user_id,
  $ref: `${base}/Users/${scim_user_id}`,
  display: text(resource.displayName) ?? text(resource.userName),
  type: 'User',
})
