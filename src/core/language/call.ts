/** What is asked, in no client's dialect and no provider's protocol. */

import type { TextDialect } from './dialect.ts'
import type { Block, Turn } from './message.ts'
import type { Params } from './params.ts'
import type { Region } from './region.ts'
import type { RoutingPreferences } from './routing.ts'
import type { Tool } from './tool.ts'

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
  /** What plugins are asked for, by their ids; null for one that is switched off. */
  plugins?: Record<string, unknown>
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
  dialect: TextDialect
  turns: Turn[]
  tools: Tool[]
  params: Params
  /** Parameters that we do not know by name. They travel as they came. */
  extra: Record<string, unknown>
  /** Features of Anthropic's API that the client asked for by header. */
  betas: string[]
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
