import type { Json } from '../../kernel/json.ts'
import { runInTurns } from '../../kernel/turns.ts'
import type { FilterSet } from '../../policy/filters/filter-set.ts'
import type { Finding } from '../../telemetry/generations.ts'
import { answerBlocked, type Filtering } from './filtering.ts'

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
