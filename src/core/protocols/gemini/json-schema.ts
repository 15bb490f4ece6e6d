import { invalid } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'

/** A schema and the lists in it are nested no deeper than this. */
const DEEPEST = 64

/**
 * A JSON Schema for models that take JSON Schema itself, which has no word for `const` there either, nor for the name of its
 * dialect. References stay, back to itself too. Throws 400 naming `field` for a schema without end.
 */
export const jsonSchema = (schema: Json, field: string): Json => withoutConst(schema, field, 0) as Json

/** Keywords whose values are schemas by name, or plain values that only look like schemas. */
const NAMED = new Set(['properties', '$defs', 'definitions', 'patternProperties'])
const VALUES = new Set(['enum', 'default', 'examples', 'example', 'required', 'propertyOrdering'])

function withoutConst(schema: unknown, field: string, depth: number): unknown {
  if (depth > DEEPEST) throw invalid(`${field}: expected a schema of less depth and size`, field)
  if (Array.isArray(schema)) return schema.map(one => withoutConst(one, field, depth + 1))
  if (!isObject(schema)) return schema
  const { const: only, $schema: _, ...rest } = schema
  const entries = Object.entries(rest).map(([name, value]) => {
    if (VALUES.has(name)) return [name, value]
    if (!NAMED.has(name) || !isObject(value)) return [name, withoutConst(value, field, depth + 1)]
    return [name, Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutConst(one, field, depth + 1)]))]
  })
  return { ...Object.fromEntries(entries), ...('const' in schema ? { enum: [only] } : {}) }
}
