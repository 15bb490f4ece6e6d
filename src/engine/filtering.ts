import { GatewayError } from '../base/errors.ts'
import type { Json } from '../base/json.ts'
import { runAtOnce, runInTurns } from '../base/turns.ts'
import type { FilterSet } from '../limits/filters/filter-set.ts'
import type { CompiledRule } from '../limits/filters/rule.ts'
import type { Filters } from '../limits/filters.ts'
import type { Finding } from '../observability/generations/store.ts'

/** The content filters of a policy, and what they have found in one call. */
export class Filtering {
  readonly filters: Filters
  /** Counts of what was found: never the words themselves. */
  readonly findings: Finding[] = []
  /** The texts of the call as filters left them. The last gate does not read them again. */
  readonly readTexts = new Set<string>()
  /** The rule of each finding, by its index. */
  readonly rules: CompiledRule[] = []

  constructor(filters: Filters) {
    this.filters = filters
  }

  /** Counts a match. */
  noteMatch(rule: CompiledRule, where: Finding['where'], count = 1): void {
    const { guardrail_id, filter, action } = rule
    const finding = this.#find(rule, where)
    if (finding) {
      finding.count += count
      return
    }
    this.findings.push({ guardrail_id, filter, action, where, count })
    this.rules.push(rule)
  }

  /** Tells whether a match of the rule was counted. */
  hasFound(rule: CompiledRule, where: Finding['where']): boolean {
    return this.#find(rule, where) !== undefined
  }

  #find({ guardrail_id, filter }: CompiledRule, where: Finding['where']): Finding | undefined {
    return this.findings.find(
      finding =>
        finding.guardrail_id === guardrail_id &&
        finding.filter === filter &&
        finding.where === where,
    )
  }
}

/**
 * Returns a provider's failure as the client may see it: the facts that are taken over from the
 * provider without what the filters of answers redact, or without those facts if they block one.
 * Its message is always ours.
 */
export function filterFailure(filtering: Filtering, error: GatewayError): GatewayError {
  const { outputFilters } = filtering.filters
  if (!outputFilters) return error
  const { metadata } = error
  // What is taken over from a provider has at most 64 characters.
  const facts = Object.values(metadata)
  const { value, found } = runAtOnce(outputFilters.filterUnread(facts))
  if (found.length === 0) return error
  for (const { match } of found) filtering.noteMatch(match.rule, 'output')
  const isBlocked = found.some(({ match }) => match.rule.action === 'block')
  const filtered = Object.keys(metadata).map((name, i) => [name, value[i]])
  return error.with({ metadata: isBlocked ? {} : Object.fromEntries(filtered) })
}

/**
 * Filters what a model hands to a tool before the tool has it: whoever the tool asks is a receiver
 * as a provider is, and the words are the model's. So rules of calls hold, whoever's words they are
 * for, and those of answers. Returns the input as they leave it. Throws 403 for what is blocked.
 */
export async function filterToolInput(filtering: Filtering, input: Json): Promise<Json> {
  const { filters } = filtering
  const calls = filters.getInputFilters('system')
  const filtered = calls ? await filterWith(calls, filtering, 'input', input) : input
  const answers = filters.outputFilters
  return answers ? filterWith(answers, filtering, 'output', filtered) : filtered
}

async function filterWith(
  filters: FilterSet,
  filtering: Filtering,
  where: Finding['where'],
  input: Json,
): Promise<Json> {
  const { value, found } = await runInTurns(filters.filterUnread(input))
  for (const { match } of found) {
    filtering.noteMatch(match.rule, where)
    if (match.rule.action === 'block') throw answerBlocked(match.rule)
  }
  return value
}

/** The error for an answer that is blocked. */
export const answerBlocked = ({ name, blockedMessage: message }: CompiledRule): GatewayError =>
  new GatewayError('permission_denied', message ?? `Response blocked by content filter: ${name}`)
