import { isObject, type Json } from '../../base/json.ts'
import type { ResourceType } from './attributes.ts'
import {
  countComparisons,
  MOST_COMPARISONS,
  parseFilter,
  parsePath,
  type ScimFilter,
} from './filter.ts'
import { createMatcher, createReader, resolvePath, toComparable } from './match.ts'
import { refused } from './refusal.ts'
import type { Projection } from './resource.ts'

/** The query of a list of resources (RFC 7644, 3.4.2). */
export interface ResourceQuery extends Projection {
  filter: ScimFilter | null
  sortBy: string | null
  sortOrder: 'ascending' | 'descending'
  /** Counted from 1. */
  startIndex: number
  count: number
}

/** The number of resources on a page: the default, and the maximum. */
const USUAL_COUNT = 100
export const MAX_RESULTS = 200

/** A key by which the store can find resources. Names are in lower case. */
export type LookupKey = { by: 'id' | 'externalId' | 'name'; value: string }

const SEARCH_REQUEST = 'urn:ietf:params:scim:api:messages:2.0:SearchRequest'

/**
 * Parses the body of a search (RFC 7644, 3.4.3). Throws 400 `invalidSyntax`, and as `parseQuery`
 * does.
 */
export function parseSearch(body: unknown): ResourceQuery {
  if (!isObject(body) || !Array.isArray(body.schemas) || !body.schemas.includes(SEARCH_REQUEST))
    throw refused('invalidSyntax', `schemas: expected ${SEARCH_REQUEST} among them`)
  return parseQuery(body)
}

/**
 * Parses the query of a list. Numbers may be numbers or texts. Throws 400 `invalidFilter` and
 * `invalidValue`.
 */
export function parseQuery(parameters: Json): ResourceQuery {
  const { filter, sortBy, sortOrder } = parameters
  const filterText = readTextField('filter', filter)
  return {
    ...parseProjection(parameters),
    filter: filterText === null ? null : parseFilter(filterText),
    sortBy: readTextField('sortBy', sortBy),
    sortOrder: sortOrder === 'descending' ? 'descending' : 'ascending',
    startIndex: Math.max(1, readIntegerField(parameters, 'startIndex') ?? 1),
    count: Math.min(MAX_RESULTS, Math.max(0, readIntegerField(parameters, 'count') ?? USUAL_COUNT)),
  }
}

/** Parses which attributes a query selects. Throws 400 `invalidValue`. */
export const parseProjection = (parameters: Json): Projection => ({
  attributes: readNamesField(parameters, 'attributes'),
  excludedAttributes: readNamesField(parameters, 'excludedAttributes'),
})

function readTextField(name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw refused('invalidValue', `${name}: expected a text`)
  return value
}

function readIntegerField(parameters: Json, name: string): number | null {
  const value = parameters[name]
  if (value === undefined || value === null) return null
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number))
    throw refused('invalidValue', `${name}: expected a whole number`)
  return number
}

function readNamesField(parameters: Json, name: string): string[] | null {
  const value = parameters[name]
  if (value === undefined || value === null || value === '') return null
  const names = typeof value === 'string' ? value.split(',') : value
  if (
    !Array.isArray(names) ||
    names.length > MAX_NAMES ||
    !names.every(item => typeof item === 'string')
  )
    throw refused('invalidValue', `${name}: expected at most ${MAX_NAMES} names`)
  return names.map(item => item.trim())
}

const MAX_NAMES = 100

/**
 * Creates a function that matches shown resources with the query. Throws 400 `invalidFilter`; the
 * function throws 400 `tooMany` for a resource of too many values for so long a filter.
 */
export function createQueryMatcher(
  type: ResourceType,
  { filter }: ResourceQuery,
): (resource: Json) => boolean {
  if (filter === null) return () => true
  const matches = createMatcher(type, filter)
  const mostValues = MOST_COMPARISONS / countComparisons(filter)
  return resource => {
    if (Object.values(resource).some(value => Array.isArray(value) && value.length > mostValues))
      throw refused('tooMany', 'filter: expected fewer comparisons, as a resource has many values')
    return matches(resource)
  }
}

/** Finds a key that every matching resource has. Undefined when the filter requires none. */
export const findLookupKey = (
  type: ResourceType,
  { filter }: ResourceQuery,
): LookupKey | undefined => (filter === null ? undefined : findFilterKey(type, filter))

function findFilterKey(type: ResourceType, filter: ScimFilter): LookupKey | undefined {
  if (filter.op === 'and')
    return filter.filters.map(part => findFilterKey(type, part)).find(Boolean)
  if (filter.op !== 'eq' || typeof filter.value !== 'string') return undefined
  const resolved = resolvePath(type, filter.path)
  const by =
    resolved && !resolved.subAttribute && resolved.extension === null
      ? BY[type.name][resolved.attribute?.name ?? '']
      : undefined
  return by && { by, value: by === 'name' ? filter.value.toLowerCase() : filter.value }
}

const BY: Record<ResourceType['name'], Record<string, LookupKey['by']>> = {
  User: { id: 'id', externalId: 'externalId', userName: 'name' },
  Group: { id: 'id', externalId: 'externalId', displayName: 'name' },
}

/** A stored record that matches a query, with its shown resource. */
export interface SearchMatch<One> {
  record: One
  resource: Json
}

/**
 * Sorts matches as the query requests. Resources without the attribute come last. Throws 400
 * `invalidPath` for an invalid path.
 */
export function sortMatches<One>(
  type: ResourceType,
  matches: SearchMatch<One>[],
  { sortBy, sortOrder }: ResourceQuery,
): SearchMatch<One>[] {
  if (sortBy === null) return matches
  const resolved = resolvePath(type, parsePath(sortBy))
  if (!resolved) return matches
  const { attribute, readValues } = createReader(resolved)
  const keyed = matches.map(candidate => ({
    candidate,
    key: toComparable(attribute, readValues(candidate.resource)[0]),
  }))
  const ascending = keyed
    .toSorted((a, b) => compareKeys(a.key, b.key))
    .map(entry => entry.candidate)
  return sortOrder === 'descending' ? ascending.reverse() : ascending
}

/** Whether the query filters or sorts by an attribute. */
export const mentionsAttribute = ({ filter, sortBy }: ResourceQuery, attribute: string): boolean =>
  [...(filter === null ? [] : collectNames(filter)), sortBy ?? ''].some(name =>
    name.toLowerCase().includes(attribute),
  )

function collectNames(filter: ScimFilter): string[] {
  if ('filters' in filter) return filter.filters.flatMap(collectNames)
  return filter.op === 'not' ? collectNames(filter.filter) : [filter.path.name]
}

function compareKeys(a: unknown, b: unknown): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  return (a as never) < (b as never) ? -1 : (a as never) > (b as never) ? 1 : 0
}

/** Returns the page of a list that the query requests. */
export const slicePage = <One>(items: One[], { startIndex, count }: ResourceQuery): One[] =>
  items.slice(startIndex - 1, startIndex - 1 + count)
