import { timingSafeEqual } from 'node:crypto'
import { getIsoTime } from '../base/clock.ts'
import { addChecksum, hashSecret } from '../base/credential.ts'
import { denied, GatewayError, invalid } from '../base/errors.ts'
import { toNanos, toUsd } from '../base/money.ts'
import type { Config } from '../config.ts'
import type { Actor } from './actor.ts'
import { buildKeyActor } from './actor.ts'
import { defineAudit } from './audit/entry.ts'
import type { AuthCodeExchange, ConsentQuery, NewAuthCode } from './auth-codes/schema.ts'
import type { AuthCode, AuthCodeStore } from './auth-codes/store.ts'
import { isUsable } from './keys/mirror.ts'
import type { Key } from './keys/store.ts'
import { createKey } from './keys.ts'
import type { IdentityWorld } from './world.ts'

/** The parts of the gateway that codes need: whether a guardrail binds a key, too. */
interface AuthCodeWorld extends IdentityWorld {
  config: Config
  store: IdentityWorld['store'] & { authCodes: AuthCodeStore }
  memory: IdentityWorld['memory'] & {
    /** Knows by its hash whether a key has a guardrail of its own. */
    assignments: { has(hash: string): boolean }
  }
}

/** In milliseconds: how long a code can be exchanged (wire reference B.5). */
const LIFETIME = 600_000

/** How many codes of one key, or of a member's consents, may wait to be exchanged. */
const MOST_WAITING = 100

/** What a code is made of. */
type CodeFields = Omit<AuthCode, 'hash' | 'created_at'>

/**
 * Creates a code that an app exchanges for a key of the same user and workspace as the calling key.
 * Throws 400 for a callback that is neither https nor on this machine, for a time in the past and
 * for what has no effect; 403 where apps get no keys, and for a key that a limit, an expiry or a
 * guardrail binds, as the new key would be free of it; 409 where 100 codes of the key wait.
 */
export async function createAuthCode(world: AuthCodeWorld, actor: Actor, input: NewAuthCode) {
  requireEnabled(world)
  refuseToken(actor)
  if (actor.kind !== 'inference') throw denied('Management keys create keys themselves')
  checkWithoutEffect(input)
  requireUnbound(world, actor.key_hash)
  const { workspace_id = actor.workspace_id, limit, expires_at = null } = input
  if (workspace_id !== actor.workspace_id)
    throw invalid('workspace_id: expected the workspace of the key', 'workspace_id')
  if (expires_at !== null && new Date(expires_at) <= world.clock.now())
    throw invalid('expires_at: expected a time in the future', 'expires_at')
  return issueCode(world, actor, {
    ...readChallenge(input),
    ...{ user_id: actor.user_id, workspace_id, key_hash: actor.key_hash, expires_at },
    callback_url: checkCallback(input.callback_url),
    key_label: input.key_label ?? new URL(input.callback_url).host,
    limit: limit === undefined ? null : toNanos(limit),
    limit_reset: input.usage_limit_type ?? null,
  })
}

/** Creates the code that a member has consented to. Throws as `createAuthCode` does. */
export const createConsentedCode = (
  world: AuthCodeWorld,
  actor: Actor,
  query: ConsentQuery,
  limit: number | null,
) =>
  issueCode(world, actor, {
    ...readChallenge(query),
    ...{ user_id: actor.user_id, workspace_id: actor.workspace_id, key_hash: null },
    callback_url: query.callback_url ?? null,
    key_label: nameApp(query),
    limit: limit === null ? null : toNanos(limit),
    ...{ limit_reset: null, expires_at: null },
  })

/**
 * Checks what an app asks of a member. Throws 403 where apps get no keys, and 400 for a callback as
 * `createAuthCode` does, and where there is neither a callback nor a challenge.
 */
export function checkConsentQuery(world: AuthCodeWorld, query: ConsentQuery): void {
  requireEnabled(world)
  readChallenge(query)
  if (query.callback_url !== undefined) checkCallback(query.callback_url)
  else if (query.code_challenge === undefined)
    throw invalid('code_challenge: expected one where there is no callback_url', 'code_challenge')
}

/** Returns the name of the app that asks. */
export const nameApp = ({ key_label, callback_url }: ConsentQuery): string =>
  key_label ?? (callback_url === undefined ? 'app' : new URL(callback_url).host)

const auditCode = defineAudit<CodeFields & { id: string }>('auth_codes', {
  identify: ({ id, workspace_id }) => ({ id, workspace_id }),
  show: ({ id: _, code_challenge: __, limit, ...shown }) => ({
    ...shown,
    limit: limit === null ? null : toUsd(limit),
  }),
})

async function issueCode(world: AuthCodeWorld, actor: Actor, fields: CodeFields) {
  const code = addChecksum(`gw-code-v1-${world.ids.secret()}`)
  const created_at = getIsoTime(world)
  const hash = hashSecret(code)
  const entry = auditCode(world, actor, null, { ...fields, id: hash })
  await world.store.authCodes.insert(
    { ...fields, hash, created_at },
    findOldest(world),
    MOST_WAITING,
    entry,
  )
  return { data: { id: code, app_id: computeAppId(fields.callback_url), created_at } }
}

/** Returns the time from which on codes can be exchanged. */
const findOldest = ({ clock }: AuthCodeWorld): string =>
  new Date(clock.now().getTime() - LIFETIME).toISOString()

/** Computes the number of an app from where its codes go. */
const computeAppId = (callback_url: string | null): number =>
  callback_url === null ? 0 : Bun.hash.crc32(new URL(callback_url).origin)

// A token ends within minutes, and so must not make what does not.
function refuseToken({ isToken }: Actor): void {
  if (isToken) throw denied('A short-lived token cannot make codes')
}

function requireEnabled({ config }: AuthCodeWorld): void {
  if (!config.oauth.enabled) throw denied('oauth.enabled is false: apps get no keys here')
}

function checkWithoutEffect({ spawn_agent, spawn_cloud, usage_limit_type, limit }: NewAuthCode) {
  if (spawn_agent !== undefined)
    throw invalid('spawn_agent: expected nothing, as it has no effect here', 'spawn_agent')
  if (spawn_cloud !== undefined)
    throw invalid('spawn_cloud: expected nothing, as it has no effect here', 'spawn_cloud')
  if (usage_limit_type !== undefined && limit === undefined)
    throw invalid('usage_limit_type: expected a limit beside it', 'usage_limit_type')
}

// A code makes a key: what binds one key must not be shaken off by making another.
function requireUnbound(world: AuthCodeWorld, hash: string | null): Key {
  const key = world.memory.keys.get(hash ?? '')
  if (!key || !isUsable(key, world.clock.now())) throw denied(INVALID)
  const bound =
    key.limit !== null
      ? 'a limit'
      : key.expires_at !== null
        ? 'an expiry'
        : world.memory.assignments.has(key.hash)
          ? 'a guardrail'
          : null
  if (bound !== null) throw denied(`A key with ${bound} cannot make codes for other keys`)
  return key
}

function readChallenge({ code_challenge, code_challenge_method }: ConsentQuery) {
  if (code_challenge === undefined && code_challenge_method !== undefined)
    throw invalid('code_challenge: expected one with code_challenge_method', 'code_challenge')
  return {
    code_challenge: code_challenge ?? null,
    // RFC 7636, 4.3: plain if no method is named.
    code_challenge_method: code_challenge === undefined ? null : (code_challenge_method ?? 'plain'),
  }
}

const LOCAL = ['localhost', '127.0.0.1', '[::1]']

/** Returns the callback. Throws 400 for one that is neither https nor on the user's machine. */
function checkCallback(callback_url: string): string {
  const url = URL.parse(callback_url)
  const isSafe =
    url?.protocol === 'https:' || (url?.protocol === 'http:' && LOCAL.includes(url.hostname))
  if (!url || !isSafe || url.username || url.password || callback_url.includes('#'))
    throw invalid('callback_url: expected https, or http at localhost or 127.0.0.1', 'callback_url')
  return callback_url
}

const INVALID = 'Invalid code or code_verifier'

/**
 * Exchanges a code for a key, once. Throws 400 for another method than that of the code, and 403,
 * always with the same sentence, for a code that is unknown, used or older than ten minutes, for a
 * wrong verifier, and where its maker is gone. A code is used up by a failure, too.
 */
export async function exchangeAuthCode(
  world: AuthCodeWorld,
  { code, code_verifier, code_challenge_method }: AuthCodeExchange,
) {
  requireEnabled(world)
  const taken = await world.store.authCodes.take(hashSecret(code))
  if (!taken || taken.created_at <= findOldest(world)) throw denied(INVALID)
  if (code_challenge_method != null && code_challenge_method !== taken.code_challenge_method)
    throw invalid('code_challenge_method: expected that of the code', 'code_challenge_method')
  if (!isVerified(taken, code_verifier)) throw denied(INVALID)
  const { key } = await createGrantedKey(world, taken)
  return { key, user_id: taken.user_id }
}

function isVerified({ code_challenge, code_challenge_method }: AuthCode, verifier?: string) {
  // A verifier for a code without a challenge: someone has taken the challenge away.
  if (code_challenge === null || verifier === undefined)
    return code_challenge === null && verifier === undefined
  const computed =
    code_challenge_method === 'S256'
      ? Buffer.from(Bun.CryptoHasher.hash('sha256', verifier, 'base64url'))
      : Buffer.from(verifier)
  const expected = Buffer.from(code_challenge)
  return computed.length === expected.length && timingSafeEqual(computed, expected)
}

async function createGrantedKey(world: AuthCodeWorld, code: AuthCode) {
  // Another process may have deleted the key, or limited it, since.
  await world.catchUp()
  const { user_id, workspace_id, limit, limit_reset, expires_at, key_hash, key_label } = code
  const actor: Actor =
    key_hash === null
      ? { kind: 'member', user_id, workspace_id, key_hash }
      : buildKeyActor(world, requireUnbound(world, key_hash))
  try {
    return await createKey(world, actor, {
      name: key_label,
      workspace_id,
      creator_user_id: user_id,
      ...(limit === null ? {} : { limit: toUsd(limit) }),
      ...{ limit_reset, expires_at },
    })
  } catch (thrown) {
    // The member has left, or the workspace is gone.
    if (GatewayError.from(thrown).status === 400) throw denied(INVALID)
    throw thrown
  }
}
