import { isObject } from '../../base/json.ts'
import { ITEMS_AT_ONCE, type Work } from '../../base/turns.ts'
import { countCharacters } from '../../language/speech.ts'
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

/** What takes more comparisons does not match: a long list of values for each of many members. */
const MOST_STEPS = 10_000_000

/**
 * Finds the first member of a value that does not match a JSON Schema, as `a.0.b` (empty for the
 * value itself); null if it matches. It follows no reference, and ends within 10 million steps.
 */
export function* findMismatch(
  schema: unknown,
  value: unknown,
  reading: Reading,
): Work<string | null> {
  const names = yield* new Check(reading).findIn(schema, value)
  return names ? names.toReversed().join('.') : null
}

/** One check of a value. What it finds is the names on the way to it, from the inside. */
class Check {
  readonly #hasPatterns: boolean
  #steps = 0

  constructor({ hasPatterns }: Reading) {
    this.#hasPatterns = hasPatterns
  }

  *findIn(schema: unknown, value: unknown): Work<string[] | null> {
    if (this.#isTurnOver()) yield
    if (!isObject(schema)) return null
    if (this.#steps > MOST_STEPS || !(yield* this.#matches(schema, value))) return []
    if (Array.isArray(value)) return yield* this.#findInItems(schema, value)
    return isObject(value) ? yield* this.#findInMembers(schema, value) : null
  }

  /** Takes a step. Others may have their turn after some. */
  #isTurnOver(): boolean {
    this.#steps += 1
    return this.#steps % ITEMS_AT_ONCE === 0
  }

  *#matches(schema: Schema, value: unknown): Work<boolean> {
    const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? []].flat()
    const isType = (type: unknown) => isOfType(type, value)
    if (types.length > 0 && !(yield* this.#hasAny(types, isType))) return false
    const isSame = (one: unknown) => one === value || Bun.deepEquals(one, value)
    if (Array.isArray(schema.enum) && !(yield* this.#hasAny(schema.enum, isSame))) return false
    if (typeof value === 'number')
      return !(isBelow(value, schema.minimum) || isBelow(schema.maximum, value))
    if (typeof value === 'string') return yield* this.#matchesText(schema, value)
    return !(Array.isArray(value) && isBelow(schema.maxItems, value.length))
  }

  *#hasAny(list: unknown[], isMeant: (one: unknown) => boolean): Work<boolean> {
    for (const one of list) {
      if (this.#isTurnOver()) yield
      if (this.#steps > MOST_STEPS) return false
      if (isMeant(one)) return true
    }
    return false
  }

  *#matchesText({ minLength, maxLength, pattern }: Schema, text: string): Work<boolean> {
    if (minLength !== undefined || maxLength !== undefined) {
      const length = countCharacters(text)
      if (isBelow(length, minLength) || isBelow(maxLength, length)) return false
    }
    return !this.#hasPatterns || typeof pattern !== 'string' || (yield* finds(pattern, text))
  }

  *#findInItems({ items }: Schema, value: unknown[]): Work<string[] | null> {
    if (!isObject(items)) return null
    for (let i = 0; i < value.length; i++) {
      const names = yield* this.findIn(items, value[i])
      if (names) return [...names, String(i)]
    }
    return null
  }

  *#findInMembers(
    { properties, required, additionalProperties }: Schema,
    value: Record<string, unknown>,
  ): Work<string[] | null> {
    const known = isObject(properties) ? properties : {}
    for (const name of Array.isArray(required) ? required : []) {
      if (this.#isTurnOver()) yield
      if (this.#steps > MOST_STEPS) return []
      if (!Object.hasOwn(value, String(name))) return [String(name)]
    }
    for (const name of Object.keys(value)) {
      const isKnown = Object.hasOwn(known, name)
      if (!isKnown && additionalProperties === false) return [name]
      const names = isKnown ? yield* this.findIn(known[name], value[name]) : null
      if (names) return [...names, name]
    }
    return null
  }
}

/** Whether both are numbers, and the first one is the smaller. */
const isBelow = (one: unknown, other: unknown): boolean =>
  typeof one === 'number' && typeof other === 'number' && one < other

/** Whether a pattern is found. Throws 400 for one that is none: then no call is allowed. */
function* finds(pattern: string, text: string): Work<boolean> {
  let found = false
  const note = () => {
    found = true
  }
  yield* searchText(getPatternProgram(pattern, 'mcp'), text, note)
  return found
}

function isOfType(type: unknown, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}
