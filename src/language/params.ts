/** The parameters of a call: how it shall be answered. */

import type { CacheControl } from './message.ts'
import type { ToolChoice } from './tool.ts'

/** The format that the answer must have. */
export type ResponseFormat =
  | { type: 'text' | 'json_object' }
  | {
      type: 'json_schema'
      json_schema: {
        name: string
        description?: string
        strict?: boolean | null
        schema?: Record<string, unknown>
      }
    }
  | { type: string }

/** The parameters of the specification's E9 and wire reference C.1, under their wire names. */
export interface Params {
  temperature?: number
  top_p?: number
  top_k?: number
  min_p?: number
  top_a?: number
  frequency_penalty?: number
  presence_penalty?: number
  repetition_penalty?: number
  max_tokens?: number
  seed?: number
  stop?: string[]
  logit_bias?: Record<string, number>
  logprobs?: boolean
  top_logprobs?: number
  prediction?: unknown
  response_format?: ResponseFormat
  tool_choice?: ToolChoice
  parallel_tool_calls?: boolean
  reasoning?: Reasoning
  verbosity?: string
  modalities?: string[]
  audio?: unknown
  image_config?: unknown
  service_tier?: string
  web_search_options?: unknown
  prompt_cache_key?: string
  prompt_cache_options?: unknown
  /** Caches the whole conversation. The provider chooses where the cached prefix ends. */
  cache_control?: CacheControl
}

export interface Reasoning {
  effort?: string
  max_tokens?: number
  enabled?: boolean
  exclude?: boolean
  summary?: string
}
