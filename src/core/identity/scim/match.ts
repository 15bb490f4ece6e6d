import { isObject, type Json, objects } from '../../kernel/json.ts'
import {
  type Attribute,
  attributesOf,
  extensionOf,
  named,
  type ResourceType,
} from './attributes.ts'
import { type Comparison, type Filter, type Path, parsePath, type Value } from './filter.ts'
import { refused } from './refusal.ts'

/** A path resolved to the attribute of a resource type. */
export interface Place {
  /** The extension of the attribute; null for the resource itself. */
  extension: string | null
  /** Null when the path names the whole extension. */
  attribute: Attribute | null
  sub: Attribute | null
  /** Selects values of the attribute by the filter. Null selects all. */
  isMeant: ((value: Json) => boolean) | null
  filter: Filter | null
}

/**
 * Creates a function that matches shown resources with the filter. Throws 400 `invalidFilter` for
 * values that cannot be compared.
 */
export const matcher = (type: ResourceType, filter: Filter): ((resource: Json) => boolean) =>
  predicate(filter, path => {
    const place = locate(type, path)
    return place ? reading(place) : NOTHING
  })

/** Resolves a path in a resource type. Undefined for an unknown attribute. */
export function locate(type: ResourceType, { name, filter, sub }: Path): Place | undefined {
  const [extension, plain] = unqualified(type, name)
  if (plain === '') return { extension, attribute: null, sub: null, isMeant: null, filter: null }
  const attributes =
    extension === null ? attributesOf(type) : extensionOf(type, extension)?.attributes
  const [top = '', below, ...rest] = plain.split('.')
  const attribute = named(attributes, top)
  const wanted = below ?? sub
  const found = wanted === null ? null : named(attribute?.subAttributes, wanted)
  if (!attribute || found === undefined || rest.length > 0 || (filter && !attribute.multiValued))
    return undefined
  return {
    extension,
    attribute,
    sub: found,
    isMeant: filter && elementMatcher(attribute, filter),
    filter,
  }
}

/** Resolves a name that may be unknown. Undefined also when it is not a valid path. */
export function placeOf(type: ResourceType, name: string): Place | undefined {
  try {
    return locate(type, parsePath(name))
  } catch {
    return undefined
  }
}

/** Splits a name into its extension and the rest. Drops the prefix of the resource's own schema. */
function unqualified(type: ResourceType, name: string): [extension: string | null, plain: string] {
  const whole = extensionOf(type, name)
  if (whole) return [whole.id, '']
  const end = name.lastIndexOf(':')
  if (end === -1) return [null, name]
  const [schema, plain] = [name.slice(0, end), name.slice(end + 1)]
  if (schema.toLowerCase() === type.schema.id.toLowerCase()) return [null, plain]
  return [extensionOf(type, schema)?.id ?? schema, plain]
}

/** Reads the values at a resolved path. `attribute` describes those values. */
export interface Reading {
  attribute: Attribute | null
  values(resource: Json): unknown[]
}

const NOTHING: Reading = { attribute: null, values: () => [] }

/** Creates the reader of the values at a resolved path. */
export function reading({ extension, attribute, sub, isMeant }: Place): Reading {
  if (!attribute)
    return {
      attribute,
      values: resource =>
        extension !== null && resource[extension] !== undefined ? [resource[extension]] : [],
    }
  // The name of a list of complex values stands for their `value` (RFC 7644, 3.4.2.2:
  // `emails co "example.com"`).
  const inner = sub ?? (attribute.multiValued ? named(attribute.subAttributes, 'value') : undefined)
  const values = (resource: Json) => {
    const holder = extension === null ? resource : resource[extension]
    const found = listOf(isObject(holder) ? holder[attribute.name] : undefined)
    const meant = isMeant ? objects(found).filter(isMeant) : found
    return inner ? objects(meant).flatMap(one => listOf(one[inner.name])) : meant
  }
  return { attribute: inner ?? attribute, values }
}

const listOf = (value: unknown): unknown[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]

/** Creates the function for a filter within brackets, which matches one value of an attribute. */
const elementMatcher = (attribute: Attribute, filter: Filter): ((value: Json) => boolean) =>
  predicate(filter, ({ name }) => {
    const sub = named(attribute.subAttributes, name)
    return sub ? { attribute: sub, values: value => listOf(value[sub.name]) } : NOTHING
  })

function predicate(filter: Filter, read: (path: Path) => Reading): (resource: Json) => boolean {
  switch (filter.op) {
    case 'and': {
      const all = filter.filters.map(one => predicate(one, read))
      return resource => all.every(one => one(resource))
    }
    case 'or': {
      const all = filter.filters.map(one => predicate(one, read))
      return resource => all.some(one => one(resource))
    }
    case 'not': {
      const inner = predicate(filter.filter, read)
      return resource => !inner(resource)
    }
    case 'pr': {
      const { values } = read(filter.path)
      return resource => values(resource).some(isPresent)
    }
    default:
      return comparing(filter.op, read(filter.path), filter.value)
  }
}

const isPresent = (value: unknown): boolean =>
  value !== '' && !(isObject(value) && Object.keys(value).length === 0)

// A missing value differs from everything except null.
function comparing(
  op: Comparison,
  { attribute, values }: Reading,
  wanted: Value,
): (resource: Json) => boolean {
  if (wanted === null) return absence(op, values)
  const known = valueFor(attribute, wanted)
  if (typeof known === 'boolean' && op !== 'eq' && op !== 'ne')
    throw refused('invalidFilter', `“${op}” compares no booleans`)
  const compare = COMPARE[op]
  const isLike = (value: unknown) => {
    const found = comparable(attribute, value)
    return typeof found === typeof known && compare(found as never, known as never)
  }
  if (op !== 'ne') return resource => values(resource).some(isLike)
  return resource => {
    const found = values(resource)
    return found.length === 0 || found.some(value => !(comparable(attribute, value) === known))
  }
}

function absence(op: Comparison, values: Reading['values']): (resource: Json) => boolean {
  if (op === 'eq') return resource => !values(resource).some(isPresent)
  if (op === 'ne') return resource => values(resource).some(isPresent)
  throw refused('invalidFilter', `“${op}” compares nothing with null`)
}

const COMPARE: Record<Exclude<Comparison, 'ne'> | 'ne', (found: never, wanted: never) => boolean> =
  {
    eq: (found, wanted) => found === wanted,
    ne: (found, wanted) => found !== wanted,
    co: (found: string, wanted: string) => typeof found === 'string' && found.includes(wanted),
    sw: (found: string, wanted: string) => typeof found === 'string' && found.startsWith(wanted),
    ew: (found: string, wanted: string) => typeof found === 'string' && found.endsWith(wanted),
    gt: (found, wanted) => found > wanted,
    ge: (found, wanted) => found >= wanted,
    lt: (found, wanted) => found < wanted,
    le: (found, wanted) => found <= wanted,
  }

/** Converts a value for comparison: times to numbers, case-insensitive texts to lower case. */
export function comparable(attribute: Attribute | null, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (attribute?.type === 'dateTime') return Date.parse(value)
  return attribute?.caseExact ? value : value.toLowerCase()
}

// Some clients send "true" for true.
const valueFor = (attribute: Attribute | null, value: Value): unknown =>
  attribute?.type === 'boolean' && typeof value === 'string'
    ? booleanOf(value)
    : comparable(attribute, value)

/** Parses a boolean in any case. Returns other texts unchanged. */
export function booleanOf(text: string): boolean | string {
  const said = text.toLowerCase()
  return said === 'true' ? true : said === 'false' ? false : text
}
