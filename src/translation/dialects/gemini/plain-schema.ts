import { isObject, type Json } from '../../../base/json.ts'

/** Members that JSON Schema has under the same names, with schemas inside. */
const NESTED = new Set(['items', 'additionalProperties'])
const LISTS = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
const MAPS = new Set(['properties', '$defs', 'definitions'])

/** Bounds that Google writes as texts, as they are of 64 bits. */
const COUNTS = new Set([
  ...['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'],
])

/** The deepest schema that is read on: bodies nest no deeper. */
const DEEPEST = 128

/**
 * Converts a schema in Google’s form (types in capitals, `nullable`, bounds as texts) into JSON
 * Schema. What is JSON Schema already stays as it is.
 */
export function toPlainSchema(schema: Json, depth = 0): Json {
  if (depth > DEEPEST) return schema
  const plain: Json = {}
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'type') plain.type = toTypes(value, schema.nullable === true)
    else if (name === 'nullable' || name === 'propertyOrdering') continue
    else if (COUNTS.has(name)) plain[name] = typeof value === 'string' ? Number(value) : value
    else if (NESTED.has(name) && isObject(value)) plain[name] = toPlainSchema(value, depth + 1)
    else if (LISTS.has(name) && Array.isArray(value))
      plain[name] = value.map(one => (isObject(one) ? toPlainSchema(one, depth + 1) : one))
    else if (MAPS.has(name) && isObject(value))
      plain[name] = Object.fromEntries(
        Object.entries(value).map(([key, one]) => [
          key,
          isObject(one) ? toPlainSchema(one, depth + 1) : one,
        ]),
      )
    else plain[name] = value
  }
  return plain
}

function toTypes(type: unknown, isNullable: boolean): unknown {
  const names = [type].flat().map(one => (typeof one === 'string' ? one.toLowerCase() : one))
  const all = isNullable && !names.includes('null') ? [...names, 'null'] : names
  return all.length === 1 ? all[0] : all
}
