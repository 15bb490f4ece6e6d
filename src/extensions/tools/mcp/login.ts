import type {
  AuthorizationServerMetadata,
  OAuthClientInformationMixed,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import { conflict, GatewayError, invalid, notFound } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import type { McpOauth, McpServerConfig } from '../../../config/tools.ts'
import type { Config } from '../../../config.ts'
import type { Actor } from '../../../resources/actor.ts'
import { createAuditEntry } from '../../../resources/audit/entry.ts'
import type { IdentityWorld } from '../../../resources/world.ts'
import { ToolFailure } from '../use-limit.ts'
import {
  createAuthorizationFetch,
  describeLogin,
  isErrorWord,
  loadAuthorization,
  readTokens,
  requireSecure,
  toAuthorizationFailure,
} from './authorization.ts'
import {
  type LoginWorld,
  type McpLogin,
  type McpLoginStore,
  readLogin,
  sealLogin,
} from './logins.ts'

/** What logging in needs from the gateway. */
export interface McpLoginWorld extends LoginWorld, IdentityWorld {
  config: Config
  clock: IdentityWorld['clock']
  ids: IdentityWorld['ids']
  secrets: IdentityWorld['secrets'] & LoginWorld['secrets']
  store: IdentityWorld['store'] & { mcpLogins: McpLoginStore }
}

/** What is known of the login at a server. */
export interface McpLoginState {
  label: string
  state: 'none needed' | 'client credentials' | 'logged in' | 'not logged in' | 'log in again'
  /** ISO 8601: when its token ends; null if that is not known. It may be refreshed. */
  expires_at: string | null
  issuer: string | null
  scope: string | null
}

/** A login that waits for a person. */
export interface BegunLogin {
  /** Where the person says yes. */
  url: string
  /** Ends it with what the person was sent back with. Throws why there are no tokens. */
  finish(answer: URLSearchParams): Promise<McpLoginState>
}

/** What is asked of the authorization server. */
interface Asked {
  metadata: AuthorizationServerMetadata
  client: OAuthClientInformationMixed
  resource: string | null
  scope: string | null
}

/** Lists the servers of the config, and what they know of the gateway. */
export async function listMcpLogins(world: McpLoginWorld): Promise<{ data: McpLoginState[] }> {
  const labels = Object.keys(world.config.mcp_servers)
  return { data: await Promise.all(labels.map(label => describeState(world, label))) }
}

async function describeState(world: McpLoginWorld, label: string): Promise<McpLoginState> {
  const { oauth } = requireSettings(world.config, label)
  const nobody = { label, expires_at: null, issuer: null, scope: null }
  if (!oauth) return { ...nobody, state: 'none needed' }
  if (oauth.grant !== 'authorization_code') return { ...nobody, state: 'client credentials' }
  const login = (await readLogin(world, label))?.login
  return login ? showLogin(label, login) : { ...nobody, state: 'not logged in' }
}

const showLogin = (
  label: string,
  { isOver, expires_at, issuer, scope }: McpLogin,
): McpLoginState => ({
  ...{ label, state: isOver ? 'log in again' : 'logged in' },
  ...{ expires_at, issuer, scope },
})

function requireSettings({ mcp_servers }: Config, label: string): McpServerConfig {
  const settings = Object.hasOwn(mcp_servers, label) ? mcp_servers[label] : undefined
  if (settings) return settings
  throw notFound(`There is no MCP server ${label}: mcp_servers of the config names them`)
}

function requireOauth(config: Config, label: string): { url: string; oauth: McpOauth } {
  const { url, oauth } = requireSettings(config, label)
  if (url !== undefined && oauth?.grant === 'authorization_code') return { url, oauth }
  throw invalid(`mcp_servers.${label}.oauth.grant: expected authorization_code to log in`)
}

/**
 * Begins to log in at a server of the config: finds who gives its tokens (RFC 9728, RFC 8414), makes
 * the gateway known there if the config does not say who it is (RFC 7591), and asks for a code with
 * PKCE. `redirectUrl` is where the person is sent back to. Throws 404 and 400 for a server that
 * nobody logs in at, and why the authorization server cannot be used.
 */
export async function beginLogin(
  world: McpLoginWorld,
  actor: Actor,
  label: string,
  redirectUrl: string,
): Promise<BegunLogin> {
  const { url, oauth } = requireOauth(world.config, label)
  const state = world.ids.secret()
  try {
    const library = await loadAuthorization()
    const asked = await findAuthorization(world, label, { url, oauth, redirectUrl })
    const { metadata, client, resource, scope } = asked
    const begun = await library.startAuthorization(metadata.issuer, {
      ...{ metadata, clientInformation: client, redirectUrl, state },
      ...(resource === null ? {} : { resource }),
      ...(scope === null ? {} : { scope }),
    })
    return {
      url: begun.authorizationUrl.href,
      async finish(answer) {
        const code = readCode(label, answer, { state, metadata })
        const login = await exchangeCode(world, label, asked, {
          ...{ url, code, redirectUrl, verifier: begun.codeVerifier },
        }).catch(thrown => {
          throw toLoginError(label, thrown)
        })
        const shown = showLogin(label, login)
        const entry = createAuditEntry(world, actor, 'mcp.login', named(label), null, shown)
        await world.store.mcpLogins.save(sealLogin(world, label, login), entry)
        return shown
      },
    }
  } catch (thrown) {
    throw toLoginError(label, thrown)
  }
}

const named = (label: string) => ({ id: label, workspace_id: null })

function toLoginError(label: string, thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown
  return new GatewayError('provider_unavailable', toAuthorizationFailure(label, thrown).message)
}

interface Sought {
  url: string
  oauth: McpOauth
  redirectUrl: string
}

async function findAuthorization(
  world: McpLoginWorld,
  label: string,
  { url, oauth, redirectUrl }: Sought,
): Promise<Asked> {
  const library = await loadAuthorization()
  const fetchFn = createAuthorizationFetch(world, url)
  const challenge = await askWithoutToken(fetchFn, url)
  const hint = library.extractWWWAuthenticateParams(challenge)
  const found = await library.discoverOAuthServerInfo(url, {
    fetchFn,
    ...(hint.resourceMetadataUrl ? { resourceMetadataUrl: hint.resourceMetadataUrl } : {}),
  })
  const { resourceMetadata } = found
  const metadata = checkMetadata(label, found)
  // Throws where the metadata is another resource's.
  await library.selectResourceURL(url, {} as never, resourceMetadata)
  const scope = oauth.scope ?? hint.scope ?? resourceMetadata?.scopes_supported?.join(' ') ?? null
  return {
    ...{ metadata, scope, resource: resourceMetadata?.resource ?? null },
    client: await findClient(fetchFn, label, { oauth, metadata, redirectUrl, scope }),
  }
}

/** Asks the server as nobody, to hear where its tokens are. */
const askWithoutToken = (fetchFn: ReturnType<typeof createAuthorizationFetch>, url: string) =>
  fetchFn(url, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  })

/** Returns what an authorization server says of itself. Throws where that cannot be trusted. */
function checkMetadata(
  label: string,
  {
    authorizationServerUrl,
    authorizationServerMetadata: metadata,
  }: { authorizationServerUrl: string; authorizationServerMetadata?: AuthorizationServerMetadata },
): AuthorizationServerMetadata {
  const fail = (why: string) => new ToolFailure(`The MCP server ${label} ${why}`)
  if (!metadata) throw fail('does not say where its tokens are')
  const isSame = trimSlash(metadata.issuer) === trimSlash(authorizationServerUrl)
  if (!isSame) throw fail('names an authorization server that says that it is another one')
  if (!metadata.code_challenge_methods_supported?.includes('S256'))
    throw fail('has an authorization server without PKCE (S256)')
  for (const address of [metadata.authorization_endpoint, metadata.token_endpoint])
    requireSecure(address)
  return metadata
}

const trimSlash = (url: string): string => url.replace(/\/$/, '')

async function findClient(
  fetchFn: ReturnType<typeof createAuthorizationFetch>,
  label: string,
  {
    oauth: { client_id, client_secret },
    metadata,
    redirectUrl,
    scope,
  }: Pick<Sought, 'oauth' | 'redirectUrl'> & Pick<Asked, 'metadata' | 'scope'>,
): Promise<OAuthClientInformationMixed> {
  if (client_id !== undefined)
    return { client_id, ...(client_secret === undefined ? {} : { client_secret }) }
  if (metadata.registration_endpoint === undefined)
    throw new ToolFailure(
      `The authorization server of the MCP server ${label} registers no clients by itself: ` +
        `make one there for ${redirectUrl} (--port), and give mcp_servers.${label}.oauth.client_id`,
    )
  const { registerClient } = await loadAuthorization()
  return registerClient(metadata.issuer, {
    ...{ metadata, fetchFn },
    clientMetadata: {
      client_name: 'gateway',
      redirect_uris: [redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
    ...(scope === null ? {} : { scope }),
  })
}

/**
 * Reads the code that a person was sent back with. Throws 409 for an answer to another question, and
 * 400 for one that has none.
 */
function readCode(
  label: string,
  answer: URLSearchParams,
  { state, metadata }: { state: string; metadata: AuthorizationServerMetadata },
): string {
  if (answer.get('state') !== state)
    throw conflict('The answer is none to this login (state): begin again')
  const issuer = answer.get('iss')
  const { authorization_response_iss_parameter_supported: saysIssuer } = metadata as Json
  if ((issuer !== null || saysIssuer === true) && issuer !== metadata.issuer)
    throw invalid('The answer is of another authorization server (iss): begin again')
  const error = answer.get('error')
  if (error !== null)
    throw invalid(`The login at ${label} was refused${isErrorWord(error) ? `: ${error}` : ''}`)
  const code = answer.get('code')
  if (!code) throw invalid('The answer has no code: begin again')
  return code
}

async function exchangeCode(
  world: McpLoginWorld,
  label: string,
  { metadata, client, resource, scope }: Asked,
  given: { url: string; code: string; redirectUrl: string; verifier: string },
): Promise<McpLogin> {
  const { exchangeAuthorization } = await loadAuthorization()
  const tokens = await exchangeAuthorization(metadata.issuer, {
    ...{ metadata, clientInformation: client, fetchFn: createAuthorizationFetch(world, given.url) },
    authorizationCode: given.code,
    codeVerifier: given.verifier,
    redirectUri: given.redirectUrl,
    ...(resource === null ? {} : { resource }),
  })
  const { token_endpoint_auth_methods_supported: auth_methods } = metadata
  const { revocation_endpoint } = metadata as Json
  return {
    ...{ url: given.url, issuer: metadata.issuer, token_endpoint: metadata.token_endpoint },
    revocation_endpoint: typeof revocation_endpoint === 'string' ? revocation_endpoint : null,
    auth_methods: auth_methods ?? [],
    client_id: client.client_id,
    client_secret: client.client_secret ?? null,
    ...{ resource, scope, isOver: false },
    ...readTokens(label, tokens, world.clock.now().getTime()),
  }
}

/**
 * Forgets the login at a server, and gives its tokens back where that can be done (RFC 7009). Throws
 * 404 where there is none.
 */
export async function logOut(
  world: McpLoginWorld,
  actor: Actor,
  label: string,
): Promise<{ data: McpLoginState & { revoked: boolean } }> {
  const stored = await world.store.mcpLogins.find(label)
  if (!stored) throw notFound(`Nobody is logged in at the MCP server ${label}`)
  const login = (await readLogin(world, label))?.login
  const before = login ? showLogin(label, login) : { label }
  const entry = createAuditEntry(world, actor, 'mcp.logout', named(label), before, null)
  await world.store.mcpLogins.remove(label, entry)
  const revoked = login ? await revoke(world, login).catch(() => false) : false
  const nobody = { label, expires_at: null, issuer: null, scope: null }
  return { data: { ...nobody, state: 'not logged in', revoked } }
}

/** Gives back the tokens of a login. Returns whether the authorization server has taken them. */
async function revoke(world: McpLoginWorld, login: McpLogin): Promise<boolean> {
  const { revocation_endpoint: url, refresh_token, access_token } = login
  if (url === null) return false
  requireSecure(url)
  const { clientInformation } = describeLogin(login)
  const { client_id, client_secret } = clientInformation
  const response = await createAuthorizationFetch(world, login.url)(url, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      ...{ token: refresh_token ?? access_token, client_id },
      token_type_hint: refresh_token === null ? 'access_token' : 'refresh_token',
      ...(client_secret === undefined ? {} : { client_secret }),
    }).toString(),
  })
  return response.ok
}
