import type { ProviderConfig } from '../config.ts'
import { Secret } from '../kernel/secret.ts'
import { PROVIDERS } from './providers.data.ts'

/** A provider as the built-in list has it: data, no code. */
export interface ProviderRow {
  name: string
  protocol: string
  /** Null where each customer has an address of their own. */
  base_url: string | null
  /** Needs no credential. */
  keyless?: boolean
  /** What the output bound is called there. */
  outputBound?: 'max_tokens' | 'max_completion_tokens'
  /** How a wish for reasoning is said there: a flat `reasoning_effort`, or the whole `reasoning` object. */
  reasoning?: 'effort' | 'object'
}

/** A provider that calls can be sent to. */
export interface Provider {
  slug: string
  name: string
  protocol: string
  base_url: string
  api_key: Secret | null
  headers: Record<string, string>
  outputBound: 'max_tokens' | 'max_completion_tokens'
  reasoning: 'effort' | 'object'
}

/** Why a configured provider cannot be used. */
export interface ProviderFault {
  slug: string
  field: string
  expected: string
}

const KNOWN: Record<string, ProviderRow> = PROVIDERS

/** The configured providers over the built-in rows, and what is missing to use the others. The sandbox is always there. */
export function openProviders(
  config: Record<string, ProviderConfig>,
  protocols: string[],
): { providers: Map<string, Provider>; faults: ProviderFault[] } {
  const opened = Object.entries({ sandbox: {}, ...config }).map(([slug, given]) => openProvider(slug, given, protocols))
  const providers = opened.filter(one => 'name' in one)
  return { providers: new Map(providers.map(one => [one.slug, one])), faults: opened.filter(one => 'field' in one) }
}

function openProvider(slug: string, given: ProviderConfig, protocols: string[]): Provider | ProviderFault {
  const row = KNOWN[slug]
  const protocol = given.protocol ?? row?.protocol
  const base_url = given.base_url ?? row?.base_url
  if (!protocol) return { slug, field: 'protocol', expected: `one of ${protocols.join(', ')} (${slug} is not known by name)` }
  if (!protocols.includes(protocol))
    return { slug, field: 'protocol', expected: `one of ${protocols.join(', ')}; this version does not speak ${protocol}` }
  if (!base_url) return { slug, field: 'base_url', expected: 'the address before the protocol’s own path' }
  if (!given.api_key && !(row?.keyless ?? given.protocol !== undefined)) return { slug, field: 'api_key', expected: 'the credential' }
  return {
    slug,
    name: given.name ?? row?.name ?? slug,
    protocol,
    base_url: base_url.replace(/\/+$/, ''),
    api_key: given.api_key ? new Secret(given.api_key) : null,
    headers: given.headers ?? {},
    outputBound: given.output_bound ?? row?.outputBound ?? 'max_tokens',
    reasoning: given.reasoning ?? row?.reasoning ?? 'effort',
  }
}
