import { jsonrepair } from 'jsonrepair'
import type { Healed, HealingRequest, HealingStep } from '../healing.ts'
import { isObject } from '../kernel/json.ts'
import { createSchemaCheck, type SchemaCheck } from './schema-check.ts'
import { DEEPEST, listSlices, TooDeepError } from './slices.ts'

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
