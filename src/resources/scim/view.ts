import { isLongTurn, yieldToEventLoop } from '../../base/clock.ts'
import { renderTag } from '../../base/entity-tag.ts'
import { notFound } from '../../base/errors.ts'
import { type Json, omitUndefined, readObjects, readString } from '../../base/json.ts'
import type { GroupMember, ScimGroup, ScimUser, UserGroup } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import type { Attribute, ResourceType, Schema } from './attributes.ts'
import { toGroupResource } from './groups.ts'
import {
  createQueryMatcher,
  findLookupKey,
  type LookupKey,
  MAX_RESULTS,
  mentionsAttribute,
  type ResourceQuery,
  type SearchMatch,
  slicePage,
  sortMatches,
} from './query.ts'
import { applyProjection } from './resource.ts'
import { GROUP, RESOURCE_TYPES, SCHEMAS, USER } from './schemas.data.ts'

/** Shows users with their groups. `base` is the URL of SCIM, without a trailing slash. */
export async function showUsers(
  { store }: IdentityWorld,
  base: string,
  users: ScimUser[],
): Promise<Json[]> {
  const rows =
    users.length === 0 ? [] : await store.scim.users.listGroups(users.map(({ id }) => id))
  const groups = Map.groupBy(rows, row => row.scim_user_id)
  return users.map(user => ({
    ...showBareUser(base, user),
    ...toListField(
      'groups',
      (groups.get(user.id) ?? []).map(group => showGroupReference(base, group)),
    ),
  }))
}

/** Shows groups with their members. */
export async function showGroups(
  { store }: IdentityWorld,
  base: string,
  groups: ScimGroup[],
): Promise<Json[]> {
  const rows =
    groups.length === 0 ? [] : await store.scim.groups.listMembers(groups.map(({ id }) => id))
  const members = Map.groupBy(rows, row => row.group_id)
  return groups.map(group => ({
    ...showBareGroup(base, group),
    ...toListField(
      'members',
      (members.get(group.id) ?? []).map(member => showMemberReference(base, member)),
    ),
  }))
}

/** Returns a page of the users that match. Throws 400. */
export async function searchScimUsers(
  world: IdentityWorld,
  base: string,
  query: ResourceQuery,
): Promise<Json> {
  return searchResources(world, query, world.store.scim.users, {
    type: USER,
    costlyAttribute: 'groups',
    showBare: user => showBareUser(base, user),
    showFull: records => showUsers(world, base, records),
  })
}

/** Returns a page of the groups that match. Throws 400. */
export async function searchScimGroups(
  world: IdentityWorld,
  base: string,
  query: ResourceQuery,
): Promise<Json> {
  return searchResources(world, query, world.store.scim.groups, {
    type: GROUP,
    costlyAttribute: 'members',
    showBare: group => showBareGroup(base, group),
    showFull: records => showGroups(world, base, records),
  })
}

/** Returns a page of all matching resources, users before groups: `POST /.search`. Throws 400. */
export async function searchScim(
  world: IdentityWorld,
  base: string,
  query: ResourceQuery,
): Promise<Json> {
  const users = await searchScimUsers(world, base, query)
  const [found, shown] = [Number(users.totalResults), readObjects(users.Resources)]
  const groupQuery = {
    ...query,
    startIndex: Math.max(1, query.startIndex - found),
    count: query.count - shown.length,
  }
  const groups = await searchScimGroups(world, base, groupQuery)
  return buildListResponse(
    [...shown, ...readObjects(groups.Resources)],
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

/** Where the records of one type are. */
interface Source<One> {
  find(known?: LookupKey): Promise<One[]>
  listPage(offset: number, limit: number): Promise<One[]>
  count(): Promise<number>
}

/** Of a page of all the page alone is read: who reads all pages reads each record once. */
async function searchResources<One>(
  world: IdentityWorld,
  query: ResourceQuery,
  source: Source<One>,
  shown: Presentation<One>,
): Promise<Json> {
  const { filter, sortBy, startIndex, count } = query
  if (filter !== null || sortBy !== null)
    return listResources(world, query, await source.find(findLookupKey(shown.type, query)), shown)
  const page = await source.listPage(startIndex - 1, count)
  return showPage(query, page, await source.count(), shown)
}

/**
 * Computes memberships only for the returned page, unless the query filters or sorts by them, and
 * not at all if it excludes them. A provider that looks up a group by name excludes its thousands
 * of members.
 */
async function listResources<One>(
  { clock }: IdentityWorld,
  query: ResourceQuery,
  records: One[],
  shown: Presentation<One>,
): Promise<Json> {
  const { type, costlyAttribute, showBare, showFull } = shown
  const resources = mentionsAttribute(query, costlyAttribute)
    ? await showFull(records)
    : records.map(showBare)
  const matchesQuery = createQueryMatcher(type, query)
  const matches: SearchMatch<One>[] = []
  let startedAt = clock.ticks()
  for (const [i, record] of records.entries()) {
    if (isLongTurn(clock, startedAt)) {
      await yieldToEventLoop()
      startedAt = clock.ticks()
    }
    const resource = resources[i] ?? {}
    if (matchesQuery(resource)) matches.push({ record, resource })
  }
  const page = slicePage(sortMatches(type, matches, query), query).map(({ record }) => record)
  return showPage(query, page, matches.length, shown)
}

async function showPage<One>(
  query: ResourceQuery,
  page: One[],
  total: number,
  { type, costlyAttribute, showBare, showFull }: Presentation<One>,
): Promise<Json> {
  const isExcluded =
    query.excludedAttributes?.some(name => name.toLowerCase() === costlyAttribute) ?? false
  const shownPage = isExcluded ? page.map(showBare) : await showFull(page)
  return buildListResponse(
    shownPage.map(resource => applyProjection(type, resource, query)),
    total,
    query.startIndex,
  )
}

/** Builds the response of a list of resources (RFC 7644, 3.4.2). */
export const buildListResponse = (
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

const showBareUser = (base: string, user: ScimUser): Json => ({
  ...showCommon(USER, base, user, user.resource),
  ...user.resource,
})

const showBareGroup = (base: string, group: ScimGroup): Json => ({
  ...showCommon(GROUP, base, group, {}),
  ...toGroupResource(group, []),
})

type VersionedRecord = Pick<ScimUser, 'id' | 'version' | 'created_at' | 'updated_at'>

const showCommon = (
  type: ResourceType,
  base: string,
  { id, version, created_at, updated_at }: VersionedRecord,
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
    version: renderTag({ version }),
  },
})

const toListField = (name: string, values: Json[]): Json =>
  values.length === 0 ? {} : { [name]: values }

const showGroupReference = (base: string, { group_id, display_name }: UserGroup): Json => ({
  value: group_id,
  $ref: `${base}/Groups/${group_id}`,
  display: display_name,
  type: 'direct',
})

const showMemberReference = (base: string, { scim_user_id, resource }: GroupMember): Json => ({
  value: scim_user_id,
  $ref: `${base}/Users/${scim_user_id}`,
  display: readString(resource.displayName) ?? readString(resource.userName),
  type: 'User',
})

/** Describes the supported features of SCIM (RFC 7643, 5). `base` is the URL of SCIM. */
export const describeServiceProvider = (base: string): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: MAX_RESULTS },
  changePassword: { supported: false },
  sort: { supported: true },
  etag: { supported: true },
  authenticationSchemes: [
    {
      type: 'oauthbearertoken',
      name: 'Bearer token',
      description: 'A token of “gateway scim token create”',
      primary: true,
    },
  ],
  meta: { resourceType: 'ServiceProviderConfig', location: `${base}/ServiceProviderConfig` },
})

/** Lists all resource types (RFC 7643, 6). */
export const listResourceTypes = (base: string): Json[] =>
  RESOURCE_TYPES.map(type => showResourceType(base, type))

/** Gets a resource type by name. Throws 404. */
export function getResourceType(base: string, name: string): Json {
  const type = RESOURCE_TYPES.find(candidate => candidate.name === name)
  if (!type) throw notFound()
  return showResourceType(base, type)
}

const showResourceType = (
  base: string,
  { name, endpoint, description, schema, extensions }: ResourceType,
): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: name,
  name,
  endpoint,
  description,
  schema: schema.id,
  schemaExtensions: extensions.map(({ id }) => ({ schema: id, required: false })),
  meta: { resourceType: 'ResourceType', location: `${base}/ResourceTypes/${name}` },
})

/** Lists all schemas (RFC 7643, 7). */
export const listSchemas = (base: string): Json[] => SCHEMAS.map(schema => showSchema(base, schema))

/** Gets a schema by id. Throws 404. */
export function getSchema(base: string, id: string): Json {
  const schema = SCHEMAS.find(candidate => candidate.id === id)
  if (!schema) throw notFound()
  return showSchema(base, schema)
}

const showSchema = (base: string, { id, name, description, attributes }: Schema): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
  id,
  name,
  description,
  attributes: attributes.map(showAttribute),
  meta: { resourceType: 'Schema', location: `${base}/Schemas/${id}` },
})

const showAttribute = ({ subAttributes, ...attribute }: Attribute): Json =>
  omitUndefined({ ...attribute, subAttributes: subAttributes?.map(showAttribute) })
