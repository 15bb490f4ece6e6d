import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, parseCount } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Kind, Work } from '../../../language/work.ts'

/** What a count of a request multiplies or bounds. */
type CountRole = 'answers' | 'output' | 'reasoning' | 'searches'

/**
 * Fields that the gateway does not interpret and that some provider reads as a count of what it
 * charges for, by name. They stand in the body or in one of the `CONTAINERS`.
 */
const COUNT_ROLES = new Map<string, CountRole>([
  ['n', 'answers'],
  ['best_of', 'answers'],
  ['num_generations', 'answers'],
  ['num_return_sequences', 'answers'],
  ['candidate_count', 'answers'],
  ['candidateCount', 'answers'],
  ['max_tokens', 'output'],
  ['maxTokens', 'output'],
  ['max_completion_tokens', 'output'],
  ['max_output_tokens', 'output'],
  ['maxOutputTokens', 'output'],
  ['max_new_tokens', 'output'],
  ['max_tokens_to_sample', 'output'],
  ['n_predict', 'output'],
  ['num_predict', 'output'],
  ['budget_tokens', 'reasoning'],
  ['thinking_budget', 'reasoning'],
  ['thinkingBudget', 'reasoning'],
  ['reasoning_budget', 'reasoning'],
  ['max_uses', 'searches'],
  ['max_tool_calls', 'searches'],
])

/** Objects of a body in which providers look for such fields. */
const CONTAINERS = new Set([
  'additionalModelRequestFields',
  'chat_template_kwargs',
  'extra_body',
  'generationConfig',
  'generation_config',
  'inferenceConfig',
  'options',
  'parameters',
  'reasoning',
  'reasoning_config',
  'sampling_params',
  'search_parameters',
  'thinking',
  'thinkingConfig',
  'thinking_config',
  'web_search_options',
])

/** A count of a request: where it stands, what it counts, and what the caller wrote. */
interface CountField {
  path: string
  role: CountRole
  value: unknown
}

/**
 * Checks every count that the cost of a call depends on. What is counted is what is sent: a count
 * that providers may read in different ways is refused. Throws 400 naming the field.
 */
export function checkCounts(call: TextCall): void {
  const { extra, tools, params } = call
  for (const { path, role, value } of listCounts(extra))
    checkCount(path, value, role === 'answers' ? 1 : 0)
  const { max_tokens, reasoning, web_search_options } = params
  if (max_tokens != null) checkCount(nameOutputBound(call), max_tokens)
  checkCount('reasoning.max_tokens', reasoning?.max_tokens)
  if (isObject(web_search_options))
    checkCount('web_search_options.max_uses', web_search_options.max_uses)
  for (const [index, tool] of tools.entries())
    if (tool.type === 'other' && isObject(tool.value))
      checkCount(`tools.${index}.max_uses`, tool.value.max_uses)
}

/** Returns the name of the bound of a call's output, as its client's API has it. */
export const nameOutputBound = (call: Work[Kind]['call']): string =>
  call.kind === 'text' && call.dialect === 'responses' ? 'max_output_tokens' : 'max_tokens'

// A call for no answer would be paid for nothing.
function checkCount(path: string, value: unknown, least = 0): void {
  if (value != null && !((parseCount(value) ?? -1) >= least))
    throw invalid(`${path}: expected a whole number from ${least} to 1000000000`, path)
}

/**
 * Returns the highest count of a role among the fields that the gateway does not interpret; 0
 * without any.
 */
export function findHighestCount({ extra }: TextCall, role: CountRole): number {
  let highest = 0
  for (const field of listCounts(extra))
    if (field.role === role) highest = Math.max(highest, parseCount(field.value) ?? 0)
  return highest
}

/** Returns the fields without the counts of these roles. */
export function removeCounts(extra: Json, roles: CountRole[]): Json {
  if (!listCounts(extra).some(({ role }) => roles.includes(role))) return extra
  const kept: Json = {}
  for (const [name, value] of Object.entries(extra)) {
    const role = COUNT_ROLES.get(name)
    if (role && roles.includes(role)) continue
    kept[name] = CONTAINERS.has(name) && isObject(value) ? removeCounts(value, roles) : value
  }
  return kept
}

// Most calls have no such field.
function listCounts(extra: Json): CountField[] {
  for (const _ in extra) return collectCounts(extra, '', [])
  return NO_COUNTS
}

const NO_COUNTS: CountField[] = []

function collectCounts(extra: Json, prefix: string, found: CountField[]): CountField[] {
  for (const name in extra) {
    const value = extra[name]
    if (isObject(value) && CONTAINERS.has(name)) {
      collectCounts(value, `${prefix}${name}.`, found)
      continue
    }
    const role = COUNT_ROLES.get(name)
    if (role) found.push({ path: prefix + name, role, value })
  }
  return found
}
