import { own } from '../../kernel/json.ts'
import { FACTS } from './facts.data.ts'

/** What a provider says of itself in public. Null: nobody here is sure. */
export interface ProviderFacts {
  privacy_policy_url: string | null
  terms_of_service_url: string | null
  status_page_url: string | null
  /** ISO 3166-1 alpha-2. */
  headquarters: string | null
  datacenters: string[] | null
  /** Whether it trains on what its paying API is sent. */
  training: boolean | null
  /** For how many days it keeps what it is sent. */
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

const known: Record<string, Partial<ProviderFacts>> = FACTS

/** The public facts of a provider. */
export const factsOf = (slug: string): ProviderFacts => ({ ...UNKNOWN, ...own(known, slug) })

/** What a provider does with data, where it counts: what is not known may train, and keeps data for who knows how long. */
export function dataPolicyOf(slug: string): { training: boolean; retention_days: number | null } {
  const { training, retention_days } = factsOf(slug)
  return { training: training ?? true, retention_days }
}
