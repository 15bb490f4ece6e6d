import type { Endpoint } from '../../catalog/models.ts'
import { defined, type Json, own } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { capabilitiesOf } from '../anthropic-messages/capabilities.data.ts'
import { samplingOf, thinkingOf } from '../anthropic-messages/thinking.ts'
import type { Conversation } from '../conversation.ts'
import { effortOf } from '../reasoning.ts'
import { BETAS } from './betas.data.ts'
import type { Family } from './families.data.ts'
import { familyOf, named } from './families.ts'

/** How the answer shall be made: what Converse has words for, and what goes to the model as it is. */
export interface Inference {
  /** `inferenceConfig`. */
  config: Json
  /** `additionalModelRequestFields`. */
  fields: Json
}

/** The wishes of the call as this model takes them. `isBarred` says that something else in the request forbids it to think. */
export function inferenceOf(call: TextCall, endpoint: Endpoint, conversation: Conversation, isBarred: boolean): Inference {
  const family = familyOf(endpoint)
  const { config, fields } = family.thinking === 'claude' ? ofClaude(call, named(endpoint), conversation, isBarred) : ofOthers(call, family)
  // White space alone is refused.
  const stops = call.params.stop?.filter(sequence => sequence.trim() !== '') ?? []
  if (stops.length > 0) config.stopSequences = stops
  for (const name of family.refuses) delete config[name]
  return { config, fields }
}

function ofClaude(call: TextCall, endpoint: Endpoint, conversation: Conversation, isBarred: boolean): Inference {
  const thinking = thinkingOf(call, endpoint, conversation, isBarred)
  const { temperature, top_p, ...fields } = samplingOf(call.params, capabilitiesOf(endpoint), thinking)
  const betas = call.betas.filter(beta => BETAS.has(beta))
  // Left out, the bound is the model's own. A budget must be less than it, so then it is told.
  const isBounded = call.params.max_tokens !== undefined || thinking.thinking?.budget_tokens !== undefined
  if (thinking.thinking) fields.thinking = thinking.thinking
  if (thinking.effort !== undefined) fields.output_config = { effort: thinking.effort }
  if (betas.length > 0) fields.anthropic_beta = betas
  return { config: defined({ maxTokens: isBounded ? thinking.max_tokens : undefined, temperature, topP: top_p }), fields }
}

function ofOthers({ params }: TextCall, family: Family): Inference {
  const { max_tokens, temperature, top_p, top_k, reasoning } = params
  const hot = temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), family.hottest)
  const config = defined({ maxTokens: max_tokens, temperature: hot, topP: top_p })
  const fields = top_k === undefined || family.top_k === null ? {} : nested(family.top_k, top_k)
  const effort = reasoning && effortOf(reasoning, max_tokens)
  return effort === undefined ? { config, fields } : WISHES[family.thinking](effort, { config, fields })
}

type Wish = (effort: string, inference: Inference) => Inference

/** How each family but Claude is asked to think, or not to. */
const WISHES: Record<Family['thinking'], Wish> = {
  claude: (_, inference) => inference,
  none: (_, inference) => inference,
  nova: thoughtful,
  // It cannot do without.
  reasoning_effort: (effort, { config, fields }) => ({ config, fields: { ...fields, reasoning_effort: level(effort) } }),
  reasoning: (effort, { config, fields }) => ({ config, fields: { ...fields, reasoning: { effort } } }),
}

// At its highest effort Nova decides all this by itself, and refuses to be told (Nova 2 user guide, "Extended thinking").
function thoughtful(effort: string, { config, fields }: Inference): Inference {
  if (effort === 'none') return { config, fields: { ...fields, reasoningConfig: { type: 'disabled' } } }
  const maxReasoningEffort = level(effort)
  const { maxTokens: _, temperature: __, topP: ___, ...rest } = config
  return {
    config: maxReasoningEffort === 'high' ? rest : config,
    fields: { ...fields, reasoningConfig: { type: 'enabled', maxReasoningEffort } },
  }
}

const LEVELS: Record<string, string> = { none: 'low', minimal: 'low', low: 'low', medium: 'medium' }

/** The effort of three that stands for this one. */
const level = (effort: string): string => own(LEVELS, effort) ?? 'high'

const nested = (path: string[], value: unknown): Json => path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Json
