import { isObject, type Json } from '../../kernel/json.ts'
import type { ResourceType } from './attributes.ts'
import { type Filter, parseFilter, parsePath } from './filter.ts'
import { comparable, locate, matcher, reading } from './match.ts'
import { refused } from './refusal.ts'
import type { Projection } from './resource.ts'

/** What a client asks of a list (RFC 7644, 3.4.2). */
export interface Query extends Projection {
  filter: Filter | null
  sortBy: string | null
  sortOrder: 'ascending' | 'descending'
  /** From 1. */
  startIndex: number
  count: number
}

/** A page has this many where nobody says, and at most. */
const USUAL_COUNT = 100
export const MOST_RESULTS = 200

/** What a resource is known by, where the store can find it by that alone. Names are without their case. */
export type Known = { by: 'id' | 'externalId' | 'name'; value: string }

const SEARCH_REQUEST = 'urn:ietf:params:scim:api:messages:2.0:SearchRequest'

/** What a body asks of a list (RFC 7644, 3.4.3). Throws 400 `invalidSyntax`, and as `queryOf` does. */
export function searchOf(body: unknown): Query {
  if (!isObject(body) || !Array.isArray(body.schemas) || !body.schemas.includes(SEARCH_REQUEST))
    throw refused('invalidSyntax', `schemas: expected ${SEARCH_REQUEST} among them`)
  return queryOf(body)
}

/** What a query asks of a list, its numbers as numbers or as texts. Throws 400 `invalidFilter` and `invalidValue`. */
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

/** Which attributes a query asks for. Throws 400 `invalidValue`. */
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

/** Whether a resource, as it is shown, is asked for. Throws 400 `invalidFilter`. */
export const wanted = (type: ResourceType, { filter }: Query): ((resource: Json) => boolean) =>
  filter === null ? () => true : matcher(type, filter)

/** What every resource that is asked for is known by; undefined where the filter says nothing of that. */
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

/** Something with how it is shown. */
export interface Candidate<One> {
  one: One
  shown: Json
}

/** Puts what is there in the order that is asked for: what has no such value comes last. Throws 400 `invalidPath` for what is no path. */
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

/** Whether an attribute is looked at to find or to sort. */
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

/** The page of a list. */
export const paged = <One>(list: One[], { startIndex, count }: Query): One[] =>
  list.slice(startIndex - 1, startIndex - 1 + count)
