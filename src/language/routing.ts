/** Where a call shall be sent. */

/** A way to be served other than the usual one, at another price (wire reference K.5). */
export const SERVICE_TIERS = ['priority', 'flex'] as const

export type ServiceTier = (typeof SERVICE_TIERS)[number]

/** The caller's preferences among providers and endpoints (wire reference C.3). */
export interface RoutingPreferences {
  /**
   * In `order`, `only` and `ignore` each name is a provider's slug, optionally followed by the
   * region, quantization or service tier of some of its endpoints: `vertex/europe`.
   */
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
  /** `none` sorts the endpoints of all models as one list; otherwise models are tried in turn. */
  partition?: 'model' | 'none'
  /** Tokens per second. */
  preferred_min_throughput?: Cutoffs
  /** Seconds. */
  preferred_max_latency?: Cutoffs
  /**
   * The gateway's own addition to the public fields: whether to try a second endpoint while the
   * first is slow, and after how many milliseconds. Null means once the first endpoint takes longer
   * than it usually does.
   */
  hedge?: false | { after_ms: number | null }
  /** The workspace's sort, used if neither the call nor the model's variant names one. */
  defaultSort?: SortKey
}

/** Tiers that hold a fifth of the models each, cheapest first. */
export const COST_TIERS = ['low', 'medium', 'high', 'xhigh', 'max'] as const

export type CostTier = (typeof COST_TIERS)[number]

/** How the auto router shall choose (wire reference C.4). */
export interface RouterOptions {
  /** Lower-case slug patterns in which `*` matches anything. `excluded` overrules `allowed`. */
  allowed?: string[]
  excluded?: string[]
  tier?: CostTier
  /** From 0 for the best quality at any cost, to 10 for the lowest cost. */
  tradeoff?: number
  /** Whether the model that gave the last answer shall give the next one. */
  pinned?: boolean
}

/** The criterion by which endpoints are sorted. */
export type SortKey = 'price' | 'throughput' | 'latency' | 'exacto'

export const PERCENTILES = ['p50', 'p75', 'p90', 'p99'] as const

type Percentile = (typeof PERCENTILES)[number]

/** A number for each percentile. */
export type Percentiles = Record<Percentile, number>

/** The values required at percentiles. All of them must be met. */
export type Cutoffs = Partial<Record<Percentile, number>>

/** The routers: model names that stand for a choice made for each call (wire reference K.4). */
export const ROUTERS = [
  ...(['auto', 'auto-beta', 'free', 'pareto-code', 'switchyard'] as const),
  ...(['fusion', 'bodybuilder'] as const),
] as const

export type Router = (typeof ROUTERS)[number]

/** A router that ranks models by what the call is for. */
export type AutoRouter = 'auto' | 'auto-beta'

/**
 * Finds the router that a slug names: `author/router`, where the author is any of the service's
 * names. A catalogue model of the same slug takes precedence over the router.
 */
export function findRouter(
  { service_name }: { service_name: string },
  slug: string,
): Router | undefined {
  const slash = slug.indexOf('/')
  const author = slug.slice(0, slash)
  const isOurs = author === service_name || SERVICE_NAMES.includes(author)
  if (!isOurs) return undefined
  const name = slug.slice(slash + 1)
  return ROUTERS.find(router => router === name)
}

/** Names that contain the service's name are accepted in both forms. */
const SERVICE_NAMES = ['gateway', 'openrouter']
