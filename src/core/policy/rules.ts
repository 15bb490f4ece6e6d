import type { Catalog, Endpoint, EndpointRule } from '../catalog/models.ts'
import { sumPrices } from '../catalog/prices.ts'
import { slugsOfCalled } from '../catalog/providers/called.ts'
import type { Guardrail } from './guardrails/store.ts'
import type { PolicyWorld } from './world.ts'
import { isRetained, ZDR_GROUPS } from './zdr.ts'

/** One field of a guardrail that excludes endpoints. */
export interface Rule extends EndpointRule {
  guardrail_id: string
  field: keyof Guardrail
  /** Its value in `error.availability.excluded_by` (wire reference L.3). */
  by: string
}

/**
 * Returns the rules of a guardrail. An endpoint may be used if no rule excludes it, so the
 * strictest of several guardrails wins: their allowlists intersect and their ignore lists unite
 * (wire reference H.4). Built once for a guardrail and a catalogue: a changed one is another
 * object.
 */
export function rulesOf(gateway: PolicyWorld, guardrail: Guardrail): Rule[] {
  const known = made.get(guardrail)
  if (known?.catalog === gateway.catalog) return known.rules
  const rules = [
    ...listRules(gateway, guardrail),
    ...zdrRules(guardrail),
    ...trainingRules(guardrail),
  ]
  made.set(guardrail, { catalog: gateway.catalog, rules })
  return rules
}

const made = new WeakMap<Guardrail, { catalog: Catalog; rules: Rule[] }>()

/** Our own value: the public list has one for providers, and uses it for models too. */
const ALLOWED_MODELS = 'allowed_models'
const ALLOWED_PROVIDERS = 'allowed_providers'

function* listRules(
  gateway: PolicyWorld,
  { id: guardrail_id, ...guardrail }: Guardrail,
): Iterable<Rule> {
  const rule = (field: keyof Guardrail, by: string, excludes: Rule['excludes']): Rule => ({
    guardrail_id,
    field,
    by,
    excludes,
  })
  const { allowed_models, ignored_models, allowed_providers, ignored_providers } = guardrail
  if (allowed_models) {
    const slugs = modelSlugs(gateway, allowed_models)
    yield rule('allowed_models', ALLOWED_MODELS, ({ model }) => !slugs.has(model))
  }
  if (ignored_models) {
    const slugs = modelSlugs(gateway, ignored_models)
    yield rule(
      'ignored_models',
      ALLOWED_MODELS,
      ({ model }) => slugs.has(model) || slugs.has(withoutVariant(model)),
    )
  }
  if (allowed_providers) {
    const slugs = providerSlugs(gateway, allowed_providers)
    yield rule('allowed_providers', ALLOWED_PROVIDERS, ({ provider }) => !slugs.has(provider.slug))
  }
  if (ignored_providers) {
    const slugs = providerSlugs(gateway, ignored_providers)
    yield rule('ignored_providers', ALLOWED_PROVIDERS, ({ provider }) => slugs.has(provider.slug))
  }
}

// A model may have a new slug since it was listed, and is still found by the old one.
const modelSlugs = ({ catalog }: PolicyWorld, said: string[]) =>
  new Set(said.map(slug => catalog.models.get(slug)?.id ?? slug))

const providerSlugs = ({ catalog }: PolicyWorld, said: string[]) =>
  new Set(said.flatMap(name => slugsOfCalled(catalog.providers.values(), name)))

// Ignoring a model ignores its variants; allowing one allows only what is named.
const withoutVariant = (slug: string): string => slug.replace(/:[^:]*$/, '')

const zdrRules = (guardrail: Guardrail): Rule[] =>
  ZDR_GROUPS.filter(({ field }) => guardrail[field]).map(group => ({
    guardrail_id: guardrail.id,
    field: group.field,
    by: 'data_policy:zdr',
    excludes: endpoint => isRetained(group, endpoint),
  }))

/**
 * The fields that forbid something when `false`. An endpoint without a known price may be either
 * free or paid. A provider that trains on prompts counts as one that publishes them: the catalogue
 * has no more detail.
 */
const TRAINING = [
  { field: 'enable_free_model_training', isMeant: mayBeFree },
  { field: 'enable_free_model_publication', isMeant: mayBeFree },
  { field: 'enable_paid_model_training', isMeant: mayBePaid },
] as const

const trainingRules = (guardrail: Guardrail): Rule[] =>
  TRAINING.filter(({ field }) => guardrail[field] === false).map(({ field, isMeant }) => ({
    guardrail_id: guardrail.id,
    field,
    by: 'data_policy:training',
    excludes: endpoint => endpoint.data_policy.training && isMeant(endpoint),
  }))

function mayBeFree({ prices }: Endpoint): boolean {
  return prices === null || (sumPrices(prices) === 0n && (prices.request ?? 0n) === 0n)
}

function mayBePaid(endpoint: Endpoint): boolean {
  return endpoint.prices === null || !mayBeFree(endpoint)
}
