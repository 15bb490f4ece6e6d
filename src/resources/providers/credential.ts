import { createPrivateKey } from 'node:crypto'
import { parseObject } from '../../base/json.ts'
import { Secret } from '../../base/secret.ts'
import type { Auth } from '../../config/credentials.ts'
import type { ProviderConfig } from '../../config.ts'
import type { Credential, ProviderRow, SettingIssue } from './provider.ts'

/** Builds the credential of a configured provider, or returns everything that is missing. */
export function buildCredential(
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
