import type { OpenedKey } from '../catalog/byok/opened.ts'
import type { Endpoint, Model } from '../catalog/models.ts'
import { publicSlugOf } from '../catalog/providers/called.ts'
import type { Dropped } from './plan/refusal.ts'
import type { InferenceWorld } from './world.ts'

/** Ours, not the public list's: a caller's key that says so keeps the gateway's own credential away. */
export const BYOK_ONLY = 'byok_only'

/**
 * A model's endpoints in their turns: with the callers' own keys first, then with the gateway's credential, and last with those keys
 * that are fallbacks (wire reference K.1). Where a key wants no other credential beside it, the gateway's is dropped.
 */
export function turnsOf({ catalog }: InferenceWorld, model: Model, own: OpenedKey[], dropped: Dropped[]): Endpoint[][] {
  if (own.length === 0) return [model.endpoints]
  // A list may have the model's other names.
  const isIt = (slug: string) => slug === model.id || catalog.models.get(slug)?.id === model.id
  const fitting = own.filter(({ key }) => key.allowed_models?.some(isIt) ?? true)
  const shared = model.endpoints.filter(endpoint => {
    const isWithheld = withholds(own, fitting, publicSlugOf(endpoint.provider.slug))
    if (isWithheld) dropped.push({ endpoint, by: BYOK_ONLY })
    return !isWithheld
  })
  return [withKeys(model, fitting, false), shared, withKeys(model, fitting, true)]
}

const withholds = (own: OpenedKey[], fitting: OpenedKey[], provider: string) =>
  own.some(({ key }) => key.is_byok_only && key.provider === provider) ||
  fitting.some(({ key }) => key.is_required && key.provider === provider)

const withKeys = ({ endpoints }: Model, fitting: OpenedKey[], isFallback: boolean): Endpoint[] =>
  endpoints.flatMap(endpoint => fitting.filter(({ key }) => key.is_fallback === isFallback).flatMap(one => withKey(endpoint, one) ?? []))

// Made once for a key, not for each call.
function withKey(endpoint: Endpoint, { key, credentials, providers, endpoints }: OpenedKey): Endpoint | undefined {
  const provider = providers.get(endpoint.provider.slug)
  if (!provider) return undefined
  const known = endpoints.get(endpoint)
  if (known) return known
  const id = `${endpoint.id} ${key.id} ${credentials}`
  const made: Endpoint = { ...endpoint, id, provider, data_policy: policyOf(endpoint, key.declared_zdr), is_byok: true }
  endpoints.set(endpoint, made)
  return made
}

function policyOf({ data_policy }: Endpoint, declared_zdr: boolean | null): Endpoint['data_policy'] {
  if (declared_zdr === null) return data_policy
  if (declared_zdr) return { ...data_policy, retention_days: 0 }
  return data_policy.retention_days === 0 ? { ...data_policy, retention_days: null } : data_policy
}
