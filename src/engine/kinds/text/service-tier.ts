import type { TextCall } from '../../../language/call.ts'
import { SERVICE_TIERS, type ServiceTier } from '../../../language/routing.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'

/** Returns the service tier that a call asks for, if endpoints may have it (wire reference K.5). */
export const getServiceTier = ({ params: { service_tier } }: TextCall): ServiceTier | undefined =>
  service_tier === undefined ? undefined : SERVICE_TIERS.find(tier => tier === service_tier)

/**
 * Returns the call with the service tier of the endpoint. The usual endpoint is not asked for a tier
 * that costs more: what it charges then is not known. Nor for one that the model has an endpoint of.
 */
export function fitServiceTier(call: TextCall, endpoint: Endpoint): TextCall {
  const { service_tier, tier_prices } = endpoint
  const requested = getServiceTier(call)
  if (service_tier === (requested ?? null)) return call
  if (service_tier !== null) return { ...call, params: { ...call.params, service_tier } }
  if (requested === 'flex' && tier_prices === null) return call
  const { service_tier: _, ...params } = call.params
  return { ...call, params, extra: omitSpeed(call.extra) }
}

// The word of `/messages` for priority (wire reference K.5).
function omitSpeed({ speed: _, ...extra }: TextCall['extra']): TextCall['extra'] {
  return extra
}
