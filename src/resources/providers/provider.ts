import type { Secret } from '../../base/secret'
import type { Auth } from '../../config/credentials'
import type { Quirks } from '../../config/quirks'
import type { FinishReason } from '../../language/part'
import type { CredentialPool, Weighted } from './pool.ts'

/** A row of the built-in list of providers: data, no code. */
export interface ProviderRow {
  name: string
  /** The author whose models it serves under the author's own names, where that is not its slug. */
  home?: string
  protocol: string
  /** What it speaks beside that, for calls that come in such a dialect. */
  also?: ProtocolSetting[]
  /**
   * Null where each customer has their own address. The config fills the blanks `{region}` and
   * `{project}`.
   */
  base_url: string | null
  /** Addresses of regions that do not follow the template. */
  regions?: Record<string, string>
  /** How the credential is sent, where it is not the protocol's own way. */
  auth?: Auth
  /** The credential that a config may give instead of an `api_key`. */
  instead?: 'aws' | 'service_account'
  /** Needs no credential. */
  keyless?: boolean
  /** What to do when a client leaves: `cancel` unless the provider goes on and charges for it. */
  on_abort?: 'cancel' | 'drain'
  /** How it differs from others that speak OpenAI's chat. */
  quirks?: Partial<Quirks>
  /** The environment variables that configure it. */
  variables?: ProviderVariables
}

/** A provider that calls can be sent to, or one that is known by name only. */
export interface Provider extends Credential {
  slug: string
  /**
   * The number of the catalogue of this process that these settings are from. With other settings
   * its endpoints are judged anew.
   */
  edition: number
  /**
   * Whether the config has all that a call needs. Nothing is ever sent to a provider that is not
   * configured.
   */
  configured: boolean
  name: string
  /** The protocol that it speaks, unless the dialect of a call is that of another. */
  protocol: string
  /** The others, and the address of each. */
  alsoSpeaks: SpokenProtocol[]
  base_url: string
  /** Sent with every request, by lower-case name. */
  headers: Record<string, string>
  quirks: Quirks
  /** Why its answers ended, by its own words: what the operator adds to the known ones. */
  finish_reasons: Record<string, FinishReason>
  /**
   * Whether URLs of callers go on to it. Only a hosted provider has a network of its own, where
   * they can do no harm.
   */
  fetchesUrls: boolean
  /** Whether its address is its vendor's own. Any other may lead back to this gateway. */
  isHosted: boolean
  /** What to do when a client leaves: close the connection, or read on for the count. */
  on_abort: 'cancel' | 'drain'
  /** Its credentials, where it has several: calls draw one. The fields above have the first. */
  pool?: CredentialPool<PooledCredential>
}

/** One of the credentials of a provider that has several. */
export interface PooledCredential extends Weighted {
  /** The provider, asked with this credential and at its address. */
  provider: Provider
  /** Whether it has an address of its own, which may fail alone. */
  hasOwnAddress: boolean
}

/** A protocol, with an address of its own if that is not the provider's. */
export type ProtocolSetting = string | { protocol: string; base_url: string }

/** A protocol, and the address before its own path. */
export interface SpokenProtocol {
  protocol: string
  base_url: string
}

/** A setting of a provider that is wrong, and what was expected. */
export interface SettingIssue {
  field: string
  expected: string
}

/** The environment variables of a known provider, by the setting that they fill, best first. */
export interface ProviderVariables {
  api_key?: string[]
  base_url?: string[]
  /** The path to add to a `base_url` that is a bare host, if the provider's own address has none. */
  bare_path?: string
  region?: string[]
  access_key_id?: string[]
  secret_access_key?: string[]
  session_token?: string[]
}

/** Credentials that sign a request to AWS. */
export interface AwsCredentials {
  access_key_id: string
  secret_access_key: Secret
  session_token: Secret | null
  region: string
}

/** An account that buys access tokens from Google. */
export interface ServiceAccount {
  client_email: string
  private_key: Secret
  private_key_id: string | null
  token_uri: string
  project_id: string | null
}

/** The credential for a provider. `auth` says which of the others it is. */
export interface Credential {
  auth: Auth
  api_key: Secret | null
  aws: AwsCredentials | null
  service_account: ServiceAccount | null
}
