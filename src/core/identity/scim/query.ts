import { isObject, type Json } from '../../kernel/json.ts'
import type { ResourceType } from './attributes.ts'
import { type Filter, parseFilter, parsePath } from './filter.ts'
import { comparable, locate, matcher, reading } from './match.ts'
import { refused } from './refusal.ts'
import type { Projection } from './resource.ts'

/** The query of a list of resources (RFC 7644, 3.4.2). */
export interface Query extends Projection {
  filter: Filter | null
  sortBy: string | null
  sortOrder: 'ascending' | 'descending'
  /** Counted from 1. */
  startIndex: number
  count: number
}

/** The number of resources on a page: the default, and the maximum. */
const USUAL_COUNT = 100
export const MOST_RESULTS = 200

/** A key by which the store can find resources. Names are in lower case. */
export type Known = { by: 'id' | 'externalId' | 'name'; value: string }

const SEARCH_REQUEST = 'urn:ietf:params:scim:api:messages:2.0:SearchRequest'

/**
 * Parses the body of a search (RFC 7644, 3.4.3). Throws 400 `invalidSyntax`, and as `parseQuery`
 * does.
 */
export function searchOf(body: unknown): Query {
  if (!isObject(body) || !Array.isArray(body.schemas) || !body.schemas.includes(SEARCH_REQUEST))
    throw refused('invalidSyntax', `schemas: expected ${SEARCH_REQUEST} among them`)
  return queryOf(body)
}

/**
 * Parses the query of a list. Numbers may be numbers or texts. Throws 400 `invalidFilter` and
 * `invalidValue`.
 */
export function queryOf(given: Json): Query {
  const { filter, sortBy, sortOrder } = given
  const asked = textAt('filter', filter)
  return {
    ...projectionOf(given),
    filter: asked === null ? null : parseFilter(asked),
    sortBy: textAt('sortBy', sortBy),
    sortOrder: sortOrder === 'descending' ? 'descending' : 'ascending',
    startIndex: Math.max(1, wholeAt(given, 'startIndex') ?? 1),
    count: Math.min(MOST_RESULTS, Math.max(0, wholeAt(given, 'count') ?? USUAL_COUNT)),
  }
}

/** Parses which attributes a query selects. Throws 400 `invalidValue`. */
export const projectionOf = (given: Json): Projection => ({
  attributes: namesAt(given, 'attributes'),
  excludedAttributes: namesAt(given, 'excludedAttributes'),
})

function textAt(name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw refused('invalidValue', `${name}: expected a text`)
  return value
}

function wholeAt(given: Json, name: string): number | null {
  const value = given[name]
  if (value === undefined || value === null) return null
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number))
    throw refused('invalidValue', `${name}: expected a whole number`)
  return number
}

function namesAt(given: Json, name: string): string[] | null {
  const value = given[name]
  if (value === undefined || value === null || value === '') return null
  const names = typeof value === 'string' ? value.split(',') : value
  if (
    !Array.isArray(names) ||
    names.length > MOST_NAMES ||
    !names.every(one => typeof one === 'string')
  )
    throw refused('invalidValue', `${name}: expected at most ${MOST_NAMES} names`)
  return names.map(one => one.trim())
}

const MOST_NAMES = 100

/** Creates a function that matches shown resources with the query. Throws 400 `invalidFilter`. */
export const wanted = (type: ResourceType, { filter }: Query): ((resource: Json) => boolean) =>
  filter === null ? () => true : matcher(type, filter)

/** Finds a key that every matching resource has. Undefined when the filter requires none. */
export const knownBy = (type: ResourceType, { filter }: Query): Known | undefined =>
  filter === null ? undefined : knownIn(type, filter)

function knownIn(type: ResourceType, filter: Filter): Known | undefined {
  if (filter.op === 'and') return filter.filters.map(one => knownIn(type, one)).find(Boolean)
  if (filter.op !== 'eq' || typeof filter.value !== 'string') return undefined
  const place = locate(type, filter.path)
  const by =
    place && !place.sub && place.extension === null
      ? BY[type.name][place.attribute?.name ?? '']
      : undefined
  return by && { by, value: by === 'name' ? filter.value.toLowerCase() : filter.value }
}

const BY: Record<ResourceType['name'], Record<string, Known['by']>> = {
  User: { id: 'id', externalId: 'externalId', userName: 'name' },
  Group: { id: 'id', externalId: 'externalId', displayName: 'name' },
}

/** A stored record that matches a query, with its shown resource. */
export interface Candidate<One> {
  one: One
  shown: Json
}

/**
 * Sorts matches as the query requests. Resources without the attribute come last. Throws 400
 * `invalidPath` for an invalid path.
 */
export function sorted<One>(
  type: ResourceType,
  candidates: Candidate<One>[],
  { sortBy, sortOrder }: Query,
): Candidate<One>[] {
  if (sortBy === null) return candidates
  const place = locate(type, parsePath(sortBy))
  if (!place) return candidates
  const { attribute, values } = reading(place)
  const keyed = candidates.map(candidate => ({
    candidate,
    key: comparable(attribute, values(candidate.shown)[0]),
  }))
  const ascending = keyed.toSorted((a, b) => compared(a.key, b.key)).map(one => one.candidate)
  return sortOrder === 'descending' ? ascending.reverse() : ascending
}

/** Whether the query filters or sorts by an attribute. */
export const mentions = ({ filter, sortBy }: Query, attribute: string): boolean =>
  [...(filter === null ? [] : namesIn(filter)), sortBy ?? ''].some(name =>
    name.toLowerCase().includes(attribute),
  )

function namesIn(filter: Filter): string[] {
  if ('filters' in filter) return filter.filters.flatMap(namesIn)
  return filter.op === 'not' ? namesIn(filter.filter) : [filter.path.name]
}

function compared(one: unknown, other: unknown): number {
  if (one === undefined || other === undefined)
    return Number(one === undefined) - Number(other === undefined)
  return (one as never) < (other as never) ? -1 : (one as never) > (other as never) ? 1 : 0
}

/** Returns the page of a list that the query requests. */
export const paged = <One>(list: One[], { startIndex, count }: Query): One[] =>
  list.slice(startIndex - 1, startIndex - 1 + count)
