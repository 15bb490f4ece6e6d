import { isObject } from '../../base/json.ts'
import { runAtOnce } from '../../base/turns.ts'
import { searchText } from '../../limits/patterns/search.ts'
import { getPatternProgram } from '../../limits/patterns.ts'

/** The words of JSON Schema that are checked. All others say nothing here. */
interface Schema {
  type?: unknown
  enum?: unknown
  pattern?: unknown
  minLength?: unknown
  maxLength?: unknown
  minimum?: unknown
  maximum?: unknown
  items?: unknown
  maxItems?: unknown
  properties?: unknown
  required?: unknown
  additionalProperties?: unknown
}

/** How a schema is read. */
interface Reading {
  /**
   * Whether patterns are checked: those of operators are, by RE2 in linear time. A server's would
   * run for as long as it likes in its own syntax.
   */
  hasPatterns: boolean
}

/**
 * Finds the first member of a value that does not match a JSON Schema, as `a.0.b` (empty for the
 * value itself); null if it matches. Takes time linear in the value: it follows no reference.
 */
export function findMismatch(
  schema: unknown,
  value: unknown,
  reading: Reading,
  path = '',
): string | null {
  if (!isObject(schema)) return null
  if (!matchesHere(schema, value, reading)) return path
  if (Array.isArray(value)) return findInItems(schema, value, reading, path)
  return isObject(value) ? findInMembers(schema, value, reading, path) : null
}

function matchesHere(schema: Schema, value: unknown, { hasPatterns }: Reading): boolean {
  const types = [schema.type ?? []].flat()
  if (types.length > 0 && !types.some(type => isOfType(type, value))) return false
  if (Array.isArray(schema.enum) && !schema.enum.some(one => Bun.deepEquals(one, value)))
    return false
  if (typeof value === 'number')
    return !(isBelow(value, schema.minimum) || isBelow(schema.maximum, value))
  if (typeof value === 'string') {
    const { length } = [...value]
    if (isBelow(length, schema.minLength) || isBelow(schema.maxLength, length)) return false
    return !hasPatterns || typeof schema.pattern !== 'string' || finds(schema.pattern, value)
  }
  return !(Array.isArray(value) && isBelow(schema.maxItems, value.length))
}

/** Whether both are numbers, and the first one is the smaller. */
const isBelow = (one: unknown, other: unknown): boolean =>
  typeof one === 'number' && typeof other === 'number' && one < other

/** Whether a pattern is found. Throws 400 for one that is none: then no call is allowed. */
function finds(pattern: string, text: string): boolean {
  let found = false
  const note = () => {
    found = true
  }
  runAtOnce(searchText(getPatternProgram(pattern, 'mcp'), text, note))
  return found
}

function isOfType(type: unknown, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

function findInItems(
  { items }: Schema,
  value: unknown[],
  reading: Reading,
  path: string,
): string | null {
  for (const [i, item] of value.entries()) {
    const found = findMismatch(items, item, reading, join(path, String(i)))
    if (found !== null) return found
  }
  return null
}

function findInMembers(
  { properties, required, additionalProperties }: Schema,
  value: Record<string, unknown>,
  reading: Reading,
  path: string,
): string | null {
  const known = isObject(properties) ? properties : {}
  for (const name of Array.isArray(required) ? required : [])
    if (!Object.hasOwn(value, String(name))) return join(path, String(name))
  for (const [name, member] of Object.entries(value)) {
    const at = join(path, name)
    if (!Object.hasOwn(known, name)) {
      if (additionalProperties === false) return at
      continue
    }
    const found = findMismatch(known[name], member, reading, at)
    if (found !== null) return found
  }
  return null
}

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)
