import type { Params, Reasoning } from '../../language/params.ts'
import { budgetOf, effortOf } from '../reasoning.ts'
import type { Thinking } from './capabilities.data.ts'

/** How long an answer may be where nobody says. */
const LONGEST_OUTPUT = 65_536

/**
 * The wish for reasoning as a `thinkingConfig`: a level or a number of tokens, never both (a request with both is refused).
 * Undefined where nothing was wished, or the model cannot be told.
 */
export function thinkingConfig({ reasoning, max_tokens }: Params, thinking: Thinking): Record<string, unknown> | undefined {
  if (!reasoning || thinking.in === 'nothing') return undefined
  const depth = thinking.in === 'levels' ? levelOf(reasoning, max_tokens, thinking.levels) : tokensOf(reasoning, max_tokens, thinking)
  // Summaries that nobody is shown need not be written.
  const shown = reasoning.exclude || isOff(reasoning) ? {} : { includeThoughts: true }
  return { ...depth, ...shown }
}

const isOff = ({ effort, enabled }: Reasoning) => effort === 'none' || (enabled === false && effort === undefined)

const isUndecided = ({ effort, max_tokens, enabled }: Reasoning) => effort === undefined && max_tokens === undefined && enabled !== false

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

// The wished level, or the next higher one that there is, or the highest. Thinking in levels cannot be turned off.
function levelOf(reasoning: Reasoning, bound: number | undefined, levels: string[]): Record<string, unknown> {
  const effort = isUndecided(reasoning) ? undefined : effortOf(reasoning, bound)
  if (effort === undefined) return {}
  const thinkingLevel = levels.find(level => EFFORTS.indexOf(level) >= EFFORTS.indexOf(effort)) ?? levels.at(-1)
  return { thinkingLevel }
}

type InTokens = Extract<Thinking, { in: 'tokens' }>

function tokensOf(reasoning: Reasoning, bound: number | undefined, { off, least, most }: InTokens): Record<string, unknown> {
  const budget = isUndecided(reasoning) ? undefined : budgetOf(reasoning, bound ?? LONGEST_OUTPUT)
  if (budget === undefined) return {}
  return { thinkingBudget: budget === 0 ? off : Math.min(Math.max(budget, least), most) }
}
