import type { Endpoint } from '../catalog/models.ts'
import type { TextCall } from '../language/call.ts'
import type { Params } from '../language/params.ts'
import type { Tool } from '../language/tool.ts'

/** Under which of the public parameter names each of ours is supported. What is not listed here is always forwarded. */
const NAMES: Partial<Record<keyof Params | 'tools', string[]>> = {
  temperature: ['temperature'],
  top_p: ['top_p'],
  top_k: ['top_k'],
  min_p: ['min_p'],
  top_a: ['top_a'],
  frequency_penalty: ['frequency_penalty'],
  presence_penalty: ['presence_penalty'],
  repetition_penalty: ['repetition_penalty'],
  max_tokens: ['max_tokens', 'max_completion_tokens'],
  seed: ['seed'],
  stop: ['stop'],
  logit_bias: ['logit_bias'],
  logprobs: ['logprobs'],
  top_logprobs: ['top_logprobs'],
  prediction: ['prediction'],
  response_format: ['response_format', 'structured_outputs'],
  tools: ['tools'],
  tool_choice: ['tool_choice', 'tools'],
  parallel_tool_calls: ['parallel_tool_calls', 'tools'],
  reasoning: ['reasoning', 'reasoning_effort', 'include_reasoning'],
  verbosity: ['verbosity'],
  web_search_options: ['web_search_options'],
}

/** The call without the parameters that the endpoint does not support: they are ignored, the rest are forwarded (specification, rule 5). */
export function fitted(call: TextCall, endpoint: Endpoint): TextCall {
  const unsupported = unsupportedBy(endpoint, call)
  if (unsupported.length === 0) return call
  const params = Object.fromEntries(Object.entries(call.params).filter(([name]) => !unsupported.includes(name)))
  const tools: Tool[] = unsupported.includes('tools') ? [] : call.tools
  return { ...call, params, tools }
}

/** The parameters of the call that the endpoint does not support. */
export function unsupportedBy({ supported_parameters: supported }: Endpoint, call: Pick<TextCall, 'params' | 'tools'>): string[] {
  if (!supported) return []
  const sent = Object.keys(call.params) as (keyof Params | 'tools')[]
  if (call.tools.length > 0) sent.push('tools')
  return sent.filter(name => NAMES[name]?.every(publicName => !supported.has(publicName)))
}
