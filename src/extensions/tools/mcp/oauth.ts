import { Cancellation } from '../../../base/cancellation.ts'
import { parseCount, parseObject } from '../../../base/json.ts'
import type { McpOauth } from '../../../config/tools.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import { runLimited, ToolFailure } from '../use-limit.ts'

/** What is known of the tokens of one server. */
interface TokenState {
  token: string | null
  /** In steady milliseconds. */
  expiresAt: number
  /** The exchange that runs: simultaneous uses share it. */
  exchange: Promise<string> | null
}

// Weak, so that the tokens of settings that the config has dropped are collected with them.
const states = new WeakMap<McpOauth, TokenState>()

/**
 * Returns a token for a server, which is used until shortly before its end. Throws `ToolFailure` if
 * there is none, without words of the authorization server.
 */
export function getToken(world: UpstreamWorld, label: string, oauth: McpOauth): Promise<string> {
  const state = states.get(oauth) ?? { token: null, expiresAt: 0, exchange: null }
  states.set(oauth, state)
  if (state.token !== null && world.clock.ticks() < state.expiresAt)
    return Promise.resolve(state.token)
  state.exchange ??= exchange(world, label, oauth, state).finally(() => {
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
export function listTokens(oauth: McpOauth): string[] {
  const token = states.get(oauth)?.token ?? null
  return token === null ? [] : [token]
}

const LONGEST_EXCHANGE = 10_000
const LARGEST_ANSWER = 64 * 1024
/** In seconds: for how long a token is used of which no end is known, and the most. */
const UNKNOWN_LIFE = 300
const LONGEST_LIFE = 86_400
/** In seconds: how long before its end a token is no longer used, as calls take some time. */
const MARGIN = 60

// It has its own time, so that a caller who leaves does not end it for the others.
async function exchange(
  world: UpstreamWorld,
  label: string,
  oauth: McpOauth,
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
  state.expiresAt = startedAt + (seconds - Math.min(MARGIN, seconds / 2)) * 1000
  return access_token
}

function buildRequest({ token_url, client_id, client_secret, scope, resource }: McpOauth) {
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
