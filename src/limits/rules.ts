import type { Catalog, Endpoint } from '../resources/models/catalog.ts'
import { sumPrices } from '../resources/prices.ts'
import { findProviderSlugs } from '../resources/providers/names.ts'
import type { Provider } from '../resources/providers/provider.ts'
import type { Guardrail } from './guardrails/store.ts'
import type { PolicyWorld, Rule } from './policy-world.ts'
import { isRetainedInGroup, ZDR_GROUPS } from './zdr.ts'

/** Somebody who is sent what a call says and does not serve it: a judge, a search engine. */
export interface Service {
  /** How messages name it. */
  name: string
  /** The slug of its provider. */
  provider: string
  /** The provider's own name for its model. */
  model: string
  /** What was agreed with its provider; its public policy where that is silent. */
  data_policy?: { training?: boolean; retention_days?: number } | undefined
  /** Whether asking it is no call of a provider: a site, or an MCP server. */
  isNoProvider?: true
}

/**
 * Returns the rules of a guardrail. An endpoint may be used if no rule excludes it, so the
 * strictest of several guardrails wins: their allowlists intersect and their ignore lists unite
 * (wire reference H.4). Built once for a guardrail and a catalogue: a changed one is another
 * object.
 */
export function getRules(world: PolicyWorld, guardrail: Guardrail): Rule[] {
  const cached = rulesCache.get(guardrail)
  if (cached?.catalog === world.catalog) return cached.rules
  const rules = [
    ...buildListRules(world, guardrail),
    ...buildZdrRules(guardrail),
    ...buildTrainingRules(guardrail),
  ]
  rulesCache.set(guardrail, { catalog: world.catalog, rules })
  return rules
}

/** Returns whether rules leave a provider, whatever the model. */
export const allowsProvider = (rules: Rule[], provider: Provider): boolean =>
  rules.every(
    ({ field, excludes }) => !OF_PROVIDERS.includes(field) || !excludes({ provider } as Endpoint),
  )

/** The fields whose rules look at an endpoint’s provider alone. */
const OF_PROVIDERS: (keyof Guardrail)[] = ['allowed_providers', 'ignored_providers']

const rulesCache = new WeakMap<Guardrail, { catalog: Catalog; rules: Rule[] }>()

/** Our own value: the public list has one for providers, and uses it for models too. */
const ALLOWED_MODELS = 'allowed_models'

const ALLOWED_PROVIDERS = 'allowed_providers'

function* buildListRules(
  world: PolicyWorld,
  { id: guardrail_id, ...guardrail }: Guardrail,
): Iterable<Rule> {
  const buildRule = (
    field: keyof Guardrail,
    excludedBy: string,
    excludes: Rule['excludes'],
  ): Rule => ({
    guardrail_id,
    field,
    excludedBy,
    excludes,
  })
  const { allowed_models, ignored_models, allowed_providers, ignored_providers } = guardrail
  if (allowed_models) {
    const slugs = toModelSlugs(world, allowed_models)
    yield buildRule('allowed_models', ALLOWED_MODELS, ({ model }) => !slugs.has(model))
  }
  if (ignored_models) {
    const slugs = toModelSlugs(world, ignored_models)
    yield buildRule(
      'ignored_models',
      ALLOWED_MODELS,
      ({ model }) => slugs.has(model) || slugs.has(removeVariant(model)),
    )
  }
  if (allowed_providers) {
    const slugs = toProviderSlugs(world, allowed_providers)
    yield buildRule(
      'allowed_providers',
      ALLOWED_PROVIDERS,
      ({ provider }) => !slugs.has(provider.slug),
    )
  }
  if (ignored_providers) {
    const slugs = toProviderSlugs(world, ignored_providers)
    yield buildRule('ignored_providers', ALLOWED_PROVIDERS, ({ provider }) =>
      slugs.has(provider.slug),
    )
  }
}

// A model may have a new slug since it was listed, and is still found by the old one.
const toModelSlugs = ({ catalog }: PolicyWorld, slugs: string[]) =>
  new Set(slugs.map(slug => catalog.models.get(slug)?.id ?? slug))

const toProviderSlugs = ({ catalog }: PolicyWorld, names: string[]) =>
  new Set(names.flatMap(name => findProviderSlugs(catalog.providers.values(), name)))

// Ignoring a model ignores its variants; allowing one allows only what is named.
const removeVariant = (slug: string): string => slug.replace(/:[^:]*$/, '')

const buildZdrRules = (guardrail: Guardrail): Rule[] =>
  ZDR_GROUPS.filter(({ field }) => guardrail[field]).map(group => ({
    guardrail_id: guardrail.id,
    field: group.field,
    excludedBy: 'data_policy:zdr',
    excludes: endpoint => isRetainedInGroup(group, endpoint),
  }))

/**
 * The fields that forbid something when `false`. An endpoint without a known price may be either
 * free or paid. A provider that trains on prompts counts as one that publishes them: the catalogue
 * has no more detail.
 */
const TRAINING = [
  { field: 'enable_free_model_training', matches: mayBeFree },
  { field: 'enable_free_model_publication', matches: mayBeFree },
  { field: 'enable_paid_model_training', matches: mayBePaid },
] as const

const buildTrainingRules = (guardrail: Guardrail): Rule[] =>
  TRAINING.filter(({ field }) => guardrail[field] === false).map(({ field, matches }) => ({
    guardrail_id: guardrail.id,
    field,
    excludedBy: 'data_policy:training',
    excludes: endpoint => endpoint.data_policy.training && matches(endpoint),
  }))

function mayBeFree({ prices }: Endpoint): boolean {
  return prices === null || (sumPrices(prices) === 0n && (prices.request ?? 0n) === 0n)
}

function mayBePaid(endpoint: Endpoint): boolean {
  return endpoint.prices === null || !mayBeFree(endpoint)
}
