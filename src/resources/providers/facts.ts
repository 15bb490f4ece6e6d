import { getOwn } from '../../base/json.ts'
import type { ProviderFacts } from './facts.data.ts'
import { FACTS } from './facts.data.ts'

const UNKNOWN: ProviderFacts = {
  privacy_policy_url: null,
  terms_of_service_url: null,
  status_page_url: null,
  headquarters: null,
  datacenters: null,
  training: null,
  retention_days: null,
}

const providerFacts: Record<string, Partial<ProviderFacts>> = FACTS

/** Returns the public facts of a provider. */
export const getProviderFacts = (slug: string): ProviderFacts => ({
  ...UNKNOWN,
  ...getOwn(providerFacts, slug),
})

/**
 * Returns a provider's data policy as rules apply it. An unknown provider counts as one that
 * trains, and that keeps data for an unknown time.
 */
export function getDataPolicy(slug: string): { training: boolean; retention_days: number | null } {
  const { training, retention_days } = getProviderFacts(slug)
  return { training: training ?? true, retention_days }
}
