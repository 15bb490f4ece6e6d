import { invalid } from '../../../base/errors.ts'
import { getOwn, isObject, type Json, readObjects, readString } from '../../../base/json.ts'

/** A schema with more places or more levels than this is one that no model could follow. */
const MAX_PLACES = 5_000
const DEEPEST = 32

/**
 * Returns a JSON Schema in the reduced form that all of Google's models accept (`Schema`,
 * ai.google.dev/api/caching#Schema). References are replaced by their targets, lists of types
 * become `nullable` or `anyOf`, `const` becomes an `enum`, and other keywords are left out. Throws
 * 400 naming `field` for a reference that cannot be resolved, and for recursive or huge schemas.
 */
export const reduceSchema = (schema: Json, field: string): Json =>
  new SchemaReducer(schema, field).reduce(schema)

class SchemaReducer {
  readonly #root: Json
  readonly #field: string
  #placeCount = 0

  constructor(root: Json, field: string) {
    this.#root = root
    this.#field = field
  }

  /** Returns the reduced form of one place. `way` contains the references that led to it. */
  reduce(source: unknown, path: string[] = [], depth = 0): Json {
    this.#placeCount += 1
    if (this.#placeCount > MAX_PLACES || depth > DEEPEST)
      throw invalid(`${this.#field}: expected a smaller and less nested schema`, this.#field)
    if (!isObject(source)) return { ...ANYTHING }
    const { $ref, ...siblings } = source
    if (typeof $ref === 'string')
      return this.reduce(
        { ...this.#resolveReference($ref, path), ...siblings },
        [...path, $ref],
        depth + 1,
      )
    const reduceInner = (one: unknown) => this.reduce(one, path, depth + 1)
    const schema = mergeAllOf(source, reduceInner)
    const choices = listAlternatives(schema)
    return choices
      ? this.#reduceAlternatives(schema, choices, reduceInner)
      : reducePlace(schema, reduceInner)
  }

  #resolveReference(ref: string, path: string[]): Json {
    if (path.includes(ref))
      throw invalid(
        `${this.#field}: expected a schema that is not recursive (${quoteReference(ref)})`,
        this.#field,
      )
    const target = ref.startsWith('#') ? resolvePointer(this.#root, ref.slice(1)) : undefined
    if (!isObject(target))
      throw invalid(
        `${this.#field}: expected references within this schema (${quoteReference(ref)})`,
        this.#field,
      )
    return target
  }

  // Vertex accepts nothing beside an `anyOf`, so the other keywords go into each alternative.
  #reduceAlternatives(schema: Json, choices: Json[], reduceInner: (one: unknown) => Json): Json {
    const { anyOf: _, oneOf: __, type, ...others } = schema
    // One type for all alternatives; of a list of types each is an alternative.
    const siblings = typeof type === 'string' ? { type, ...others } : others
    const real = choices.filter(choice => choice.type !== 'null')
    const nullable =
      real.length < choices.length || schema.nullable === true ? { nullable: true } : {}
    const reduced = real.map(choice => ({
      ...reduceInner({ ...siblings, ...choice }),
      ...nullable,
    }))
    const [only] = reduced
    return reduced.length > 1 ? { anyOf: reduced } : (only ?? { ...ANYTHING, ...nullable })
  }
}

/** A place without a type may be anything, and a string can express anything. */
const ANYTHING = { type: 'string' }

/**
 * Returns the alternatives of a place, whether a list of schemas or a list of types. Undefined if
 * there are none.
 */
function listAlternatives(schema: Json): Json[] | undefined {
  const { anyOf, oneOf, type } = schema
  const listed = [...readObjects(anyOf), ...readObjects(oneOf)]
  if (listed.length > 0) return listed
  return Array.isArray(type) ? type.map(one => ({ type: one })) : undefined
}

/**
 * Merges `allOf` into one schema, as far as properties and requirements go. Keywords beside it take
 * precedence.
 */
function mergeAllOf(schema: Json, reduceInner: (part: unknown) => Json): Json {
  const { allOf, ...whole } = schema
  for (const part of readObjects(allOf).map(reduceInner)) {
    const properties = { ...readProperties(part), ...readProperties(whole) }
    const required = [...listTexts(whole.required), ...listTexts(part.required)]
    for (const name in part) whole[name] ??= part[name]
    if (Object.keys(properties).length > 0) whole.properties = properties
    if (required.length > 0) whole.required = required
  }
  return whole
}

const readProperties = ({ properties }: Json): Json => (isObject(properties) ? properties : {})

/** Keywords with the same meaning in both forms. */
const SAME_KEYWORDS = ['title', 'description', 'nullable', 'pattern']
const NUMERIC_KEYWORDS = [
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
]
/** Other formats are refused, not ignored. */
const SUPPORTED_FORMATS: Record<string, string[]> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
}

/** Reduces one place without alternatives. */
function reducePlace(schema: Json, reduceInner: (one: unknown) => Json): Json {
  const type = readType(schema)
  const reduced: Json = { type }
  for (const name of SAME_KEYWORDS) if (schema[name] !== undefined) reduced[name] = schema[name]
  for (const name of NUMERIC_KEYWORDS)
    if (typeof schema[name] === 'number') reduced[name] = schema[name]
  if (getOwn(SUPPORTED_FORMATS, type)?.includes(readString(schema.format) ?? ''))
    reduced.format = schema.format
  Object.assign(reduced, reduceValues(schema, type))
  if (type === 'array') reduced.items = reduceItems(schema, reduceInner)
  if (type === 'object') Object.assign(reduced, reduceProperties(schema, reduceInner))
  return reduced
}

function readType(schema: Json): string {
  if (typeof schema.type === 'string') return schema.type.toLowerCase()
  if (isObject(schema.properties)) return 'object'
  if (schema.items !== undefined || schema.prefixItems !== undefined) return 'array'
  const values = 'const' in schema ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : []
  const types = new Set(values.filter(value => value !== null).map(value => typeof value))
  return types.size === 1 && types.has('number')
    ? 'number'
    : types.size === 1 && types.has('boolean')
      ? 'boolean'
      : 'string'
}

// An `enum` must be a list of non-empty strings. The description states values of other types.
function reduceValues(schema: Json, type: string): Json {
  const values: unknown[] | null =
    'const' in schema ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : null
  if (!values) return {}
  const nullable = values.includes(null) ? { nullable: true } : {}
  const real = values.filter(value => value !== null && value !== '')
  if (real.length === 0) return nullable
  if (type === 'string')
    return {
      ...nullable,
      enum: real.map(value => (typeof value === 'string' ? value : JSON.stringify(value))),
    }
  const allowed = `One of: ${real.map(value => JSON.stringify(value)).join(', ')}`
  return {
    ...nullable,
    description: [readString(schema.description), allowed].filter(Boolean).join('. '),
  }
}

// There is no equivalent of one schema per position, so each of them is allowed at any position.
function reduceItems(schema: Json, reduceInner: (one: unknown) => Json): Json {
  const places = [schema.prefixItems, schema.items].filter(Array.isArray).flat()
  if (places.length > 0) return reduceInner(places.length === 1 ? places[0] : { anyOf: places })
  return reduceInner(schema.items)
}

function reduceProperties(schema: Json, reduceInner: (member: unknown) => Json): Json {
  if (!isObject(schema.properties)) return {}
  const names = Object.keys(schema.properties)
  if (names.length === 0) return {}
  const properties = Object.fromEntries(
    Object.entries(schema.properties).map(([name, member]) => [name, reduceInner(member)]),
  )
  const required = listTexts(schema.required).filter(name => Object.hasOwn(properties, name))
  const order = listTexts(schema.propertyOrdering)
  return {
    properties,
    ...(required.length > 0 ? { required: [...new Set(required)] } : {}),
    ...(order.length > 0 ? { propertyOrdering: order } : {}),
  }
}

const listTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(one => typeof one === 'string') : []

/** Resolves a JSON pointer in the form of a URL fragment (RFC 6901). */
function resolvePointer(root: Json, pointer: string): unknown {
  let value: unknown = root
  for (const step of pointer.split('/').slice(1)) {
    const name = decodeFragment(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(value)) value = value[Number(name)]
    else value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  }
  return value
}

function decodeFragment(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

const quoteReference = (ref: string) => JSON.stringify(ref.slice(0, 100))

/** The most levels of a schema, counting its lists. */
const DEEPEST_PLAIN = 64

/**
 * Returns a JSON Schema for models that accept JSON Schema itself, but neither `const` nor
 * `$schema`. References stay, even recursive ones. Throws 400 naming `field` for a schema that is
 * nested too deeply.
 */
export const toJsonSchema = (schema: Json, field: string): Json =>
  replaceConst(schema, field, 0) as Json

/** Keywords whose values are maps of schemas, and keywords whose values only look like schemas. */
const SCHEMA_MAPS = new Set(['properties', '$defs', 'definitions', 'patternProperties'])
const VALUE_KEYWORDS = new Set([
  'enum',
  'default',
  'examples',
  'example',
  'required',
  'propertyOrdering',
])

function replaceConst(schema: unknown, field: string, depth: number): unknown {
  if (depth > DEEPEST_PLAIN)
    throw invalid(`${field}: expected a smaller and less nested schema`, field)
  if (Array.isArray(schema)) return schema.map(one => replaceConst(one, field, depth + 1))
  if (!isObject(schema)) return schema
  const { const: constant, $schema: _, ...rest } = schema
  const entries = Object.entries(rest).map(([name, value]) => {
    if (VALUE_KEYWORDS.has(name)) return [name, value]
    if (!SCHEMA_MAPS.has(name) || !isObject(value))
      return [name, replaceConst(value, field, depth + 1)]
    return [
      name,
      Object.fromEntries(
        Object.entries(value).map(([key, one]) => [key, replaceConst(one, field, depth + 1)]),
      ),
    ]
  })
  return { ...Object.fromEntries(entries), ...('const' in schema ? { enum: [constant] } : {}) }
}
