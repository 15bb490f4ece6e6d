import { getOwn } from '../../base/json.ts'
import { FACTS } from './facts.data.ts'

/** What a provider publishes about itself. Null where it is not certain. */
export interface ProviderFacts {
  privacy_policy_url: string | null
  terms_of_service_url: string | null
  status_page_url: string | null
  /** ISO 3166-1 alpha-2. */
  headquarters: string | null
  datacenters: string[] | null
  /** Whether it trains on what its paying API is sent. */
  training: boolean | null
  /** The number of days for which it keeps what it is sent. */
  retention_days: number | null
}

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
