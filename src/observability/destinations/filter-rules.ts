import { runInTurns } from '../../base/turns.ts'
import type { FilterField, FilterRule, FilterRules } from './schema.ts'

/** What rules read of a call; null where the call has none. */
export type FilterValues = Record<FilterField, string | number | null>

/**
 * Tells whether a call matches: any group does. Rules that are off, absent or without groups match
 * every call. Patterns run in linear time, and others get their turn meanwhile.
 */
export async function matchesRules(
  rules: FilterRules | null,
  values: FilterValues,
): Promise<boolean> {
  if (!rules || rules.enabled === false || rules.groups.length === 0) return true
  for (const { logic = 'and', rules: members } of rules.groups)
    if (await matchesGroup(logic, members as FilterRule[], values)) return true
  return false
}

async function matchesGroup(
  logic: 'and' | 'or',
  rules: FilterRule[],
  values: FilterValues,
): Promise<boolean> {
  for (const rule of rules) {
    const isMatch = await matchesRule(rule, values[rule.field])
    if (isMatch === (logic === 'or')) return isMatch
  }
  return logic === 'and'
}

async function matchesRule(
  { operator, value }: FilterRule,
  found: string | number | null,
): Promise<boolean> {
  const text = found === null ? null : String(found)
  if (operator === 'regex') return text !== null && matchesPattern(String(value), text)
  return COMPARISONS[operator](text, String(value ?? ''), Number(found), Number(value))
}

type Comparison = (text: string | null, value: string, number: number, limit: number) => boolean

/** How each operator compares. A call without the field has only what is negated. */
const COMPARISONS: Record<Exclude<FilterRule['operator'], 'regex'>, Comparison> = {
  equals: (text, value) => text === value,
  not_equals: (text, value) => text !== value,
  contains: (text, value) => text?.includes(value) ?? false,
  not_contains: (text, value) => !(text?.includes(value) ?? false),
  starts_with: (text, value) => text?.startsWith(value) ?? false,
  ends_with: (text, value) => text?.endsWith(value) ?? false,
  gt: (_, __, number, limit) => number > limit,
  lt: (_, __, number, limit) => number < limit,
  gte: (_, __, number, limit) => number >= limit,
  lte: (_, __, number, limit) => number <= limit,
  exists: text => text !== null && text !== '',
  not_exists: text => text === null || text === '',
}

// Loaded when a rule has a pattern: a server without one starts without the engine.
async function matchesPattern(pattern: string, text: string): Promise<boolean> {
  const { searchText } = await import('../../limits/patterns/search.ts')
  const { getPatternProgram } = await import('../../limits/patterns.ts')
  let isFound = false
  await runInTurns(
    searchText(getPatternProgram(pattern), text, () => {
      isFound = true
    }),
  )
  return isFound
}
