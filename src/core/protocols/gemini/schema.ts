import { invalid } from '../../errors.ts'
import { isObject, type Json, objects, own, text } from '../../kernel/json.ts'

/** A schema with more places or more levels than this is one that no model could follow. */
const MOST_PLACES = 5_000
const DEEPEST = 32

/**
 * Returns a JSON Schema in the reduced form that all of Google's models accept (`Schema`,
 * ai.google.dev/api/caching#Schema). References are replaced by their targets, lists of types
 * become `nullable` or `anyOf`, `const` becomes an `enum`, and other keywords are left out. Throws
 * 400 naming `field` for a reference that cannot be resolved, and for recursive or huge schemas.
 */
export const reducedSchema = (schema: Json, field: string): Json =>
  new Reduction(schema, field).of(schema)

class Reduction {
  readonly #root: Json
  readonly #field: string
  #places = 0

  constructor(root: Json, field: string) {
    this.#root = root
    this.#field = field
  }

  /** Returns the reduced form of one place. `way` contains the references that led to it. */
  of(given: unknown, way: string[] = [], depth = 0): Json {
    this.#places += 1
    if (this.#places > MOST_PLACES || depth > DEEPEST)
      throw invalid(`${this.#field}: expected a smaller and less nested schema`, this.#field)
    if (!isObject(given)) return { ...ANYTHING }
    const { $ref, ...beside } = given
    if (typeof $ref === 'string')
      return this.of({ ...this.#target($ref, way), ...beside }, [...way, $ref], depth + 1)
    const inner = (one: unknown) => this.of(one, way, depth + 1)
    const schema = withAll(given, inner)
    const choices = alternativesOf(schema)
    return choices ? this.#anyOf(schema, choices, inner) : placeOf(schema, inner)
  }

  #target(ref: string, way: string[]): Json {
    if (way.includes(ref))
      throw invalid(
        `${this.#field}: expected a schema that is not recursive (${printed(ref)})`,
        this.#field,
      )
    const target = ref.startsWith('#') ? pointed(this.#root, ref.slice(1)) : undefined
    if (!isObject(target))
      throw invalid(
        `${this.#field}: expected references within this schema (${printed(ref)})`,
        this.#field,
      )
    return target
  }

  // Vertex accepts nothing beside an `anyOf`, so the other keywords go into each alternative.
  #anyOf(schema: Json, choices: Json[], inner: (one: unknown) => Json): Json {
    const { anyOf: _, oneOf: __, type: ___, ...beside } = schema
    const real = choices.filter(choice => choice.type !== 'null')
    const nullable =
      real.length < choices.length || schema.nullable === true ? { nullable: true } : {}
    const reduced = real.map(choice => ({ ...inner({ ...beside, ...choice }), ...nullable }))
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
function alternativesOf(schema: Json): Json[] | undefined {
  const { anyOf, oneOf, type } = schema
  const listed = [...objects(anyOf), ...objects(oneOf)]
  if (listed.length > 0) return listed
  return Array.isArray(type) ? type.map(one => ({ type: one })) : undefined
}

/**
 * Merges `allOf` into one schema, as far as properties and requirements go. Keywords beside it take
 * precedence.
 */
function withAll(schema: Json, inner: (one: unknown) => Json): Json {
  const { allOf, ...whole } = schema
  for (const one of objects(allOf).map(inner)) {
    const properties = { ...members(one), ...members(whole) }
    const required = [...texts(whole.required), ...texts(one.required)]
    for (const name in one) whole[name] ??= one[name]
    if (Object.keys(properties).length > 0) whole.properties = properties
    if (required.length > 0) whole.required = required
  }
  return whole
}

const members = ({ properties }: Json): Json => (isObject(properties) ? properties : {})

/** Keywords with the same meaning in both forms. */
const SAME = ['title', 'description', 'nullable', 'pattern']
const COUNTS = [
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
const FORMATS: Record<string, string[]> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
}

/** Reduces one place without alternatives. */
function placeOf(schema: Json, inner: (one: unknown) => Json): Json {
  const type = typeOf(schema)
  const place: Json = { type }
  for (const name of SAME) if (schema[name] !== undefined) place[name] = schema[name]
  for (const name of COUNTS) if (typeof schema[name] === 'number') place[name] = schema[name]
  if (own(FORMATS, type)?.includes(text(schema.format) ?? '')) place.format = schema.format
  Object.assign(place, valuesOf(schema, type))
  if (type === 'array') place.items = itemsOf(schema, inner)
  if (type === 'object') Object.assign(place, membersOf(schema, inner))
  return place
}

function typeOf(schema: Json): string {
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
function valuesOf(schema: Json, type: string): Json {
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
  const said = `One of: ${real.map(value => JSON.stringify(value)).join(', ')}`
  return { ...nullable, description: [text(schema.description), said].filter(Boolean).join('. ') }
}

// There is no equivalent of one schema per position, so each of them is allowed at any position.
function itemsOf(schema: Json, inner: (one: unknown) => Json): Json {
  const places = [schema.prefixItems, schema.items].filter(Array.isArray).flat()
  if (places.length > 0) return inner(places.length === 1 ? places[0] : { anyOf: places })
  return inner(schema.items)
}

function membersOf(schema: Json, inner: (one: unknown) => Json): Json {
  if (!isObject(schema.properties)) return {}
  const names = Object.keys(schema.properties)
  if (names.length === 0) return {}
  const properties = Object.fromEntries(
    Object.entries(schema.properties).map(([name, one]) => [name, inner(one)]),
  )
  const required = texts(schema.required).filter(name => Object.hasOwn(properties, name))
  const order = texts(schema.propertyOrdering)
  return {
    properties,
    ...(required.length > 0 ? { required: [...new Set(required)] } : {}),
    ...(order.length > 0 ? { propertyOrdering: order } : {}),
  }
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(one => typeof one === 'string') : []

/** Resolves a JSON pointer in the form of a URL fragment (RFC 6901). */
function pointed(root: Json, pointer: string): unknown {
  let place: unknown = root
  for (const step of pointer.split('/').slice(1)) {
    const name = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(place)) place = place[Number(name)]
    else place = isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined
  }
  return place
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

const printed = (ref: string) => JSON.stringify(ref.slice(0, 100))

/** The most levels of a schema, counting its lists. */
const DEEPEST_PLAIN = 64

/**
 * Returns a JSON Schema for models that accept JSON Schema itself, but neither `const` nor
 * `$schema`. References stay, even recursive ones. Throws 400 naming `field` for a schema that is
 * nested too deeply.
 */
export const jsonSchema = (schema: Json, field: string): Json =>
  withoutConst(schema, field, 0) as Json

/** Keywords whose values are maps of schemas, and keywords whose values only look like schemas. */
const NAMED = new Set(['properties', '$defs', 'definitions', 'patternProperties'])
const VALUES = new Set(['enum', 'default', 'examples', 'example', 'required', 'propertyOrdering'])

function withoutConst(schema: unknown, field: string, depth: number): unknown {
  if (depth > DEEPEST_PLAIN)
    throw invalid(`${field}: expected a smaller and less nested schema`, field)
  if (Array.isArray(schema)) return schema.map(one => withoutConst(one, field, depth + 1))
  if (!isObject(schema)) return schema
  const { const: only, $schema: _, ...rest } = schema
  const entries = Object.entries(rest).map(([name, value]) => {
    if (VALUES.has(name)) return [name, value]
    if (!NAMED.has(name) || !isObject(value)) return [name, withoutConst(value, field, depth + 1)]
    return [
      name,
      Object.fromEntries(
        Object.entries(value).map(([key, one]) => [key, withoutConst(one, field, depth + 1)]),
      ),
    ]
  })
  return { ...Object.fromEntries(entries), ...('const' in schema ? { enum: [only] } : {}) }
}
