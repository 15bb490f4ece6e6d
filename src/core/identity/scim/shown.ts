import { type Json, objects, text } from '../../kernel/json.ts'
import type { IdentityWorld } from '../world.ts'
import type { ResourceType } from './attributes.ts'
import { groupResource, type MemberOfGroup, type ScimGroup } from './groups.ts'
import { type Candidate, knownBy, mentions, paged, type Query, sorted, wanted } from './query.ts'
import { projected } from './resource.ts'
import { GROUP, USER } from './schemas.data.ts'
import type { GroupOfUser, ScimUser } from './users/store.ts'
import { tagOf } from './version.ts'

/** Shows users with their groups. `base` is the URL of SCIM, without a trailing slash. */
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

/** Shows groups with their members. */
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

/** Returns a page of the users that match. Throws 400. */
export async function searchScimUsers(
  gateway: IdentityWorld,
  base: string,
  query: Query,
): Promise<Json> {
  const users = await gateway.store.scim.users.find(knownBy(USER, query))
  return listResources(query, users, {
    type: USER,
    costlyAttribute: 'groups',
    showBare: user => bareUser(base, user),
    showFull: some => shownUsers(gateway, base, some),
  })
}

/** Returns a page of the groups that match. Throws 400. */
export async function searchScimGroups(
  gateway: IdentityWorld,
  base: string,
  query: Query,
): Promise<Json> {
  const groups = await gateway.store.scim.groups.find(knownBy(GROUP, query))
  return listResources(query, groups, {
    type: GROUP,
    costlyAttribute: 'members',
    showBare: group => bareGroup(base, group),
    showFull: some => shownGroups(gateway, base, some),
  })
}

/** Returns a page of all matching resources, users before groups: `POST /.search`. Throws 400. */
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

/** How the records of one type are shown. */
interface Presentation<One> {
  type: ResourceType
  /** The attribute with the memberships, which only `showFull` adds. */
  costlyAttribute: string
  showBare(record: One): Json
  showFull(records: One[]): Promise<Json[]>
}

/**
 * Computes memberships only for the returned page, unless the query filters or sorts by them, and
 * not at all if it excludes them. A provider that looks up a group by name excludes its thousands
 * of members.
 */
async function listResources<One>(
  query: Query,
  records: One[],
  { type, costlyAttribute, showBare, showFull }: Presentation<One>,
): Promise<Json> {
  const resources = mentions(query, costlyAttribute)
    ? await showFull(records)
    : records.map(showBare)
  const matchesQuery = wanted(type, query)
  const matches = records.flatMap((one, i): Candidate<One>[] => {
    const shown = resources[i] ?? {}
    return matchesQuery(shown) ? [{ one, shown }] : []
  })
  const page = paged(sorted(type, matches, query), query).map(({ one }) => one)
  const isExcluded =
    query.excludedAttributes?.some(name => name.toLowerCase() === costlyAttribute) ?? false
  const shownPage = isExcluded ? page.map(showBare) : await showFull(page)
  return listResponse(
    shownPage.map(resource => projected(type, resource, query)),
    matches.length,
    query.startIndex,
  )
}

/** Builds the response of a list of resources (RFC 7644, 3.4.2). */
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
