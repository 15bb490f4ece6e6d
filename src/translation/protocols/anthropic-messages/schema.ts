import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'

/** Returns the schema of a tool's input, which is always that of an object. */
export const toInputSchema = (parameters: unknown): Json =>
  isObject(parameters) && Object.keys(parameters).length > 0
    ? { ...parameters, type: 'object' }
    : { type: 'object', properties: {} }

/**
 * Keywords that constrain a value instead of shaping it. The API refuses them, so the description
 * states them.
 */
const BOUNDS = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
]
const STRING_FORMATS = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
])
const MAPS = ['properties', '$defs', 'definitions']
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const DEEPEST = 100

/**
 * Returns the schema in the form that native structured output accepts ("Structured outputs", JSON
 * Schema limitations): objects are closed, alternatives are `anyOf`, and bounds are stated in the
 * description. Throws 400 for a schema deeper than 100 levels.
 */
export function closeSchema(schema: Json, depth = 0): Json {
  if (depth > DEEPEST)
    throw invalid('response_format: expected a schema of at most 100 levels', 'response_format')
  const closed: Json = {}
  for (const [name, value] of Object.entries(schema)) {
    if (BOUNDS.includes(name) || (name === 'format' && !isKnownFormat(value))) continue
    closed[name === 'oneOf' ? 'anyOf' : name] = closeMember(name, value, depth + 1)
  }
  if (schema.type === 'object' || isObject(schema.properties)) closed.additionalProperties = false
  const bounds = describeBounds(schema)
  if (bounds !== '')
    closed.description =
      typeof schema.description === 'string' ? `${schema.description}\n${bounds}` : bounds
  return closed
}

const isKnownFormat = (format: unknown): boolean => STRING_FORMATS.has(readString(format) ?? '')

function closeMember(name: string, value: unknown, depth: number): unknown {
  if (MAPS.includes(name) && isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        key,
        isObject(one) ? closeSchema(one, depth) : one,
      ]),
    )
  if (LISTS.includes(name) && Array.isArray(value))
    return value.map(one => (isObject(one) ? closeSchema(one, depth) : one))
  return name === 'items' && isObject(value) ? closeSchema(value, depth) : value
}

const describeBounds = (schema: Json): string =>
  [...BOUNDS, 'format']
    .filter(
      name => schema[name] !== undefined && !(name === 'format' && isKnownFormat(schema.format)),
    )
    .map(name => `${name}: ${JSON.stringify(schema[name])}`)
    .join(', ')

/**
 * Tells whether native structured output can express everything that this schema allows. Objects
 * with arbitrary member names would always come back empty, and recursive schemas are refused.
 */
export function isClosable(schema: Json): boolean {
  const refs = new Map<string, string[]>()
  return !isOpenSchema(schema, '#', refs, 0) && !isCircular(refs)
}

// Records which definition refers to which, so that cycles can be found afterwards.
function isOpenSchema(
  schema: unknown,
  within: string,
  refs: Map<string, string[]>,
  depth: number,
): boolean {
  if (Array.isArray(schema)) return schema.some(one => isOpenSchema(one, within, refs, depth + 1))
  if (!isObject(schema) || depth > DEEPEST) return false
  if (typeof schema.$ref === 'string') {
    const found = refs.get(within)
    if (found) found.push(schema.$ref)
    else refs.set(within, [schema.$ref])
  }
  if (
    isObject(schema.additionalProperties) ||
    schema.additionalProperties === true ||
    isObject(schema.patternProperties)
  )
    return true
  if (
    schema.type === 'object' &&
    !isObject(schema.properties) &&
    schema.additionalProperties !== false &&
    !schema.$ref
  )
    return true
  return Object.entries(schema).some(member => isOpenMember(member, within, refs, depth + 1))
}

function isOpenMember(
  [name, value]: [string, unknown],
  within: string,
  refs: Map<string, string[]>,
  depth: number,
): boolean {
  if (name === 'properties' && isObject(value))
    return Object.values(value).some(one => isOpenSchema(one, within, refs, depth))
  if ((name === '$defs' || name === 'definitions') && isObject(value))
    return Object.entries(value).some(([key, one]) =>
      isOpenSchema(one, `#/${name}/${key}`, refs, depth),
    )
  return (LISTS.includes(name) || name === 'items') && isOpenSchema(value, within, refs, depth)
}

function isCircular(refs: Map<string, string[]>): boolean {
  const visited = new Set<string>()
  const hasCircle = (ref: string, path: Set<string>): boolean => {
    if (path.has(ref) || path.size > DEEPEST) return true
    if (visited.has(ref)) return false
    path.add(ref)
    const found = (refs.get(ref) ?? []).some(to => hasCircle(to, path))
    path.delete(ref)
    visited.add(ref)
    return found
  }
  return [...refs.keys()].some(ref => hasCircle(ref, new Set()))
}
