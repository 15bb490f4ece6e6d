import type { ProviderConfig } from '../../config.ts'
import { getOwn } from '../../kernel/json.ts'
import type { ProviderRow, SettingIssue } from '../providers.ts'
import type { Credential } from './credential.ts'

/** The blanks that a built-in address may have. */
type Blank = 'region' | 'project'

/**
 * Builds the address of a configured provider: the config's, else the built-in one with its blanks
 * filled. Returns what is missing where a blank has no value. Of a credential that is wrong itself
 * nothing is missed.
 */
export function buildAddress(
  settings: ProviderConfig,
  row: ProviderRow | undefined,
  credential: Credential | SettingIssue[],
): string | SettingIssue[] {
  const given = settings.base_url?.replace(/\/+$/, '')
  const [path] = (given && OWN_PATH.exec(given)) || []
  if (path) return [{ field: 'base_url', expected: `the address without ${path}: it is added` }]
  if (given) return given
  const isWrong = Array.isArray(credential)
  const { aws, service_account } = isWrong ? { ...settings, service_account: null } : credential
  const values = {
    region: settings.region ?? aws?.region,
    project: settings.project ?? service_account?.project_id ?? undefined,
  }
  const template = getOwn(row?.regions ?? {}, values.region) ?? row?.base_url
  if (!template)
    return [{ field: 'base_url', expected: 'the address before the protocol’s own path' }]
  return fillBlanks(
    template,
    isWrong && settings.service_account ? { ...values, project: '-' } : values,
  )
}

/** What protocols add to an address themselves. */
const OWN_PATH = /\/(chat\/completions|v1\/messages)$/

function fillBlanks(
  template: string,
  values: Record<Blank, string | undefined>,
): string | SettingIssue[] {
  const missing = (['region', 'project'] as const).filter(
    blank => template.includes(`{${blank}}`) && !values[blank],
  )
  if (missing.length > 0)
    return missing.map(blank => ({ field: blank, expected: `the ${blank} in ${template}` }))
  return template.replace(/\{(region|project)\}/g, (_, blank: Blank) =>
    encodeURIComponent(values[blank] ?? ''),
  )
}

/**
 * Tells whether a known service runs this provider: it has a row, needs a credential and has a
 * public name. The sandbox sends nothing anywhere.
 */
export function isHosted(row: ProviderRow | undefined, address: string): boolean {
  const { protocol, hostname } = new URL(address)
  if (protocol === 'sandbox:') return true
  return row !== undefined && row.keyless !== true && isPublicName(hostname)
}

// An address in figures has no letter after its last dot.
const isPublicName = (hostname: string) =>
  /\.[a-z][a-z0-9-]*\.?$/.test(hostname) && !PRIVATE_NAME.test(hostname)

const PRIVATE_NAME =
  /\.(local|localhost|localdomain|internal|intranet|private|corp|lan|home|arpa|test)\.?$/
