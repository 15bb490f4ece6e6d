import type { Ids } from '../../../base/ids.ts'
import type { Seal } from '../../../base/seal.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import type { AuditEntry } from '../../../resources/audit/store.ts'
import type { Marks } from '../../../resources/workloads/used-tokens.ts'

/** What a person has given the gateway for a server of the config, by the server's label. */
export interface StoredLogin {
  label: string
  /** The login as JSON, sealed for this label. */
  sealed: string
  /** ISO 8601. */
  updated_at: string
}

/** Stores logins at MCP servers, one for each server. */
export interface McpLoginStore {
  find(label: string): Promise<StoredLogin | undefined>
  /** Stores a login, in place of one that is there. */
  save(login: StoredLogin, entry: AuditEntry): Promise<void>
  /** Replaces a login if it is still the one that was sealed so. Returns whether it was. */
  replace(login: StoredLogin, before: string): Promise<boolean>
  remove(label: string, entry: AuditEntry): Promise<void>
}

/** A login at an MCP server: who the gateway is there, and its tokens. */
export interface McpLogin {
  /** The address of the server that the tokens are for: they are sent to no other origin. */
  url: string
  /** Who gives the tokens. */
  issuer: string
  token_endpoint: string
  /** Where a token is given back; null if nowhere. */
  revocation_endpoint: string | null
  /** How clients may say who they are there; empty if that is not said. */
  auth_methods: string[]
  client_id: string
  /** Null for a client that has none. */
  client_secret: string | null
  /** What the tokens are asked for (RFC 8707); null if the server does not say. */
  resource: string | null
  scope: string | null
  access_token: string
  /** Null if none was given: a person logs in again at the end. */
  refresh_token: string | null
  /** ISO 8601; null if no end is known. */
  expires_at: string | null
  /** ISO 8601: from when on it is refreshed; null if only once it is refused. */
  refresh_at: string | null
  /** Whether a person has to log in again: the tokens are refused. */
  isOver: boolean
}

/** What reads and writes logins. */
export interface LoginWorld extends UpstreamWorld {
  ids: Ids
  secrets: { destinationSeal(): Seal }
  store: { mcpLogins: McpLoginStore; shared?: { marks: Marks } }
}

/** A login, and how it is stored now. */
export interface OpenedLogin {
  login: McpLogin
  sealed: string
}

/** Reads a login. Null if there is none, or if it was sealed with another secret. */
export async function readLogin(world: LoginWorld, label: string): Promise<OpenedLogin | null> {
  const stored = await world.store.mcpLogins.find(label)
  const text = stored && world.secrets.destinationSeal().open(stored.sealed, label)
  return stored && text !== undefined
    ? { login: JSON.parse(text) as McpLogin, sealed: stored.sealed }
    : null
}

/** Seals a login as it is stored. */
export function sealLogin(world: LoginWorld, label: string, login: McpLogin): StoredLogin {
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  const sealed = world.secrets.destinationSeal().seal(JSON.stringify(login), label, nonce)
  return { label, sealed, updated_at: world.clock.now().toISOString() }
}

/** Lists what no result and no error may show of a login. */
export const listLoginSecrets = (login: McpLogin): string[] =>
  [login.access_token, login.refresh_token, login.client_secret].filter(one => one !== null)
