import { invalid } from '../../errors.ts'
import type { Json } from '../../kernel/json.ts'
import type { PresetVersion } from './store.ts'

/**
 * What a preset may hold of a request, by the chat API's names: what says how to answer. What is
 * asked (`messages`, `prompt`), how it is sent (`stream`) and for whom it is (`user`, `session_id`,
 * `trace`, `metadata`, `debug`) belongs to one call and is not kept; neither is what nobody knows,
 * or a preset would send a provider what no request can take back.
 */
const CONFIG_KEYS = [
  ...['model', 'models', 'route', 'provider', 'plugins'],
  ...[
    'max_tokens',
    'max_completion_tokens',
    'temperature',
    'top_p',
    'top_k',
    'min_p',
    'top_a',
    'seed',
    'stop',
  ],
  ...[
    'frequency_penalty',
    'presence_penalty',
    'repetition_penalty',
    'logit_bias',
    'logprobs',
    'top_logprobs',
  ],
  ...[
    'response_format',
    'prediction',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'web_search_options',
  ],
  ...[
    'reasoning',
    'reasoning_effort',
    'include_reasoning',
    'verbosity',
    'modalities',
    'audio',
    'image_config',
    'service_tier',
  ],
  ...[
    'cache_control',
    'prompt_cache_key',
    'prompt_cache_options',
    'cache_enabled',
    'cache_ttl_seconds',
  ],
]

/** What of a body in the chat API's words a preset keeps. Null is absence. */
export const configOf = (body: Json): Json =>
  Object.fromEntries(CONFIG_KEYS.filter(key => body[key] != null).map(key => [key, body[key]]))

/** What a preset is made of, whichever dialect it was asked for in. */
export type Draft = Pick<PresetVersion, 'system_prompt' | 'config'>

/** Bytes of a version, system prompt and config together. It is in memory as long as it is used. */
const LARGEST = 256 * 1024

/** Throws 400 for a draft that is too large to be kept. */
export function checkSize({ system_prompt, config }: Draft): void {
  const size = Buffer.byteLength(system_prompt ?? '') + Buffer.byteLength(JSON.stringify(config))
  if (size > LARGEST) throw invalid(`body: expected at most ${LARGEST} bytes to keep`)
}
