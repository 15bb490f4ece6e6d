import { Validator } from '@cfworker/json-schema'
import { isObject, type Json } from '../kernel/json.ts'
import { DEEPEST } from './slices.ts'

/** Tells whether values fit a schema. */
export interface SchemaCheck {
  accepts(value: unknown): boolean
  /** Whether the schema could be used: if not, every object is accepted. */
  readonly isReadable: boolean
}

/**
 * Creates the check of a caller's schema. Regular expressions are left out: one of them could run
 * for ever. Without a schema any object is accepted.
 */
export function createSchemaCheck(schema: unknown): SchemaCheck {
  if (!isObject(schema)) return { accepts: isObject, isReadable: true }
  const validator = openValidator(schema)
  let isReadable = validator !== null
  return {
    accepts(value) {
      try {
        if (validator) return validator.validate(value).valid
      } catch {
        // A reference to nowhere or to itself is found here.
        isReadable = false
      }
      return isObject(value)
    },
    get isReadable() {
      return isReadable
    },
  }
}

function openValidator(schema: Json): Validator | null {
  try {
    return new Validator(removePatterns(schema, 0) as Json, '2020-12', true)
  } catch {
    return null
  }
}

const PATTERNS = ['pattern', 'patternProperties', 'format']
/** What patterns would have taken into account. */
const BESIDE_PATTERNS = ['additionalProperties', 'unevaluatedProperties']
/** The members whose own members are schemas under any name. */
const NAMED = ['properties', '$defs', 'definitions', 'dependentSchemas']
/** The members that are values and no schemas. */
const VALUES = ['enum', 'const', 'default', 'examples', 'required', 'dependentRequired']

function removePatterns(schema: unknown, depth: number): unknown {
  if (depth > DEEPEST) throw new RangeError('The schema is nested too deep')
  if (Array.isArray(schema)) return schema.map(one => removePatterns(one, depth + 1))
  if (!isObject(schema)) return schema
  const left = 'patternProperties' in schema ? [...PATTERNS, ...BESIDE_PATTERNS] : PATTERNS
  const members = Object.entries(schema).filter(([name]) => !left.includes(name))
  return Object.fromEntries(
    members.map(([name, value]) => [name, removeFrom(name, value, depth + 1)]),
  )
}

function removeFrom(name: string, value: unknown, depth: number): unknown {
  if (VALUES.includes(name)) return value
  if (!NAMED.includes(name) || !isObject(value)) return removePatterns(value, depth)
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, removePatterns(one, depth + 1)]),
  )
}
