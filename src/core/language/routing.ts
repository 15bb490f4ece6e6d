/** Where a call is to go. */

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

/** A number at each of them. */
export type Percentiles = Record<Percentile, number>

/** What is wanted at these percentiles; all of it. */
export type Cutoffs = Partial<Record<Percentile, number>>

/** What a name may stand for that is no model: a choice among models, made for each call (wire reference K.4). */
export const ROUTERS = ['auto', 'auto-beta', 'free'] as const

export type Router = (typeof ROUTERS)[number]

/** One that heeds what it is told of how to choose. */
export type AutoRouter = Exclude<Router, 'free'>

/** Which choice a slug asks for: a router's name, whose author is the service in any of its names. A model of the catalogue goes before. */
export function routerCalled(
  { service_name }: { service_name: string },
  slug: string,
): Router | undefined {
  const at = slug.indexOf('/')
  const author = slug.slice(0, at)
  const isOurs = author === service_name || SERVICES.includes(author)
  return isOurs ? ROUTERS.find(router => router === slug.slice(at + 1)) : undefined
}

/** A name that carries the service's name may be said in both forms. */
const SERVICES = ['gateway', 'openrouter']
