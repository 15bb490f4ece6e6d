import type { Json } from '../../base/json.ts'
import type { PresetVersion } from './store.ts'

/**
 * The fields of a request that a preset keeps, by the chat API's names: those that say how to
 * answer. What is asked (`messages`, `prompt`), how it is sent (`stream`) and who asks (`user`,
 * `session_id`, `trace`, `metadata`, `debug`) belongs to one call. Unknown fields are not kept
 * either: a preset would send a provider something that no request can take back.
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

/** Picks the fields of a chat body that a preset keeps. Null counts as absent. */
export const pickPresetConfig = (body: Json): Json =>
  Object.fromEntries(CONFIG_KEYS.filter(key => body[key] != null).map(key => [key, body[key]]))

/** The content of a preset, whichever dialect it was written in. */
export type PresetDraft = Pick<PresetVersion, 'system_prompt' | 'config'>
