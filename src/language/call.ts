import type { TraceContext } from '../base/traceparent.ts'
import type { TextDialect } from './dialect.ts'
import type { Message } from './message.ts'
import type { Params } from './params.ts'
import type { RoutingPreferences } from './routing.ts'
import type { ServerTools } from './server-tools.ts'
import type { StandIns, Tool } from './tool.ts'

/** A request in the gateway's own terms, independent of client dialects and provider protocols. */

/** The fields that calls of every kind have. */
export interface CallBase {
  /** The id of the generation that records this call. */
  id: string
  /** The models to try, in order of preference. */
  models: string[]
  stream: boolean
  routing: RoutingPreferences
  user: string | null
  /** The end user as the client named them: destinations are told, providers never. */
  endUser?: string
  session_id: string | null
  trace: Record<string, unknown> | null
  /** Set where its answer is held until its end, although it is streamed: to tell or keep it whole. */
  isGathered?: true
  /** The options of the requested plugins, by plugin id; null for one that is switched off. */
  plugins?: Record<string, unknown>
  /** The preset whose settings the call inherits. */
  preset_id: string | null
  /** Whether the caller wants to see the bodies sent upstream. */
  echoUpstreamBody: boolean
  /** Absent if the caller did not ask how the call was routed. */
  routingMetadata?: RoutingMetadataRequest
  origin: Origin
}

/** A caller's request to be shown how the call was routed. */
interface RoutingMetadataRequest {
  /** The name of the response field that holds the metadata: `gateway_metadata`. */
  field: string
  /** The model as the caller named it, before presets and routers. */
  requestedModel: string
}

/** Where a call came from, according to its headers. */
export interface Origin {
  request_id: string
  http_referer: string | null
  title: string | null
  user_agent: string | null
  /** The region of the hostname that the request was sent to. */
  region: Region
  /** The trace that the request is part of, by its header; null if it names none. */
  traceContext: TraceContext | null
  /** How many gateways it has come through already; absent for none. */
  hops?: number
  /** The tags of its header, comma-separated; absent for none. */
  tags?: string
  /** The batch that it is a line of; absent for a request of its own. */
  batch_id?: string
}

export interface TextCall extends CallBase {
  kind: 'text'
  /**
   * The client's dialect. Content that the gateway has no type for is meaningful to providers that
   * speak the same dialect.
   */
  dialect: TextDialect
  /** Set where no model is asked: a client calls a tool itself, as MCP hosts do. */
  isToolCall?: true
  messages: Message[]
  tools: Tool[]
  /** The functions that stand in for tools of it at other providers; absent if all are functions. */
  standIns?: StandIns
  /** The tools that the gateway runs itself, and their end. Absent if the call says nothing of them. */
  serverTools?: ServerTools
  params: Params
  /** Parameters that the gateway does not know. They are forwarded unchanged. */
  extra: Record<string, unknown>
  /** Features of Anthropic's API that the client requested, mostly by header. */
  betas: string[]
  /** What the client said that no call says: it is told that it was ignored. */
  leftOut?: string[]
  /** What the endpoint must support. Other endpoints would ignore the request for it. */
  requiredCapabilities?: Capability[]
}

/** A feature that only some endpoints support and that a call may insist on. */
export type Capability = 'reasoning' | 'web_search'

/** How to search the web, under the field names of `web_search_options`. */
export interface WebSearch {
  max_uses?: number
  allowed_domains?: string[]
  excluded_domains?: string[]
  user_location?: Record<string, unknown>
  /** What a search of X is limited to; absent if X is not searched. */
  x_search?: Record<string, unknown>
}

/** The regions of incoming hostnames that guardrails distinguish (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]
