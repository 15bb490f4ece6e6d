import { invalid } from '../../errors.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'

/** The schema of a tool's input: always an object's, with whatever else it says. */
export const inputSchema = (parameters: unknown): Json =>
  isObject(parameters) && Object.keys(parameters).length > 0
    ? { ...parameters, type: 'object' }
    : { type: 'object', properties: {} }

/** What a schema may hold that bounds a value instead of shaping it. The model is told in words: it is refused as a keyword. */
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
const FORMATS = new Set([
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
 * The schema as the model's own structured output takes it ("Structured outputs", JSON Schema limitations): objects are closed,
 * alternatives are `anyOf`, bounds are told in the description. Throws 400 for a schema deeper than 100 levels.
 */
export function closedSchema(schema: Json, depth = 0): Json {
  if (depth > DEEPEST)
    throw invalid('response_format: expected a schema of at most 100 levels', 'response_format')
  const closed: Json = {}
  for (const [name, value] of Object.entries(schema)) {
    if (BOUNDS.includes(name) || (name === 'format' && !isKnownFormat(value))) continue
    closed[name === 'oneOf' ? 'anyOf' : name] = closedMember(name, value, depth + 1)
  }
  if (schema.type === 'object' || isObject(schema.properties)) closed.additionalProperties = false
  const told = boundsIn(schema)
  if (told !== '')
    closed.description =
      typeof schema.description === 'string' ? `${schema.description}\n${told}` : told
  return closed
}

const isKnownFormat = (format: unknown): boolean => FORMATS.has(text(format) ?? '')

function closedMember(name: string, value: unknown, depth: number): unknown {
  if (MAPS.includes(name) && isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        key,
        isObject(one) ? closedSchema(one, depth) : one,
      ]),
    )
  if (LISTS.includes(name) && Array.isArray(value))
    return value.map(one => (isObject(one) ? closedSchema(one, depth) : one))
  return name === 'items' && isObject(value) ? closedSchema(value, depth) : value
}

const boundsIn = (schema: Json): string =>
  [...BOUNDS, 'format']
    .filter(
      name => schema[name] !== undefined && !(name === 'format' && isKnownFormat(schema.format)),
    )
    .map(name => `${name}: ${JSON.stringify(schema[name])}`)
    .join(', ')

/**
 * Whether the model's own structured output can say everything that this schema allows. It knows no objects with members of any
 * name, which would always come back empty, and it refuses schemas that hold themselves.
 */
export function isClosable(schema: Json): boolean {
  const refs = new Map<string, string[]>()
  return !isOpen(schema, '#', refs, 0) && !isCircular(refs)
}

// Notes on the way which definition refers to which, so that the circles are found in the end.
function isOpen(
  schema: unknown,
  within: string,
  refs: Map<string, string[]>,
  depth: number,
): boolean {
  if (Array.isArray(schema)) return schema.some(one => isOpen(one, within, refs, depth + 1))
  if (!isObject(schema) || depth > DEEPEST) return false
  if (typeof schema.$ref === 'string') refs.set(within, [...(refs.get(within) ?? []), schema.$ref])
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
    return Object.values(value).some(one => isOpen(one, within, refs, depth))
  if ((name === '$defs' || name === 'definitions') && isObject(value))
    return Object.entries(value).some(([key, one]) => isOpen(one, `#/${name}/${key}`, refs, depth))
  return (LISTS.includes(name) || name === 'items') && isOpen(value, within, refs, depth)
}

function isCircular(refs: Map<string, string[]>): boolean {
  const over = new Set<string>()
  const circles = (at: string, way: Set<string>): boolean => {
    if (way.has(at) || way.size > DEEPEST) return true
    if (over.has(at)) return false
    way.add(at)
    const found = (refs.get(at) ?? []).some(to => circles(to, way))
    way.delete(at)
    over.add(at)
    return found
  }
  return [...refs.keys()].some(at => circles(at, new Set()))
}
