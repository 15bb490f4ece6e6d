import type { Role } from '../../language/message.ts'
import type { FilterRule, Filters } from '../filters.ts'
import { compileProgram } from '../patterns/program.ts'
import { getPatternProgram } from '../patterns.ts'
import type { Builtin } from './builtin.ts'
import { BUILTINS } from './builtins.ts'
import { FilterSet } from './filter-set.ts'
import { ACTIONS, type CompiledDetector, type CompiledRule } from './rule.ts'

/** Compiles the filters of these rules. Throws 400 for an invalid pattern. */
export async function compileFilters(rules: FilterRule[]): Promise<Filters> {
  const compiled = new Map(
    await Promise.all(
      rules.map(async (rule, order) => [rule, await compileRule(rule, order)] as const),
    ),
  )
  const buildFilterSet = (selected: FilterRule[]) => {
    const compiledRules = pickStrictest(selected).flatMap(rule => compiled.get(rule) ?? [])
    return compiledRules.length === 0 ? null : new FilterSet(compiledRules)
  }
  const userFilters = buildFilterSet(rules)
  const otherFilters = buildFilterSet(rules.filter(isForAllRoles))
  const outputFilters = buildFilterSet(
    rules.filter(rule => rule.output && rule.slug !== 'regex-prompt-injection'),
  )
  return {
    getInputFilters: (role: Role) => (role === 'user' ? userFilters : otherFilters),
    outputFilters,
  }
}

// `scan_scope` belongs to prompt injection; all other rules apply to every role.
const isForAllRoles = ({ slug, scan_scope }: FilterRule) =>
  slug !== 'regex-prompt-injection' || scan_scope !== 'user_only'

/**
 * Picks one rule for each builtin or pattern: the strictest, and of equally strict ones the first
 * (wire reference H.4).
 */
function pickStrictest(rules: FilterRule[]): FilterRule[] {
  const found = new Map<string, FilterRule>()
  for (const rule of rules) {
    const name = rule.slug ?? `/${rule.pattern}`
    const previous = found.get(name)
    if (!previous || ACTIONS.indexOf(rule.action) < ACTIONS.indexOf(previous.action))
      found.set(name, rule)
  }
  return [...found.values()]
}

async function compileRule(rule: FilterRule, order: number): Promise<CompiledRule> {
  const { guardrail_id, scope, slug, pattern = '', action, label } = rule
  const source = { guardrail_id, scope, action, order }
  if (slug !== undefined)
    return { ...source, ...compileBuiltin(await BUILTINS[slug]()), filter: slug }
  const detectors = [{ program: getPatternProgram(pattern) }]
  return {
    ...source,
    filter: label || 'pattern',
    label: label || '[REDACTED]',
    name: label || '[BLOCKED]',
    detectors,
  }
}

function compileBuiltin(
  builtin: Builtin,
): Pick<CompiledRule, 'label' | 'name' | 'blockedMessage' | 'detectors' | 'find'> {
  const { label, name, blockedMessage, find } = builtin
  return {
    label,
    name,
    detectors: compileDetectors(builtin),
    ...(blockedMessage === undefined ? {} : { blockedMessage }),
    ...(find ? { find } : {}),
  }
}

/** Compiles the programs of a builtin on first use. */
function compileDetectors(builtin: Builtin): CompiledDetector[] {
  const cached = detectorCache.get(builtin)
  if (cached) return cached
  const detectors = builtin.detectors.map(({ pattern, accepts, findSpans, anchor, before }) => {
    const program = compileProgram(pattern)
    return {
      program,
      ...(accepts ? { accepts } : {}),
      ...(findSpans ? { findSpans } : {}),
      ...(anchor ? { anchor: { find: anchor, before: before ?? program.listAlphabet() } } : {}),
    }
  })
  detectorCache.set(builtin, detectors)
  return detectors
}

const detectorCache = new WeakMap<Builtin, CompiledDetector[]>()
