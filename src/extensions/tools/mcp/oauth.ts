import { Cancellation } from '../../../base/cancellation.ts'
import { parseCount, parseObject } from '../../../base/json.ts'
import type { McpOauth } from '../../../config/tools.ts'
import { runLimited, ToolFailure } from '../use-limit.ts'
import {
  createAuthorizationFetch,
  describeLogin,
  loadAuthorization,
  readTokens,
  toAuthorizationFailure,
} from './authorization.ts'
import {
  type LoginWorld,
  listLoginSecrets,
  type McpLogin,
  type OpenedLogin,
  readLogin,
  sealLogin,
} from './logins.ts'

/** What is known of the tokens of one server. */
interface TokenState {
  token: string | null
  /** In steady milliseconds. */
  expiresAt: number
  /** The exchange that runs: simultaneous uses share it. */
  exchange: Promise<string> | null
  /** What no result may show. */
  secrets: string[]
}

// Weak, so that the tokens of settings that the config has dropped are collected with them.
const states = new WeakMap<McpOauth, TokenState>()

/**
 * Returns a token for a server, which is used until shortly before its end. Throws `ToolFailure` if
 * there is none, without words of the authorization server.
 */
export function getToken(world: LoginWorld, label: string, oauth: McpOauth): Promise<string> {
  const state = states.get(oauth) ?? { token: null, expiresAt: 0, exchange: null, secrets: [] }
  states.set(oauth, state)
  if (oauth.grant === 'authorization_code') return getLoginToken(world, label, state)
  if (state.token !== null && world.clock.ticks() < state.expiresAt)
    return Promise.resolve(state.token)
  state.exchange ??= exchange(world, label, oauth as ClientOauth, state).finally(() => {
    state.exchange = null
  })
  return state.exchange
}

/** Forgets a token that its server refuses, unless there is a newer one. */
export function dropToken(oauth: McpOauth, token: string): void {
  const state = states.get(oauth)
  if (state?.token === token) state.expiresAt = Number.NEGATIVE_INFINITY
}

/** Lists the tokens that no result may show. */
export const listTokens = (oauth: McpOauth): string[] => states.get(oauth)?.secrets ?? []

/** Settings with which the gateway is a client of its own: `findServerContradiction` sees to that. */
type ClientOauth = McpOauth & Record<'token_url' | 'client_id' | 'client_secret', string>

/**
 * Returns the token of the person who has logged in, which is refreshed shortly before its end. It
 * is read each time: a command may log in beside the server.
 */
async function getLoginToken(world: LoginWorld, label: string, state: TokenState): Promise<string> {
  const opened = await readLogin(world, label)
  const login = opened?.login
  // The config may have moved the server since: its token goes to nobody else.
  if (!login || login.isOver || login.url !== world.config.mcp_servers[label]?.url)
    throw needsLogin(label)
  const isRefused = state.token === login.access_token && state.expiresAt < 0
  const end = login.refresh_token === null ? login.expires_at : login.refresh_at
  if (!isRefused && (end === null || world.clock.now().toISOString() < end))
    return useLogin(state, login)
  state.exchange ??= refresh(world, label, opened, state).finally(() => {
    state.exchange = null
  })
  return state.exchange
}

function useLogin(state: TokenState, login: McpLogin): string {
  if (state.token !== login.access_token) state.expiresAt = 0
  state.token = login.access_token
  state.secrets = listLoginSecrets(login)
  return login.access_token
}

/** In seconds: how long one server of a store refreshes a login at most, and others leave it alone. */
const REFRESH_SECONDS = 60

/** Refreshes a login at one server of a store alone: who uses a refresh token twice may lose it. */
async function refresh(
  world: LoginWorld,
  label: string,
  opened: OpenedLogin,
  state: TokenState,
): Promise<string> {
  const marks = world.store.shared?.marks
  if (!marks) return refreshHere(world, label, opened, state)
  const mark = `refresh ${label} ${Bun.CryptoHasher.hash('sha256', opened.sealed, 'hex')}`
  if (!(await marks.add(mark, REFRESH_SECONDS)))
    return useLogin(state, await awaitRefreshed(world, label, opened))
  return refreshHere(world, label, opened, state).catch(async thrown => {
    await marks.remove(mark).catch(() => undefined)
    throw thrown
  })
}

/** In milliseconds: how long another server may refresh a login, and between looks. */
const LONGEST_REFRESH = 15_000
const LOOK = 100

/** Waits for the login that another server gets. Throws `ToolFailure` where that takes too long. */
async function awaitRefreshed(
  world: LoginWorld,
  label: string,
  { sealed }: OpenedLogin,
): Promise<McpLogin> {
  for (let waited = 0; waited < LONGEST_REFRESH; waited += LOOK) {
    const newest = await readLogin(world, label)
    if (!newest || newest.login.isOver) throw needsLogin(label)
    if (newest.sealed !== sealed) return newest.login
    await Bun.sleep(LOOK)
  }
  throw new ToolFailure(`The token of the MCP server ${label} is still being refreshed: try again`)
}

/** Exchanges the tokens of a login for new ones, which are stored before they are used. */
async function refreshHere(
  world: LoginWorld,
  label: string,
  { login, sealed }: OpenedLogin,
  state: TokenState,
): Promise<string> {
  const next = login.refresh_token === null ? null : await askAgain(world, label, login)
  const changed = next ?? { ...login, isOver: true }
  const isStored = await world.store.mcpLogins.replace(sealLogin(world, label, changed), sealed)
  // Meanwhile a person has logged in again, or another process has refreshed it.
  const newest = isStored ? changed : (await readLogin(world, label))?.login
  if (!newest || newest.isOver) throw needsLogin(label)
  return useLogin(state, newest)
}

/** Asks for new tokens. Null where the authorization server has refused the old ones for good. */
async function askAgain(
  world: LoginWorld,
  label: string,
  login: McpLogin,
): Promise<McpLogin | null> {
  try {
    const { refreshAuthorization } = await loadAuthorization()
    const tokens = await refreshAuthorization(login.issuer, {
      ...describeLogin(login),
      refreshToken: login.refresh_token ?? '',
      fetchFn: createAuthorizationFetch(world, login.url),
    })
    return { ...login, ...readTokens(label, tokens, world.clock.now().getTime()) }
  } catch (thrown) {
    const failure = toAuthorizationFailure(label, thrown)
    if (failure.item.error === 'invalid_grant' || failure.item.error === 'invalid_client')
      return null
    throw failure
  }
}

const needsLogin = (label: string) =>
  new ToolFailure(`The MCP server ${label} needs a person who logs in: gateway mcp login ${label}`)

const LONGEST_EXCHANGE = 10_000
const LARGEST_ANSWER = 64 * 1024
/** In seconds: for how long a token is used of which no end is known, and the most. */
const UNKNOWN_LIFE = 300
const LONGEST_LIFE = 86_400
/** In seconds: how long before its end a token is no longer used, as calls take some time. */
const MARGIN = 60

// It has its own time, so that a caller who leaves does not end it for the others.
async function exchange(
  world: LoginWorld,
  label: string,
  oauth: ClientOauth,
  state: TokenState,
): Promise<string> {
  const startedAt = world.clock.ticks()
  const fail = (why: string) =>
    new ToolFailure(`The authorization server of the MCP server ${label} ${why}`)
  const text = await runLimited(new Cancellation(), LONGEST_EXCHANGE, async limit => {
    const incoming = await world.egress.send(buildRequest(oauth), limit.open())
    if (incoming.status !== 200) throw fail(`answered with the status ${incoming.status}`)
    return incoming.text(LARGEST_ANSWER, () => undefined)
  }).catch(thrown => {
    throw thrown instanceof ToolFailure ? thrown : fail('gave no answer that can be read')
  })
  const { access_token, token_type = 'Bearer', expires_in } = parseObject(text) ?? {}
  // Any other character could end the header and begin another.
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw fail('gave no token')
  if (String(token_type).toLowerCase() !== 'bearer') throw fail('gave a token of another type')
  const seconds = Math.min(parseCount(expires_in) ?? UNKNOWN_LIFE, LONGEST_LIFE)
  state.token = access_token
  state.secrets = [access_token, oauth.client_secret]
  state.expiresAt = startedAt + (seconds - Math.min(MARGIN, seconds / 2)) * 1000
  return access_token
}

function buildRequest({ token_url, client_id, client_secret, scope, resource }: ClientOauth) {
  // RFC 6749, 2.3.1: both are encoded as in a form first.
  const credentials = [client_id, client_secret].map(encodeURIComponent).join(':')
  return {
    url: token_url,
    headers: {
      ...{ accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': 'gateway' },
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope === undefined ? {} : { scope }),
      ...(resource === undefined ? {} : { resource }),
    }).toString(),
  }
}
