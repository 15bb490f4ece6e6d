/** The neutral language between clients' dialects and providers' protocols: what is asked (a call) and what comes back (parts). */

import type { AutoRouter } from '../catalog/routers.ts'
import type { GatewayError } from '../errors.ts'
import type { Region } from '../policy/regions.ts'

/** The kinds of work. A new kind of work is one line here. */
export interface Work {
  text: { call: TextCall; part: TextPart }
  embedding: { call: EmbeddingCall; part: EmbeddingPart }
}
export type Kind = keyof Work

/** What every call has, whatever its kind. */
export interface CallBase {
  /** The id of the generation this call becomes. */
  id: string
  /** The models to try, the wanted one first. */
  models: string[]
  stream: boolean
  routing: RoutingPreferences
  user: string | null
  session_id: string | null
  trace: Record<string, unknown> | null
  /** The preset that was laid under it. */
  preset_id: string | null
  /** Whether the caller asked to see the bodies sent upstream. */
  echoUpstreamBody: boolean
  /** Absent where the caller did not ask how it was routed. */
  routingMetadata?: MetadataWish
  origin: Origin
}

/** What a caller who asks how his call was routed is answered with. */
export interface MetadataWish {
  /** The member that holds it: `gateway_metadata`. */
  name: string
  /** The model as he asked for it, before presets and routers. */
  requested: string
}

/** Where a call came from, as its headers tell. */
export interface Origin {
  request_id: string
  http_referer: string | null
  title: string | null
  user_agent: string | null
  /** By which way into the gateway it came. */
  region: Region
}

export interface TextCall extends CallBase {
  kind: 'text'
  /** How the client speaks: what it sends that we have no word for means something to providers of the same speech. */
  dialect: Dialect
  turns: Turn[]
  tools: Tool[]
  params: Params
  /** Parameters that we do not know by name. They travel as they came. */
  extra: Record<string, unknown>
  /** Features of Anthropic's API that the client asked for by header. */
  betas: string[]
  /** What the `web` plugin asks for; null where it is switched off. */
  webSearch?: WebSearch | null
  /** What the endpoint must be able to do: elsewhere it would be ignored. */
  needs?: Ability[]
}

/** What not every endpoint can do, and some calls are not worth making without. */
export type Ability = 'reasoning' | 'web_search'

/** How the web shall be searched, in the words of `web_search_options`. */
export interface WebSearch {
  max_uses?: number
  allowed_domains?: string[]
  excluded_domains?: string[]
  user_location?: Record<string, unknown>
}

/** Things to be made into vectors, one for each of them. */
export interface EmbeddingCall extends CallBase {
  kind: 'embedding'
  inputs: EmbeddingInput[]
  params: EmbeddingParams
  /** Parameters that we do not know by name. They travel as they came. */
  extra: Record<string, unknown>
}

export type EmbeddingInput =
  | { type: 'text'; text: string }
  /** A text as the model's own tokens. */
  | { type: 'tokens'; tokens: number[] }
  /** Texts, pictures and the like that make one vector together. */
  | { type: 'content'; blocks: Block[] }

/** The parameters of wire reference B.3, under their wire names. */
export interface EmbeddingParams {
  dimensions?: number
  /** What the vectors are for: `search_query`, `search_document`, or a provider's own word. */
  input_type?: string
  encoding_format?: 'float' | 'base64'
}

/** The clients' ways of speaking. */
export type Dialect = 'chat' | 'messages' | 'responses'

export type Role = 'system' | 'developer' | 'user' | 'assistant' | 'tool'

/** One message of the conversation. `extra` holds the fields we do not know. */
export interface Turn {
  role: Role
  blocks: Block[]
  name?: string
  /** Which call a tool's turn answers. */
  tool_call_id?: string
  /** Which model said it, as the client tells. */
  model?: string
  /** The tool failed, and its blocks say how. */
  is_error?: boolean
  /** Marks the end of a tool's whole answer. */
  cache_control?: CacheControl
  extra?: Record<string, unknown>
}

/** "Remember the conversation up to here", for the providers that are told. */
export interface CacheControl {
  type: 'ephemeral'
  ttl?: '5m' | '1h'
}

export type Block =
  | { type: 'text'; text: string; cache_control?: CacheControl; extra?: Record<string, unknown> }
  /** A picture, by http(s) or data URL. */
  | { type: 'image'; url: string; detail?: string; cache_control?: CacheControl; extra?: Record<string, unknown> }
  /** Sound in base64; `format` as the chat API names it: `wav`, `mp3`. */
  | { type: 'audio'; data: string; format: string }
  | { type: 'video'; url: string; extra?: Record<string, unknown> }
  /** A document: `file_data` is an http(s) or data URL, `file_id` a file that the provider knows. */
  | {
      type: 'file'
      file: { filename?: string; file_data?: string; file_id?: string }
      citations?: boolean
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
  /** `input` is the raw JSON text of the arguments. */
  | { type: 'tool-call'; id: string; name: string; input: string; cache_control?: CacheControl; extra?: Record<string, unknown> }
  | { type: 'reasoning'; text: string | null; details: ReasoningDetail[] | null }
  | { type: 'refusal'; text: string }
  /** A kind of content we have no word for, exactly as the client of this dialect sent it. */
  | { type: 'other'; dialect: Dialect; value: unknown }

/** A tool that the model may call, or a kind of tool we have no word for, exactly as the client of this dialect sent it. */
export type Tool =
  | {
      type: 'function'
      name: string
      description?: string
      parameters?: unknown
      strict?: boolean | null
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
  | { type: 'other'; dialect: Dialect; value: unknown }

/** What the model may or must do with its tools. `function` names the one that it must call. */
export type ToolChoice = 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } } | { type: string }

/** The form the answer must have. */
export type ResponseFormat =
  | { type: 'text' | 'json_object' }
  | { type: 'json_schema'; json_schema: { name: string; description?: string; strict?: boolean | null; schema?: Record<string, unknown> } }
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
  /** Marks the whole conversation: the provider's own choice of the place. */
  cache_control?: CacheControl
}

export interface Reasoning {
  effort?: string
  max_tokens?: number
  enabled?: boolean
  exclude?: boolean
  summary?: string
}

/** The caller's wishes about who answers (wire reference C.3). */
export interface RoutingPreferences {
  /** Of these three each name is a provider's slug, or that with the region or quantization of some of his endpoints: `vertex/europe`. */
  order?: string[]
  only?: string[]
  ignore?: string[]
  allow_fallbacks?: boolean
  require_parameters?: boolean
  data_collection?: 'allow' | 'deny'
  zdr?: boolean
  enforce_distillable_text?: boolean
  quantizations?: string[]
  max_price?: Partial<Record<'prompt' | 'completion' | 'request' | 'image' | 'audio', number>>
  sort?: SortKey
  /** `none` sorts the endpoints of all models as one list; else one model is tried after the other. */
  partition?: 'model' | 'none'
  /** Tokens per second. */
  preferred_min_throughput?: Cutoffs
  /** Seconds. */
  preferred_max_latency?: Cutoffs
  /**
   * Ours, beside the public ones: whether a second endpoint is asked where the first is slow, and after how long, if not when it usually
   * answers.
   */
  hedge?: false | { after_ms: number | null }
  /** The workspace's own sort, where neither the call nor the model's variant says otherwise. */
  usualSort?: SortKey
  /** How routers choose, where the call says so; each reads its own. */
  routers?: Partial<Record<AutoRouter, RouterWishes>>
}

/** Bands of a fifth of the models each, the cheapest first. */
export const COST_TIERS = ['low', 'medium', 'high', 'xhigh', 'max'] as const
export type CostTier = (typeof COST_TIERS)[number]

/** How the auto router is to choose (wire reference C.4). */
export interface RouterWishes {
  /** Patterns of slugs in small letters, in which `*` is anything. What is excluded is so even where it is allowed. */
  allowed?: string[]
  excluded?: string[]
  tier?: CostTier
  /** From 0, which may cost most, to 10, which may cost least. */
  tradeoff?: number
  /** The model that gave the last answer shall give the next. */
  pinned?: boolean
}

/** What endpoints are sorted by. */
export type SortKey = 'price' | 'throughput' | 'latency' | 'exacto'

export const PERCENTILES = ['p50', 'p75', 'p90', 'p99'] as const
export type Percentile = (typeof PERCENTILES)[number]

/** What is wanted at these percentiles; all of it. */
export type Cutoffs = Partial<Record<Percentile, number>>

export const FINISH_REASONS = ['tool_calls', 'stop', 'length', 'content_filter', 'error'] as const
export type FinishReason = (typeof FINISH_REASONS)[number]

/**
 * Pieces of an answer. `choice` counts the alternatives of one answer, from 0. Where a provider cuts what it says into blocks,
 * `block` counts them, so that a dialect which cuts too can cut in the same places.
 */
export type TextPart =
  | Start
  | { type: 'text-delta'; choice: number; text: string; logprobs?: Logprobs; block?: number }
  | { type: 'refusal-delta'; choice: number; text: string; logprobs?: Logprobs }
  /** Thinking, as words to show and as the structured entries to send back. A provider may give either, or both at once. */
  | { type: 'reasoning-delta'; choice: number; text: string; details: ReasoningDetail[] }
  /** `extra` is what the provider tells of the call besides, by its own names. */
  | { type: 'tool-call-start'; choice: number; index: number; id: string; name: string; extra?: Record<string, unknown> }
  | { type: 'tool-call-delta'; choice: number; index: number; input: string }
  | { type: 'image'; choice: number; url: string }
  | { type: 'audio-delta'; choice: number; audio: AudioDelta }
  /**
   * A source, as the chat API shows it; `citation` as Anthropic's does, where the provider gave that. Null where one has no form
   * for it. `block` is the text that it stands behind.
   */
  | { type: 'annotation'; choice: number; annotation: unknown; citation?: unknown; block?: number }
  /** A piece that only clients of this dialect have a word for, whole: a search that the provider ran, and what it found. */
  | { type: 'other'; choice: number; dialect: Dialect; value: unknown }
  /** `sequence` is the stop sequence that was met, where the provider tells; `extra` what it tells of the answer besides, by its own names. */
  | {
      type: 'finish'
      choice: number
      reason: FinishReason
      native: string | null
      sequence?: string | null
      extra?: Record<string, unknown>
    }
  | CommonPart

/** Pieces of an answer in vectors. `index` says which input it is the vector of. */
export type EmbeddingPart = Start | { type: 'embedding'; index: number; vector: Vector } | CommonPart

/** Numbers, or 32-bit floats, the least byte first, in base64: as the provider gave them. */
export type Vector = number[] | string

/** A piece of an answer of this kind of work, or what every kind tells besides its content. */
export type AnswerPart<K extends Kind> = Work[K]['part'] | CommonPart

/** What every kind of work tells besides its content. */
export type CommonPart =
  /** What was sent to one provider, for a caller who asked to see it. */
  | { type: 'echo'; provider: string; model: string; body: unknown }
  /** The provider's own count. At most one, after everything it counts. */
  | { type: 'usage'; usage: Usage }
  /** The answer broke off here. What was given before stays given. */
  | { type: 'error'; error: GatewayError }
  | ReceiptPart

/** The last part: the call is settled and recorded. */
export interface ReceiptPart {
  type: 'receipt'
  receipt: Receipt
  /** What stands beside the answer's own members, for a caller who asked for it. */
  besides?: Record<string, unknown> | undefined
}

/** What the provider tells before it answers. Not yet a piece of the answer. */
export interface Start {
  type: 'start'
  upstream_id: string | null
  system_fingerprint: string | null
  service_tier: string | null
}

/** The logprobs of a piece of text, as the provider's OpenAI-shaped `{ content, refusal }`. */
export type Logprobs = { content: unknown[] | null; refusal?: unknown[] | null }

/** A `reasoning_details` entry. Opaque, kept byte for byte: signatures and encrypted data depend on it. */
export type ReasoningDetail = Record<string, unknown> & { type: string }

export interface AudioDelta {
  id?: string
  data?: string
  transcript?: string
  expires_at?: number
}

/** Token counts in disjoint classes: their sums are the totals (decisions.md, Money and time). */
export interface Usage {
  input: { text: number; cache_read: number; cache_write: number; cache_write_1h: number; audio: number; video: number }
  output: { text: number; reasoning: number; audio: number; image: number }
  prediction: { accepted: number; rejected: number } | null
  web_search_requests: number | null
  /** What is charged, where the provider does not charge what it counts. */
  billed?: Pick<Usage, 'input' | 'output'>
}

/** What one call came to. Money in nano-dollars; null where the endpoint has no price. */
export interface Receipt {
  usage: Usage
  usageSource: 'exact' | 'estimated' | 'none'
  /** What the gateway's own credential was charged: 0 with a caller's own, who pays his provider himself. */
  cost: bigint | null
  /** What the provider charges, whoever pays. */
  cost_details: { prompt: bigint; completion: bigint } | null
  is_byok: boolean
}

export const inputTokens = ({ input }: Usage): number =>
  input.text + input.cache_read + input.cache_write + input.cache_write_1h + input.audio + input.video
export const outputTokens = ({ output }: Usage): number => output.text + output.reasoning + output.audio + output.image

/** A count of text tokens only. */
export const textUsage = (prompt: number, completion: number): Usage => ({
  input: { text: prompt, cache_read: 0, cache_write: 0, cache_write_1h: 0, audio: 0, video: 0 },
  output: { text: completion, reasoning: 0, audio: 0, image: 0 },
  prediction: null,
  web_search_requests: null,
})

/**
 * The turns with each `name` moved into its text as `{name}: {content}`, for protocols that have no field for it
 * (specification E9). The turns handed in stay as they are: another endpoint may want the field.
 */
export const namesInText = (turns: Turn[]): Turn[] => turns.map(withoutName)

// A tool's turn names the tool, and its text is the tool's own: a prefix would break its JSON.
function withoutName(turn: Turn): Turn {
  if (turn.name === undefined) return turn
  const { name, ...rest } = turn
  return turn.role === 'tool' ? rest : nameInText(rest, name)
}

function nameInText(turn: Turn, name: string): Turn {
  const at = turn.blocks.findIndex(block => block.type === 'text')
  if (at === -1) return { ...turn, blocks: [{ type: 'text', text: `${name}:` }, ...turn.blocks] }
  return {
    ...turn,
    blocks: turn.blocks.map((block, i) => (i === at && block.type === 'text' ? { ...block, text: `${name}: ${block.text}` } : block)),
  }
}
