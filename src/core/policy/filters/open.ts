import type { Role } from '../../language/message.ts'
import type { FilterRule, Filters } from '../filters.ts'
import { programOf } from '../patterns/program.ts'
import { patternProgram } from '../patterns.ts'
import type { Builtin } from './builtin.ts'
import { BUILTINS } from './builtins.ts'
import { ACTIONS, type OpenedLooking, type OpenedRule } from './rule.ts'
import { Screen } from './screen.ts'

/** Compiles the filters of these rules. Throws 400 for an invalid pattern. */
export async function open(rules: FilterRule[]): Promise<Filters> {
  const opened = new Map(
    await Promise.all(rules.map(async rule => [rule, await openRule(rule)] as const)),
  )
  const screenOf = (some: FilterRule[]) => {
    const looking = strictest(some).flatMap(rule => opened.get(rule) ?? [])
    return looking.length === 0 ? null : new Screen(looking)
  }
  const users = screenOf(rules)
  const others = screenOf(rules.filter(looksAtAll))
  const answered = screenOf(
    rules.filter(rule => rule.output && rule.slug !== 'regex-prompt-injection'),
  )
  return { asked: (role: Role) => (role === 'user' ? users : others), answered }
}

// `scan_scope` belongs to prompt injection; all other rules apply to every role.
const looksAtAll = ({ slug, scan_scope }: FilterRule) =>
  slug !== 'regex-prompt-injection' || scan_scope !== 'user_only'

/**
 * Picks one rule for each builtin or pattern: the strictest, and of equally strict ones the first
 * (wire reference H.4).
 */
function strictest(rules: FilterRule[]): FilterRule[] {
  const found = new Map<string, FilterRule>()
  for (const rule of rules) {
    const name = rule.slug ?? `/${rule.pattern}`
    const known = found.get(name)
    if (!known || ACTIONS.indexOf(rule.action) < ACTIONS.indexOf(known.action))
      found.set(name, rule)
  }
  return [...found.values()]
}

async function openRule({
  guardrail_id,
  scope,
  slug,
  pattern = '',
  action,
  label,
}: FilterRule): Promise<OpenedRule> {
  const whose = { guardrail_id, scope, action }
  if (slug !== undefined) return { ...whose, ...openBuiltin(await BUILTINS[slug]()), filter: slug }
  const lookings = [{ program: patternProgram(pattern), isKnown: false }]
  return {
    ...whose,
    filter: label || 'pattern',
    label: label || '[REDACTED]',
    name: label || '[BLOCKED]',
    lookings,
  }
}

function openBuiltin(
  builtin: Builtin,
): Pick<OpenedRule, 'label' | 'name' | 'blocked' | 'lookings' | 'find'> {
  const { label, name, blocked, find } = builtin
  return {
    label,
    name,
    lookings: lookingsOf(builtin),
    ...(blocked === undefined ? {} : { blocked }),
    ...(find ? { find } : {}),
  }
}

/** Compiles the programs of a builtin on first use. */
function lookingsOf(builtin: Builtin): OpenedLooking[] {
  const known = compiled.get(builtin)
  if (known) return known
  const made = builtin.patterns.map(({ pattern, spans }) => ({
    program: programOf(pattern),
    isKnown: true,
    ...(spans ? { spans } : {}),
  }))
  compiled.set(builtin, made)
  return made
}

const compiled = new WeakMap<Builtin, OpenedLooking[]>()
