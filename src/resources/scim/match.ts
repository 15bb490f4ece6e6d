import { isObject, type Json, readObjects } from '../../base/json.ts'
import {
  type Attribute,
  findAttribute,
  findExtension,
  listAttributes,
  type ResourceType,
} from './attributes.ts'
import {
  type AttributePath,
  type Comparison,
  type FilterValue,
  parsePath,
  type ScimFilter,
} from './filter.ts'
import { refused } from './refusal.ts'

/** A path resolved to the attribute of a resource type. */
export interface ResolvedPath {
  /** The extension of the attribute; null for the resource itself. */
  extension: string | null
  /** Null when the path names the whole extension. */
  attribute: Attribute | null
  subAttribute: Attribute | null
  /** Selects values of the attribute by the filter. Null selects all. */
  matchesValue: ((value: Json) => boolean) | null
  filter: ScimFilter | null
}

/**
 * Creates a function that matches shown resources with the filter. Throws 400 `invalidFilter` for
 * values that cannot be compared.
 */
export const createMatcher = (
  type: ResourceType,
  filter: ScimFilter,
): ((resource: Json) => boolean) =>
  createPredicate(filter, path => {
    const resolved = resolvePath(type, path)
    return resolved ? createReader(resolved) : NOTHING
  })

/** Resolves a path in a resource type. Undefined for an unknown attribute. */
export function resolvePath(
  type: ResourceType,
  { name, filter, subAttribute }: AttributePath,
): ResolvedPath | undefined {
  const [extension, plain] = splitSchema(type, name)
  if (plain === '')
    return { extension, attribute: null, subAttribute: null, matchesValue: null, filter: null }
  const attributes =
    extension === null ? listAttributes(type) : findExtension(type, extension)?.attributes
  const [top = '', below, ...rest] = plain.split('.')
  const attribute = findAttribute(attributes, top)
  const subName = below ?? subAttribute
  const found = subName === null ? null : findAttribute(attribute?.subAttributes, subName)
  if (!attribute || found === undefined || rest.length > 0 || (filter && !attribute.multiValued))
    return undefined
  return {
    extension,
    attribute,
    subAttribute: found,
    matchesValue: filter && createElementMatcher(attribute, filter),
    filter,
  }
}

/** Resolves a name that may be unknown. Undefined also when it is not a valid path. */
export function tryResolvePath(type: ResourceType, name: string): ResolvedPath | undefined {
  try {
    return resolvePath(type, parsePath(name))
  } catch {
    return undefined
  }
}

/** Splits a name into its extension and the rest. Drops the prefix of the resource's own schema. */
function splitSchema(type: ResourceType, name: string): [extension: string | null, plain: string] {
  const whole = findExtension(type, name)
  if (whole) return [whole.id, '']
  const end = name.lastIndexOf(':')
  if (end === -1) return [null, name]
  const [schema, plain] = [name.slice(0, end), name.slice(end + 1)]
  if (schema.toLowerCase() === type.schema.id.toLowerCase()) return [null, plain]
  return [findExtension(type, schema)?.id ?? schema, plain]
}

/** Reads the values at a resolved path. `attribute` describes those values. */
interface AttributeReader {
  attribute: Attribute | null
  readValues(resource: Json): unknown[]
}

const NOTHING: AttributeReader = { attribute: null, readValues: () => [] }

/** Creates the reader of the values at a resolved path. */
export function createReader({
  extension,
  attribute,
  subAttribute,
  matchesValue,
}: ResolvedPath): AttributeReader {
  if (!attribute)
    return {
      attribute,
      readValues: resource =>
        extension !== null && resource[extension] !== undefined ? [resource[extension]] : [],
    }
  // The name of a list of complex values stands for their `value` (RFC 7644, 3.4.2.2:
  // `emails co "example.com"`).
  const inner =
    subAttribute ??
    (attribute.multiValued ? findAttribute(attribute.subAttributes, 'value') : undefined)
  const readValues = (resource: Json) => {
    const holder = extension === null ? resource : resource[extension]
    const found = toList(isObject(holder) ? holder[attribute.name] : undefined)
    const selected = matchesValue ? readObjects(found).filter(matchesValue) : found
    return inner ? readObjects(selected).flatMap(element => toList(element[inner.name])) : selected
  }
  return { attribute: inner ?? attribute, readValues }
}

const toList = (value: unknown): unknown[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]

/** Creates the function for a filter within brackets, which matches one value of an attribute. */
const createElementMatcher = (
  attribute: Attribute,
  filter: ScimFilter,
): ((value: Json) => boolean) =>
  createPredicate(filter, ({ name }) => {
    const sub = findAttribute(attribute.subAttributes, name)
    return sub ? { attribute: sub, readValues: value => toList(value[sub.name]) } : NOTHING
  })

function createPredicate(
  filter: ScimFilter,
  read: (path: AttributePath) => AttributeReader,
): (resource: Json) => boolean {
  switch (filter.op) {
    case 'and': {
      const all = filter.filters.map(part => createPredicate(part, read))
      return resource => all.every(part => part(resource))
    }
    case 'or': {
      const all = filter.filters.map(part => createPredicate(part, read))
      return resource => all.some(part => part(resource))
    }
    case 'not': {
      const inner = createPredicate(filter.filter, read)
      return resource => !inner(resource)
    }
    case 'pr': {
      const { readValues } = read(filter.path)
      return resource => readValues(resource).some(isPresent)
    }
    default:
      return createComparison(filter.op, read(filter.path), filter.value)
  }
}

const isPresent = (value: unknown): boolean =>
  value !== '' && !(isObject(value) && Object.keys(value).length === 0)

// A missing value differs from everything except null.
function createComparison(
  op: Comparison,
  { attribute, readValues }: AttributeReader,
  filterValue: FilterValue,
): (resource: Json) => boolean {
  if (filterValue === null) return createNullComparison(op, readValues)
  const operand = toOperand(attribute, filterValue)
  if (typeof operand === 'boolean' && op !== 'eq' && op !== 'ne')
    throw refused('invalidFilter', `“${op}” compares no booleans`)
  const compare = COMPARE[op]
  const matchesOperand = (value: unknown) => {
    const found = toComparable(attribute, value)
    return typeof found === typeof operand && compare(found as never, operand as never)
  }
  if (op !== 'ne') return resource => readValues(resource).some(matchesOperand)
  return resource => {
    const found = readValues(resource)
    return found.length === 0 || found.some(value => !(toComparable(attribute, value) === operand))
  }
}

function createNullComparison(
  op: Comparison,
  values: AttributeReader['readValues'],
): (resource: Json) => boolean {
  if (op === 'eq') return resource => !values(resource).some(isPresent)
  if (op === 'ne') return resource => values(resource).some(isPresent)
  throw refused('invalidFilter', `“${op}” compares nothing with null`)
}

const COMPARE: Record<
  Exclude<Comparison, 'ne'> | 'ne',
  (found: never, expected: never) => boolean
> = {
  eq: (found, expected) => found === expected,
  ne: (found, expected) => found !== expected,
  co: (found: string, expected: string) => typeof found === 'string' && found.includes(expected),
  sw: (found: string, expected: string) => typeof found === 'string' && found.startsWith(expected),
  ew: (found: string, expected: string) => typeof found === 'string' && found.endsWith(expected),
  gt: (found, expected) => found > expected,
  ge: (found, expected) => found >= expected,
  lt: (found, expected) => found < expected,
  le: (found, expected) => found <= expected,
}

/** Converts a value for comparison: times to numbers, case-insensitive texts to lower case. */
export function toComparable(attribute: Attribute | null, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (attribute?.type === 'dateTime') return Date.parse(value)
  return attribute?.caseExact ? value : value.toLowerCase()
}

// Some clients send "true" for true.
const toOperand = (attribute: Attribute | null, value: FilterValue): unknown =>
  attribute?.type === 'boolean' && typeof value === 'string'
    ? parseBoolean(value)
    : toComparable(attribute, value)

/** Parses a boolean in any case. Returns other texts unchanged. */
export function parseBoolean(text: string): boolean | string {
  const lowerCase = text.toLowerCase()
  return lowerCase === 'true' ? true : lowerCase === 'false' ? false : text
}
