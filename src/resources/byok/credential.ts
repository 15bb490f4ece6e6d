import { parseObject } from '../../base/json.ts'
import type { Auth } from '../../config/credentials.ts'
import type { ProviderConfig } from '../../config.ts'
import type { Provider, SettingIssue } from '../providers/provider.ts'
import { openProvider } from '../providers.ts'

/**
 * Headers of the operator's own account. They would contradict a caller's key, or be a second
 * credential.
 */
const ACCOUNT_HEADERS = [
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'xi-api-key',
  'x-key',
  'openai-organization',
  'openai-project',
]

/**
 * Opens the provider with a caller's credential instead of the operator's, or returns what is wrong
 * with the credential. A credential is a plain key or a JSON object: a Google service account, AWS
 * credentials (`access_key_id`, `secret_access_key`, optionally `session_token`; also in camelCase,
 * as AWS prints them), or `api_key`. Each may have a `region`.
 */
export function openProviderWithCredential(
  { slug, protocol }: Provider,
  configured: ProviderConfig | undefined,
  text: string,
): Provider | SettingIssue {
  const {
    api_key: _,
    aws: __,
    service_account: ___,
    credentials: ____,
    auth,
    headers = {},
    ...rest
  } = configured ?? {}
  const credential = parseCredential(text)
  if ('field' in credential) return credential
  const authSetting = credential.api_key !== undefined && isHeaderAuth(auth) ? { auth } : {}
  const ownHeaders = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !ACCOUNT_HEADERS.includes(name.toLowerCase())),
  )
  const config: ProviderConfig = { ...rest, headers: ownHeaders, ...credential, ...authSetting }
  // Google's own default for accounts that name no region.
  if (config.service_account !== undefined) config.region ??= 'global'
  const opened = openProvider(slug, config, [protocol])
  return Array.isArray(opened) ? (opened[0] ?? EXPECTED) : opened
}

const HEADER_AUTHS: Auth[] = [
  'bearer',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'xi-api-key',
  'token',
  'key',
]

const isHeaderAuth = (auth: Auth | undefined): auth is Auth =>
  auth !== undefined && HEADER_AUTHS.includes(auth)

type CallerCredential = Pick<ProviderConfig, 'api_key' | 'aws' | 'service_account' | 'region'>

function parseCredential(text: string): CallerCredential | SettingIssue {
  if (!text.startsWith('{')) return isKey(text) ? { api_key: text } : EXPECTED
  const object = parseObject(text)
  if (!object) return EXPECTED
  const { region } = object
  if (region !== undefined && !isRegion(region))
    return { field: 'region', expected: 'a region in the JSON' }
  const regionSetting = region === undefined ? {} : { region }
  if ('private_key' in object) return { service_account: removeTokenUri(object), ...regionSetting }
  const aws = readAwsCredentials(object)
  if (aws) return { aws, ...regionSetting }
  return isKey(object.api_key) ? { api_key: object.api_key, ...regionSetting } : EXPECTED
}

const EXPECTED: SettingIssue = {
  field: 'key',
  expected: 'a key in printable ASCII, or the JSON of a service account or of AWS credentials',
}

// Any other character could end the header and begin another.
const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)

const isRegion = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z0-9-]{1,64}$/.test(value)

// A caller must not choose where tokens are bought, or the gateway would send requests to any
// address.
const removeTokenUri = ({ token_uri: _, ...account }: Record<string, unknown>) => account

function readAwsCredentials(
  object: Record<string, unknown>,
): NonNullable<ProviderConfig['aws']> | undefined {
  const access_key_id = object.access_key_id ?? object.accessKeyId
  const secret_access_key = object.secret_access_key ?? object.secretAccessKey
  const session_token = object.session_token ?? object.sessionToken
  if (!isKey(access_key_id) || !isKey(secret_access_key)) return undefined
  return { access_key_id, secret_access_key, ...(isKey(session_token) ? { session_token } : {}) }
}

/**
 * Returns a short label by which the owner recognizes the credential. For a JSON object it shows
 * the account name, never the secret.
 */
export function createByokLabel(text: string): string {
  const object = text.startsWith('{') ? parseObject(text) : undefined
  const name =
    object && (object.client_email ?? object.access_key_id ?? object.accessKeyId ?? object.api_key)
  return maskText(object ? (typeof name === 'string' ? name : '') : text)
}

// Most of a short secret would be visible.
const maskText = (text: string) =>
  text.length < 16 ? '...' : `${text.slice(0, 4)}...${text.slice(-3)}`
