import type {
  AuthorizationServerMetadata,
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import { Cancellation } from '../../../base/cancellation.ts'
import { isLoopback } from '../../../base/machine.ts'
import { checkUntrustedUrl } from '../../../network/untrusted-url.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import { runLimited, ToolFailure } from '../use-limit.ts'
import type { McpLogin } from './logins.ts'

const LONGEST_REQUEST = 10_000
const LARGEST_ANSWER = 256 * 1024

/** Loads what speaks to authorization servers: on first use, as few gateways need it. */
export const loadAuthorization = () => import('@modelcontextprotocol/sdk/client/auth.js')

/**
 * Creates the `fetch` with which authorization servers are asked, over the gateway's own way out:
 * ten seconds and 256 KiB at most, no redirect is followed, and what another server has named is
 * public, or private by the operator's leave. `trusted` is an address of the config.
 */
export const createAuthorizationFetch =
  (world: UpstreamWorld, trusted: string) =>
  (address: string | URL, init: RequestInit = {}): Promise<Response> =>
    runLimited(new Cancellation(), LONGEST_REQUEST, async limit => {
      const url = String(address)
      const isTrusted = new URL(url).origin === new URL(trusted).origin
      const checked = isTrusted ? { url } : await limit.race(checkPublic(world, url))
      if (!isTrusted) requireSecure(url)
      const { method = 'GET', body } = init
      const incoming = await world.egress.send(
        {
          method: method as 'GET' | 'POST',
          ...checked,
          headers: { ...HEADERS, ...Object.fromEntries(new Headers(init.headers)) },
          body: body === undefined || body === null ? '' : String(body),
        },
        limit.open(),
      )
      const { status } = incoming
      const headers = new Headers()
      for (const name of ['content-type', 'www-authenticate']) {
        const value = incoming.header(name)
        if (value !== null) headers.set(name, value)
      }
      const text = await incoming.text(LARGEST_ANSWER, () => undefined)
      return new Response(NO_BODY.has(status) ? null : text, { status, headers })
    })

const HEADERS = { 'accept-encoding': 'identity', 'user-agent': 'gateway' }
const NO_BODY = new Set([204, 205, 304])

const checkPublic = (world: UpstreamWorld, url: string) =>
  checkUntrustedUrl(world, url).catch(() => {
    throw new ToolFailure(
      'The authorization server is not at a public address (security.allow_private_urls)',
    )
  })

/** Throws for an address that would send a secret in the clear over a network. */
export function requireSecure(url: string): void {
  const { protocol, hostname } = new URL(url)
  if (protocol !== 'https:' && !(protocol === 'http:' && isLoopback(hostname)))
    throw new ToolFailure('The authorization server is not at an https URL')
}

/** Converts what an authorization server has said to our own words: its own may hold a secret. */
export function toAuthorizationFailure(label: string, thrown: unknown): ToolFailure {
  if (thrown instanceof ToolFailure) return thrown
  const word =
    typeof thrown === 'object' && thrown !== null && 'errorCode' in thrown ? thrown.errorCode : null
  // The library calls so what it cannot read.
  const isNamed = isErrorWord(word) && word !== 'server_error'
  const why = isNamed ? `refused: ${word}` : 'gave no answer that can be used'
  return new ToolFailure(
    `The authorization server of the MCP server ${label} ${why}`,
    isNamed ? { error: word } : {},
  )
}

/** Whether a text is a word that names an error (RFC 6749, 5.2). */
export const isErrorWord = (word: unknown): word is string =>
  typeof word === 'string' && /^[a-z_]{1,40}$/.test(word)

/** Reads the tokens of an answer. Throws `ToolFailure` for what can be no header. */
export function readTokens(
  label: string,
  { access_token, token_type, refresh_token, expires_in, scope }: OAuthTokens,
  now: number,
): Pick<McpLogin, (typeof TOKEN_FIELDS)[number]> & { scope?: string } {
  const fail = (why: string) =>
    new ToolFailure(`The authorization server of the MCP server ${label} ${why}`)
  // Any other character could end the header and begin another.
  if (!/^[\x21-\x7e]+$/.test(access_token)) throw fail('gave no token')
  if (token_type.toLowerCase() !== 'bearer') throw fail('gave a token of another type')
  const seconds = expires_in === undefined ? null : Math.min(Math.max(expires_in, 0), YEAR)
  const tell = (seconds: number) => new Date(now + seconds * 1000).toISOString()
  return {
    access_token,
    refresh_token: refresh_token ?? null,
    expires_at: seconds === null ? null : tell(seconds),
    refresh_at: seconds === null ? null : tell(seconds - Math.min(MARGIN, seconds / 2)),
    ...(scope === undefined ? {} : { scope }),
  }
}

const TOKEN_FIELDS = ['access_token', 'refresh_token', 'expires_at', 'refresh_at'] as const

/** In seconds: how long before its end a token is refreshed, as calls take some time. */
const MARGIN = 60

/** In seconds: the longest life of a token that is believed. */
const YEAR = 366 * 86_400

/** What the library needs to know to ask for tokens of a login. */
export function describeLogin(login: McpLogin): {
  metadata: AuthorizationServerMetadata
  clientInformation: OAuthClientInformationMixed
  resource?: string
} {
  const { issuer, token_endpoint, auth_methods, client_id, client_secret, resource } = login
  return {
    metadata: {
      ...{ issuer, token_endpoint, authorization_endpoint: issuer },
      response_types_supported: ['code'],
      ...(auth_methods.length > 0 ? { token_endpoint_auth_methods_supported: auth_methods } : {}),
    },
    clientInformation: { client_id, ...(client_secret === null ? {} : { client_secret }) },
    ...(resource === null ? {} : { resource }),
  }
}
