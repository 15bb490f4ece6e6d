import type { TextDialect } from '../../language/dialect'
import type { Percentiles, Router, ServiceTier } from '../../language/routing'
import type { Prices } from '../prices'
import type { Provider } from '../providers/provider'
import type { BuiltInModels } from './built-in'

/** A rule that keeps calls away from endpoints. */
export interface EndpointRule {
  excludes(endpoint: Endpoint): boolean
}

/** One model at one provider, to which a call is sent. */
export interface Endpoint {
  /**
   * Unique, and stable whenever the catalogue or callers' keys are read again. What is measured of
   * the endpoint is stored by it.
   */
  id: string
  provider: Provider
  /** The protocol: the provider's own, unless this model or the call's dialect has another. */
  protocol: string
  /** The address before that protocol's path, where it is not the provider's. */
  base_url?: string
  /** Our slug of the model. */
  model: string
  /** The provider's own name for it. */
  upstreamModel: string
  /** What the model outputs: `text`, `embeddings`, … */
  output_modalities: string[]
  prices: Prices | null
  context_length: number | null
  max_completion_tokens: number | null
  /** Null means all. */
  supported_parameters: Set<string> | null
  data_policy: { training: boolean; retention_days: number | null }
  region: string | null
  quantization: string
  /** The tier that its provider is asked for; null for the usual one. */
  service_tier: ServiceTier | null
  /**
   * The prices of its provider's tiers, by the names under which answers report them; null where the
   * model lists no tier of it.
   */
  tier_prices: Record<string, Prices | null> | null
  /** Whether the model's author is known to allow training other models on its texts. */
  distillable: boolean
  /** Whether it uses a caller's own credential instead of the gateway's. */
  is_byok: boolean
}

/** A model: what can be called under one slug. */
export interface Model {
  id: string
  name: string
  description: string
  /** The time of its release in Unix seconds. Null where it is not known. */
  created: number | null
  context_length: number | null
  input_modalities: string[]
  /** What it is known not to accept. Anything else that is not listed above is not known. */
  refused_modalities: string[]
  output_modalities: string[]
  /** Null unless it is known to reason. */
  reasoning: { mandatory: boolean; supported_efforts?: string[] } | null
  endpoints: Endpoint[]
  /**
   * The endpoints as they speak with calls of a dialect, where a provider speaks its protocol too.
   */
  spoken?: Partial<Record<TextDialect, Endpoint[]>>
  /** Set for a router, which is a choice among models and no model itself. */
  router?: Router
  /**
   * Set for a name that no list has: it matches a pattern of the config, or its provider may be
   * asked for names that the catalogue does not know. What such a model does is not known.
   */
  unlisted?: 'pattern' | 'passed'
  /** The slug of the model that a preset names; set for presets, which are listed like models. */
  target?: string
}

/**
 * The models by slug. `get` and `has` know aliases too, the plain names that mean one model only,
 * and names that are not listed but can be called; `values` and `size` do not count them.
 */
export interface Models {
  get(slug: string): Model | undefined
  has(slug: string): boolean
  values(): Iterable<Model>
  /** Yields the models that this provider may serve. Opens no others. */
  listServedBy(provider: string): Iterable<Model>
  readonly size: number
  /** Lists the slugs of the models that a name without an author may mean: `gpt-4o-mini`. */
  listMeant(name: string): string[]
  /** Lists the slugs that an unknown one may be a misspelling of, the nearest first. */
  listNearest(slug: string): string[]
}

/** The known models and providers. A model can be called if a configured provider serves it. */
export interface Catalog {
  models: Models
  providers: Map<string, Provider>
  /**
   * The time at which the first catalogue was opened. It is the age of models that only the config
   * knows.
   */
  since: Date
  /** The number of catalogues that this process has opened, this one included. */
  edition: number
  /** Returns the built-in catalogue. It is read once, on first use. */
  getBuiltIn: () => BuiltInModels
}

/**
 * The measurements of an endpoint in the public list's terms: milliseconds to the first token,
 * tokens per second, percent of calls.
 */
export interface EndpointStats {
  status: number
  uptime_last_5m: number | null
  uptime_last_30m: number | null
  uptime_last_1d: number | null
  latency_last_30m: Percentiles | null
  throughput_last_30m: Percentiles | null
}
