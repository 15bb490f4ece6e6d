import type { ProviderConfig } from '../../config.ts'
import { own } from '../../kernel/json.ts'
import type { Fault, ProviderRow } from '../providers.ts'
import type { Credential } from './credential.ts'

/** The blanks that a built-in address may have. */
type Blank = 'region' | 'project'

/**
 * Builds the address of a configured provider: the config's, else the built-in one with its blanks
 * filled. Returns what is missing where a blank has no value.
 */
export function addressOf(
  given: ProviderConfig,
  row: ProviderRow | undefined,
  { service_account, aws }: Credential,
): string | Fault {
  if (given.base_url) return given.base_url.replace(/\/+$/, '')
  const known = {
    region: given.region ?? aws?.region,
    project: given.project ?? service_account?.project_id ?? undefined,
  }
  const template = own(row?.regions ?? {}, known.region) ?? row?.base_url
  if (!template)
    return { field: 'base_url', expected: 'the address before the protocol’s own path' }
  return filled(template, known)
}

function filled(template: string, known: Record<Blank, string | undefined>): string | Fault {
  const missing = (['region', 'project'] as const).find(
    blank => template.includes(`{${blank}}`) && !known[blank],
  )
  if (missing) return { field: missing, expected: `the ${missing} in ${template}` }
  return template.replace(/\{(region|project)\}/g, (_, blank: Blank) =>
    encodeURIComponent(known[blank] ?? ''),
  )
}
