import { Validator } from '@cfworker/json-schema'
import { jsonrepair } from 'jsonrepair'
import { isObject, type Json } from '../../base/json.ts'
import type { Healed, HealingRequest, HealingStep } from '../healing.ts'

/** Mends a text. Never throws. */
export function healText({ text, schema }: HealingRequest): Healed {
  try {
    return mendText(text, createSchemaCheck(schema))
  } catch (thrown) {
    const isTooDeep = thrown instanceof TooDeepError || thrown instanceof RangeError
    return { outcome: 'unmended', reason: isTooDeep ? 'too-deep' : 'no-json' }
  }
}

/** JSON that was found in a text, and what was done to find it. */
interface Finding {
  text: string
  value: unknown
  steps: HealingStep[]
}

function mendText(text: string, check: SchemaCheck): Healed {
  const whole = parseJson(text)
  if (whole && check.accepts(whole.value)) return { outcome: 'valid' }
  let isFound = whole !== null
  for (const finding of listFindings(text, whole)) {
    isFound = true
    if (check.accepts(finding.value))
      return {
        outcome: 'mended',
        text: finding.text,
        steps: finding.steps,
        isChecked: check.isReadable,
      }
  }
  return { outcome: 'unmended', reason: isFound ? 'schema' : 'no-json' }
}

/** Finds JSON in the text: as it stands in a piece of it first, and repaired only then. */
function* listFindings(text: string, whole: { value: unknown } | null): Generator<Finding> {
  // Some models write JSON as a text within JSON.
  if (typeof whole?.value === 'string')
    for (const inner of listFindings(whole.value, parseJson(whole.value)))
      yield { ...inner, steps: ['unescaped', ...inner.steps] }
  const trimmed = text.trim()
  if (whole) {
    if (isContainer(whole.value)) yield { text: trimmed, value: whole.value, steps: [] }
    return
  }
  const slices = listSlices(trimmed)
  for (const slice of slices) {
    const parsed = parseJson(slice)
    if (parsed && isContainer(parsed.value))
      yield { text: slice, value: parsed.value, steps: ['extracted'] }
  }
  for (const slice of slices) {
    const repaired = repairJson(slice)
    if (repaired)
      yield { ...repaired, steps: slice === trimmed ? ['repaired'] : ['extracted', 'repaired'] }
  }
}

function parseJson(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return null
  }
}

function repairJson(slice: string): { text: string; value: unknown } | null {
  try {
    const text = jsonrepair(slice).trim()
    const value: unknown = JSON.parse(text)
    return isContainer(value) && isShallow(value) ? { text, value } : null
  } catch {
    return null
  }
}

const isContainer = (value: unknown): boolean => isObject(value) || Array.isArray(value)

/** Tells whether a value is nested no deeper than may be walked. */
function isShallow(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEEPEST) return false
    level = level.flatMap(one => (isContainer(one) ? Object.values(one as object) : []))
  }
  return true
}

/** Tells whether values fit a schema. */
interface SchemaCheck {
  accepts(value: unknown): boolean
  /** Whether the schema could be used: if not, every object is accepted. */
  readonly isReadable: boolean
}

/**
 * Creates the check of a caller's schema. Regular expressions are left out: one of them could run
 * for ever. Without a schema any object is accepted.
 */
function createSchemaCheck(schema: unknown): SchemaCheck {
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

/** How deep JSON may be nested. */
const DEEPEST = 512

/** The text is nested deeper. */
class TooDeepError extends Error {}

/** At most this many pieces are looked at: prose may have brackets of its own. */
const MOST_SLICES = 16

/**
 * Lists the pieces of a text that may be JSON, in the order in which they begin: each starts with a
 * bracket and reaches to the one that closes it, or to the end. The whole text is among them if it
 * starts with a bracket. Takes time linear in the length of the text. Throws `TooDeepError`.
 */
function listSlices(text: string): string[] {
  const slices: string[] = []
  let at = 0
  while (slices.length < MOST_SLICES) {
    const start = findOpening(text, at)
    if (start === -1) break
    const end = findClosing(text, start)
    slices.push(text.slice(start, end))
    at = end
  }
  return slices
}

function findOpening(text: string, from: number): number {
  for (let i = from; i < text.length; i++) if (text[i] === '{' || text[i] === '[') return i
  return -1
}

/** Finds the end of what begins at `start`: behind the closing bracket, or the end of the text. */
function findClosing(text: string, start: number): number {
  let depth = 0
  let isQuoted = false
  for (let i = start; i < text.length; i++) {
    const character = text[i]
    if (isQuoted) {
      if (character === '\\') i += 1
      else if (character === '"') isQuoted = false
    } else if (character === '"') isQuoted = true
    else if (character === '{' || character === '[') {
      depth += 1
      if (depth > DEEPEST) throw new TooDeepError()
    } else if (character === '}' || character === ']') {
      depth -= 1
      if (depth === 0) return i + 1
    }
  }
  return cutFence(text, start)
}

/** Finds where the fence of a block of code ends that was opened before; else the text's end. */
function cutFence(text: string, start: number): number {
  if (!text.slice(0, start).includes('```')) return text.length
  const fence = text.indexOf('```', start)
  return fence === -1 ? text.length : fence
}
