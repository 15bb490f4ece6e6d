import { findSchemaIssue } from '../../base/schema.ts'
import { ProviderConfig } from '../../config.ts'
import { PROVIDERS } from '../providers.data.ts'
import { openProvider } from '../providers.ts'
import type { ProviderRow, ProviderVariables } from './provider.ts'

/** A provider that the environment configures, with the names of the variables that it came from. */
export interface EnvironmentProvider {
  slug: string
  settings: ProviderConfig
  variables: string[]
}

/** A variable that looks like a provider's, and why it configures none. It never has the value. */
export interface IgnoredVariable {
  slug: string
  variable: string
  reason: string
}

/** What the environment has for providers. */
export interface Environment {
  providers: EnvironmentProvider[]
  ignored: IgnoredVariable[]
}

type Variables = Record<string, string | undefined>

type Found = { text: string; variable: string }

const ROWS: Record<string, ProviderRow> = PROVIDERS

/**
 * Finds the known providers that these variables configure: `OPENAI_API_KEY` and those like it, as
 * each provider's row names them. An address that is a bare host gets the path of the provider's
 * own. What is incomplete or wrong configures nothing, and is listed with its reason.
 */
export function findEnvironmentProviders(env: Variables, protocols: string[]): Environment {
  const environment: Environment = { providers: [], ignored: [] }
  for (const [slug, row] of Object.entries(ROWS)) {
    const found = readProvider(slug, row, env, protocols)
    if (!found) continue
    if ('reason' in found) environment.ignored.push(found)
    else environment.providers.push(found)
  }
  return environment
}

/** Whether a provider is known without the config, and can be called with a credential alone. */
export const needsCredential = (slug: string): boolean =>
  Object.hasOwn(ROWS, slug) && !ROWS[slug]?.keyless

/** Names what gives a known provider its credential: a variable, or its section in the config. */
export function describeCredential(slug: string): string {
  const { api_key, access_key_id } = ROWS[slug]?.variables ?? {}
  const variable = api_key?.[0] ?? access_key_id?.[0]
  return variable === undefined ? `providers.${slug}` : `${variable}, or providers.${slug}`
}

/** Lists every variable that may configure a provider. */
export const listProviderVariables = (): string[] =>
  Object.values(ROWS).flatMap(({ variables = {} }) =>
    Object.values(variables).flatMap(names => (Array.isArray(names) ? names : [])),
  )

function readProvider(
  slug: string,
  row: ProviderRow,
  env: Variables,
  protocols: string[],
): EnvironmentProvider | IgnoredVariable | undefined {
  const found = findValues(row.variables ?? {}, env)
  const decisive = row.keyless ? found.base_url : (found.api_key ?? found.access_key_id)
  if (!decisive || !protocols.includes(row.protocol)) return undefined
  const { variable } = decisive
  const ignore = (reason: string) => ({ slug, variable, reason })
  // Clients of this gateway keep its key under the same name.
  if (OWN_KEY.test(decisive.text)) return ignore('it holds a key of a gateway')
  const settings = toSettings(row, found)
  const issue = findSchemaIssue(ProviderConfig, settings)
  if (issue) return { ...ignore(`expected ${issue.expected}`), variable: nameSource(issue, found) }
  const opened = openProvider(slug, settings, protocols)
  if (Array.isArray(opened)) return ignore(describeMissing(opened[0]?.field ?? 'api_key', row))
  return { slug, settings, variables: Object.values(found).map(one => one.variable) }
}

const OWN_KEY = /^gw-v1-/

type FoundValues = Partial<Record<Exclude<keyof ProviderVariables, 'bare_path'>, Found>>

function findValues({ bare_path: _, ...names }: ProviderVariables, env: Variables): FoundValues {
  const found = Object.entries(names).flatMap(([setting, variables]) => {
    const variable = variables.find(name => env[name])
    return variable === undefined ? [] : [[setting, { variable, text: env[variable] ?? '' }]]
  })
  return Object.fromEntries(found)
}

function toSettings(row: ProviderRow, found: FoundValues): ProviderConfig {
  const { api_key, base_url, region, access_key_id, secret_access_key, session_token } = found
  const aws = {
    ...(access_key_id ? { access_key_id: access_key_id.text } : {}),
    ...(secret_access_key ? { secret_access_key: secret_access_key.text } : {}),
    ...(session_token ? { session_token: session_token.text } : {}),
  }
  return {
    ...(api_key ? { api_key: api_key.text } : {}),
    ...(!api_key && access_key_id ? { aws: aws as NonNullable<ProviderConfig['aws']> } : {}),
    ...(region ? { region: region.text } : {}),
    ...(base_url ? { base_url: addPath(base_url.text, row) } : {}),
  }
}

// The providers' own clients add the path to a bare host, too.
function addPath(text: string, { base_url, variables }: ProviderRow): string {
  if (!URL.canParse(text)) return text
  const url = new URL(text)
  if (url.pathname !== '/' || url.search || url.hash || url.username || url.password) return text
  const path = variables?.bare_path ?? (base_url?.includes('{') ? '' : toPath(base_url))
  return `${url.origin}${path}`
}

const toPath = (address: string | null): string =>
  address === null ? '' : new URL(address).pathname.replace(/\/$/, '')

function nameSource({ path }: { path: string }, found: FoundValues): string {
  const setting = path.split('.').at(-1) as keyof FoundValues
  return (found[setting] ?? Object.values(found)[0])?.variable ?? ''
}

function describeMissing(field: string, { variables = {} }: ProviderRow): string {
  const setting = field === 'aws' ? 'secret_access_key' : field
  const names = variables[setting as keyof FoundValues] ?? []
  return names.length > 0 ? `${names.join(' or ')} is missing` : `${field} is missing`
}
