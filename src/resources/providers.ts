import { createPrivateKey } from 'node:crypto'
import { getOwn, parseObject } from '../base/json.ts'
import { Secret } from '../base/secret.ts'
import type { Auth } from '../config/credentials.ts'
import { NO_QUIRKS } from '../config/quirks.ts'
import type { ProviderConfig } from '../config.ts'
import type { CatalogWorld } from './catalog-world.ts'
import { getProviderFacts } from './providers/facts.ts'
import { CredentialPool } from './providers/pool.ts'
import type {
  Credential,
  PooledCredential,
  ProtocolSetting,
  Provider,
  ProviderRow,
  SettingIssue,
  SpokenProtocol,
} from './providers/provider.ts'
import { PROVIDERS } from './providers.data.ts'

/** Why a configured provider cannot be used. */
export interface ProviderIssue extends SettingIssue {
  slug: string
}

const KNOWN_PROVIDERS: Record<string, ProviderRow> = PROVIDERS

/** Tells whether a provider is known without any setting. */
export const isKnownProvider = (slug: string): boolean => Object.hasOwn(KNOWN_PROVIDERS, slug)

/** Tells whether a provider serves the models of this author under the author's own names. */
export const isHomeOf = (slug: string, author: string): boolean =>
  slug === author || getOwn(KNOWN_PROVIDERS, slug)?.home === author

/**
 * Opens every known provider, the configured ones over the built-in rows, and reports what is
 * missing where the config is incomplete. The sandbox is always configured. Providers that `before`
 * has with the same settings are kept, with everything attached to them.
 */
export function openProviders(
  config: Record<string, ProviderConfig>,
  protocols: string[],
  edition = 1,
  before?: Pick<CatalogWorld, 'config' | 'catalog'>,
): { providers: Map<string, Provider>; issues: ProviderIssue[] } {
  const opened = Object.entries({ ...ALWAYS_CONFIGURED, ...config }).flatMap<
    Provider | ProviderIssue
  >(
    ([slug, settings]) =>
      findUnchangedProvider(slug, settings, before) ??
      openProvider(slug, settings, protocols, edition),
  )
  const known = Object.entries(KNOWN_PROVIDERS).map(([slug, row]) =>
    createUnconfiguredProvider(slug, row),
  )
  const providers = [...known, ...opened.filter(one => 'name' in one)]
  return {
    providers: new Map(providers.map(one => [one.slug, one])),
    issues: opened.filter(one => 'field' in one),
  }
}

const ALWAYS_CONFIGURED: Record<string, ProviderConfig> = { sandbox: {} }

// A new account object would have to buy its access tokens again.
function findUnchangedProvider(
  slug: string,
  settings: ProviderConfig,
  before?: Pick<CatalogWorld, 'config' | 'catalog'>,
): Provider | undefined {
  const known = before && (getOwn(before.config.providers, slug) ?? getOwn(ALWAYS_CONFIGURED, slug))
  return known && Bun.deepEquals(known, settings) ? before.catalog.providers.get(slug) : undefined
}

const createUnconfiguredProvider = (
  slug: string,
  { name, protocol, base_url, quirks }: ProviderRow,
): Provider => ({
  auth: 'none',
  api_key: null,
  aws: null,
  service_account: null,
  slug,
  edition: 1,
  configured: false,
  name,
  protocol,
  alsoSpeaks: [],
  base_url: base_url ?? '',
  headers: {},
  quirks: { ...NO_QUIRKS, ...quirks },
  finish_reasons: {},
  fetchesUrls: false,
  isHosted: false,
  on_abort: 'cancel',
})

/** Opens the provider with these settings, or returns everything that is wrong with them. */
export function openProvider(
  slug: string,
  settings: ProviderConfig,
  protocols: string[],
  edition = 1,
): Provider | ProviderIssue[] {
  if (settings.credentials) return openPooledProvider(slug, settings, protocols, edition)
  const row = getOwn(KNOWN_PROVIDERS, slug)
  const [first, ...others] = listProtocols(settings, row)
  const protocol = typeof first === 'object' ? first.protocol : first
  // Which credential is expected is known of a known protocol only.
  const credential = protocol ? buildCredential(settings, row, protocol) : []
  const base_url = typeof first === 'object' ? trim(first) : buildAddress(settings, row, credential)
  const issues = [
    ...listProtocolIssues(slug, settings, protocol, protocols),
    ...listHeaderIssues(settings),
    ...(Array.isArray(credential) ? credential : []),
    ...(Array.isArray(base_url) ? base_url : []),
  ]
  if (!protocol || Array.isArray(credential) || Array.isArray(base_url) || issues.length > 0)
    return listFields(issues).map(issue => ({ slug, ...issue }))
  return {
    ...credential,
    slug,
    edition,
    configured: true,
    name: settings.name ?? row?.name ?? slug,
    protocol,
    alsoSpeaks: others.map(one =>
      typeof one === 'string' ? { protocol: one, base_url } : { ...one, base_url: trim(one) },
    ),
    base_url,
    headers: lowerCaseNames(settings.headers ?? {}),
    quirks: { ...NO_QUIRKS, ...row?.quirks, ...settings.quirks },
    finish_reasons: settings.finish_reasons ?? {},
    fetchesUrls: settings.fetches_urls ?? isHosted(row, base_url),
    isHosted: isHosted(row, base_url),
    on_abort: settings.on_abort ?? row?.on_abort ?? 'cancel',
  }
}

/** Opens a provider that has several credentials, or returns what is wrong with any of them. */
function openPooledProvider(
  slug: string,
  { credentials = [], ...settings }: ProviderConfig,
  protocols: string[],
  edition: number,
): Provider | ProviderIssue[] {
  const { api_key, aws, service_account, ...shared } = settings
  const members = credentials.map(({ name, weight = 1, ...own }, i) => ({
    opened: openProvider(slug, { ...shared, ...own }, protocols, edition),
    ...{ name: name ?? String(i + 1), weight, hasOwnAddress: hasOwnAddress(own), place: i },
  }))
  const issues = [
    ...(api_key !== undefined || aws !== undefined || service_account !== undefined
      ? [{ field: 'credentials', expected: 'no other credential beside them' }]
      : []),
    ...listPoolIssues(credentials),
  ].map(issue => ({ slug, ...issue }))
  const found = members.flatMap(({ opened, place }) =>
    Array.isArray(opened)
      ? opened.map(issue => ({ ...issue, field: toMemberField(issue.field, place) }))
      : [],
  )
  const pooled = members.flatMap(({ opened, place: _, ...member }) =>
    Array.isArray(opened) ? [] : [{ ...member, provider: opened } satisfies PooledCredential],
  )
  const [first] = pooled
  const all = [...issues, ...found]
  if (!first || all.length > 0)
    return all.filter(({ field }, i) => all.findIndex(one => one.field === field) === i)
  return { ...first.provider, pool: new CredentialPool(pooled) }
}

type CredentialConfig = NonNullable<ProviderConfig['credentials']>[number]

const hasOwnAddress = ({ base_url, region, project }: CredentialConfig): boolean =>
  base_url !== undefined || region !== undefined || project !== undefined

// What all of them share is wrong in one place.
const toMemberField = (field: string, place: number): string =>
  ['protocol', 'protocols', 'headers'].includes(field) ? field : `credentials.${place}.${field}`

function listPoolIssues(credentials: CredentialConfig[]): SettingIssue[] {
  const names = credentials.map(({ name }, i) => name ?? String(i + 1))
  const repeatedName = names.findIndex((name, i) => names.indexOf(name) !== i)
  // The name and the share make no other credential of it.
  const secrets = credentials.map(({ name: _, weight: __, ...own }) => own)
  const repeated = secrets.findIndex(
    (own, i) => secrets.findIndex(other => Bun.deepEquals(own, other)) !== i,
  )
  return [
    ...(repeatedName === -1
      ? []
      : [{ field: `credentials.${repeatedName}.name`, expected: 'a name that no other has' }]),
    ...(repeated === -1
      ? []
      : [
          { field: `credentials.${repeated}`, expected: 'another credential than the ones before' },
        ]),
    ...(credentials.every(({ weight = 1 }) => weight === 0)
      ? [{ field: 'credentials', expected: 'a weight above 0 for one of them' }]
      : []),
  ]
}

const trim = ({ base_url }: SpokenProtocol): string => base_url.replace(/\/+$/, '')

/**
 * Lists what a provider speaks: as the config says, or else as is known of it. At another address
 * than its vendor's it has those that have no address of their own.
 */
function listProtocols(
  { protocol, protocols, base_url }: ProviderConfig,
  row: ProviderRow | undefined,
): ProtocolSetting[] {
  if (protocols) return protocols
  if (protocol) return [protocol]
  const also = row?.also ?? []
  const reached = base_url ? also.filter(one => typeof one === 'string') : also
  return row ? [row.protocol, ...reached] : []
}

function listProtocolIssues(
  slug: string,
  { protocol: only, protocols: listed = [] }: ProviderConfig,
  first: string | undefined,
  protocols: string[],
): SettingIssue[] {
  if (only !== undefined && listed.length > 0)
    return [{ field: 'protocol', expected: 'none beside protocols' }]
  const names = listed.map(one => (typeof one === 'string' ? one : one.protocol))
  const repeated = names.find((name, i) => names.indexOf(name) !== i)
  if (repeated !== undefined)
    return [{ field: 'protocols', expected: `each protocol once, found ${repeated} twice` }]
  const unknown = [first, ...names].find(name => !name || !protocols.includes(name))
  if (first && unknown === undefined) return []
  const reason = unknown
    ? `; this version does not speak ${unknown}`
    : ` (${slug} is not known by name)`
  const field = listed.length > 0 ? 'protocols' : 'protocol'
  return [{ field, expected: `one of ${protocols.join(', ')}${reason}` }]
}

const listHeaderIssues = ({ headers = {} }: ProviderConfig): SettingIssue[] =>
  Object.keys(headers).every(isAllowedHeader)
    ? []
    : [
        {
          field: 'headers',
          expected: 'names of headers, other than those of the connection',
        },
      ]

/** Lists the first issue of each setting: a region may be missing for two reasons. */
const listFields = (issues: SettingIssue[]): SettingIssue[] =>
  issues.filter(({ field }, i) => issues.findIndex(one => one.field === field) === i)

// The HTTP client sets these itself.
const CONNECTION_HEADERS = [
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'te',
  'trailer',
  'upgrade',
  'expect',
]

const isAllowedHeader = (name: string) =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(name) && !CONNECTION_HEADERS.includes(name.toLowerCase())

// A header must not be sent twice, once in our spelling and once in the operator's.
const lowerCaseNames = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/**
 * Lists the providers as `GET /providers` shows them. A public fact is null where it is not
 * certain.
 */
export function listProviders({ catalog }: CatalogWorld) {
  return { data: [...catalog.providers.values()].map(toPublicProvider) }
}

function toPublicProvider({ slug, name }: Provider) {
  const { privacy_policy_url, terms_of_service_url, status_page_url, headquarters, datacenters } =
    getProviderFacts(slug)
  return {
    name,
    slug,
    privacy_policy_url,
    terms_of_service_url,
    status_page_url,
    headquarters,
    datacenters,
  }
}

/** The blanks that a built-in address may have. */
type Blank = 'region' | 'project'

/**
 * Builds the address of a configured provider: the config's, else the built-in one with its blanks
 * filled. Returns what is missing where a blank has no value. Of a credential that is wrong itself
 * nothing is missed.
 */
function buildAddress(
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
function isHosted(row: ProviderRow | undefined, address: string): boolean {
  const { protocol, hostname } = new URL(address)
  if (protocol === 'sandbox:') return true
  return row !== undefined && row.keyless !== true && isPublicName(hostname)
}

// An address in figures has no letter after its last dot.
const isPublicName = (hostname: string) =>
  /\.[a-z][a-z0-9-]*\.?$/.test(hostname) && !PRIVATE_NAME.test(hostname)

const PRIVATE_NAME =
  /\.(local|localhost|localdomain|internal|intranet|private|corp|lan|home|arpa|test)\.?$/

/** Builds the credential of a configured provider, or returns everything that is missing. */
function buildCredential(
  settings: ProviderConfig,
  row: ProviderRow | undefined,
  protocol: string,
): Credential | SettingIssue[] {
  const auth = pickAuth(settings, row, protocol)
  const none: Credential = { auth, api_key: null, aws: null, service_account: null }
  switch (auth) {
    case 'none':
      return none
    case 'sigv4':
      return buildAwsCredential(settings, none)
    case 'google-service-account':
      return buildServiceAccount(settings, none)
    default:
      return settings.api_key
        ? { ...none, api_key: new Secret(settings.api_key) }
        : reportMissingKey(row)
  }
}

/** How each protocol's own provider authenticates. Every other one takes a bearer token. */
const PROTOCOL_AUTH: Record<string, Auth> = {
  'anthropic-messages': 'x-api-key',
  gemini: 'x-goog-api-key',
  elevenlabs: 'xi-api-key',
  deepgram: 'token',
  bfl: 'x-key',
  fal: 'key',
}

// The config decides, then the kind of credential that it has, then the provider.
function pickAuth(settings: ProviderConfig, row: ProviderRow | undefined, protocol: string): Auth {
  if (settings.auth) return settings.auth
  if (settings.service_account !== undefined) return 'google-service-account'
  if (settings.api_key) return row?.auth ?? PROTOCOL_AUTH[protocol] ?? 'bearer'
  if (settings.aws) return 'sigv4'
  const isNamed = settings.protocol !== undefined || settings.protocols !== undefined
  return (row?.keyless ?? isNamed) ? 'none' : 'bearer'
}

const reportMissingKey = (row: ProviderRow | undefined): SettingIssue[] => [
  {
    field: 'api_key',
    expected: row?.instead ? `the credential, or ${row.instead}` : 'the credential',
  },
]

function buildAwsCredential(
  { aws, ...settings }: ProviderConfig,
  none: Credential,
): Credential | SettingIssue[] {
  const region = aws?.region ?? settings.region
  if (!aws || !region)
    return [
      ...(aws ? [] : [{ field: 'aws', expected: 'access_key_id and secret_access_key' }]),
      ...(region ? [] : [{ field: 'region', expected: 'the region that requests are signed for' }]),
    ]
  const session_token = aws.session_token ? new Secret(aws.session_token) : null
  const secret_access_key = new Secret(aws.secret_access_key)
  return {
    ...none,
    aws: { access_key_id: aws.access_key_id, secret_access_key, session_token, region },
  }
}

const TOKEN_URI = 'https://oauth2.googleapis.com/token'

function buildServiceAccount(
  { service_account: serviceAccount }: ProviderConfig,
  none: Credential,
): Credential | SettingIssue[] {
  const account = typeof serviceAccount === 'string' ? parseObject(serviceAccount) : serviceAccount
  const {
    client_email,
    private_key,
    private_key_id,
    token_uri = TOKEN_URI,
    project_id,
  } = account ?? {}
  if (!account)
    return [{ field: 'service_account', expected: 'the JSON of a Google service account' }]
  if (!isText(client_email) || !isPrivateKey(private_key) || !isTokenAddress(token_uri))
    return [
      ...(isText(client_email) ? [] : [createIssue('client_email', 'the name of the account')]),
      ...(isPrivateKey(private_key) ? [] : [createIssue('private_key', 'an RSA key in PEM')]),
      ...(isTokenAddress(token_uri)
        ? []
        : [createIssue('token_uri', 'the address that sells tokens')]),
    ]
  const toOptionalText = (text: unknown) => (isText(text) ? text : null)
  return {
    ...none,
    service_account: {
      client_email,
      private_key: new Secret(private_key),
      private_key_id: toOptionalText(private_key_id),
      token_uri,
      project_id: toOptionalText(project_id),
    },
  }
}

const createIssue = (field: string, expected: string): SettingIssue => ({
  field: `service_account.${field}`,
  expected,
})

const isTokenAddress = (value: unknown): value is string =>
  isText(value) && /^https?:/.test(value) && URL.canParse(value)

const isPrivateKey = (value: unknown): value is string => isText(value) && isRsaKey(value)

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

function isRsaKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'rsa'
  } catch {
    return false
  }
}
