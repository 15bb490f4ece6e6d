import { hashSecret } from '../base/credential.ts'
import { GatewayError } from '../base/errors.ts'
import { omitUndefined } from '../base/json.ts'
import { toNanos, toUsd } from '../base/money.ts'
import type { IssuerConfig } from '../config/workloads.ts'
import { findWorkspaceId, getOperator } from './actor.ts'
import { isUsable, KEY_MARKS } from './keys/mirror.ts'
import type { Key } from './keys/store.ts'
import { auditKey, buildKeyFields, createPlaintext, describeSecret, updateKey } from './keys.ts'
import { postponeExchange, refuseExchange } from './workloads/refusal.ts'
import type { Subject } from './workloads/subject-token.ts'
import type { IdentityWorld } from './world.ts'

/** Returns the policy of an exchange. Throws 400 `invalid_grant` where there is none. */
export function requirePolicy({ config }: IdentityWorld, name: string): IssuerConfig {
  const { enabled, issuers } = config.oauth
  const rule = enabled && Object.hasOwn(issuers, name) ? issuers[name] : undefined
  if (!rule) throw refuseExchange('invalid_grant', 'federation_policy_id: no such policy')
  return rule
}

/** Names the key of a subject: the same for all of its tokens, and of no use as a secret. */
const nameKey = (policy: string, issuer: string, workspace_id: string, subject: string): string =>
  hashSecret(JSON.stringify(['workload', policy, issuer, workspace_id, subject]))

/**
 * Returns the key that a subject's tokens stand for, which counts what it spends: made at its first
 * exchange, and with the limit that the policy has now. Throws 400 `invalid_grant` where the key is
 * disabled and where there are too many subjects, and 503 where the workspace does not exist.
 */
export async function provideKey(
  world: IdentityWorld,
  policy: string,
  rule: IssuerConfig,
  { name }: Pick<Subject, 'name'>,
): Promise<Key> {
  await world.catchUp()
  const workspace_id = findWorkspaceId(world, rule)
  if (workspace_id === undefined)
    throw postponeExchange('The workspace of this policy does not exist', RETRY_SECONDS)
  const hash = nameKey(policy, rule.issuer, workspace_id, name)
  const { making } = world.workloads
  const named = { hash, policy, rule, workspace_id, subject: name }
  const made = making.get(hash)?.made ?? makeKey(world, named).finally(() => making.delete(hash))
  making.set(hash, { policy: namePolicy(named), made })
  const key = await made
  if (isUsable(key, world.clock.now())) return key
  throw refuseExchange('invalid_grant', 'The key of this subject is disabled')
}

const RETRY_SECONDS = 60

/** The most subjects of a policy that says nothing else. */
const MOST_SUBJECTS = 1_000

interface NamedKey {
  hash: string
  policy: string
  rule: IssuerConfig
  workspace_id: string
  subject: string
}

/** Names what has its own count of subjects. */
const namePolicy = ({ policy, rule, workspace_id }: NamedKey): string =>
  JSON.stringify([policy, rule.issuer, workspace_id])

async function makeKey(world: IdentityWorld, named: NamedKey): Promise<Key> {
  const known = world.memory.keys.get(named.hash)
  if (known) return adjustKey(world, known, named.rule)
  // They have a secret that was thrown away.
  const own = [...world.memory.keys.listMarked(KEY_MARKS.rotated)]
  // And those that are about to be.
  const making = [...world.workloads.making].filter(
    ([hash, one]) => one.policy === namePolicy(named) && !world.memory.keys.has(hash),
  )
  refuseMore(named, own, making.length)
  const key = buildKey(world, named)
  try {
    const entry = auditKey(world, getOperator(world), null, key)
    // Other servers make keys too.
    await world.store.keys.insert(key, entry, undefined, keys => refuseMore(named, keys))
  } catch (thrown) {
    return findMade(world, key.hash, thrown)
  }
  world.memory.keys.set(key)
  return key
}

/**
 * Throws 400 where these keys, and those that are being made, have as many other subjects of a policy
 * as it may have.
 */
function refuseMore(
  { hash: own, policy, rule, workspace_id }: NamedKey,
  keys: Pick<Key, 'hash' | 'external_user'>[],
  making = 0,
): void {
  const others = keys.filter(
    ({ hash, external_user: user }) =>
      user !== null && hash !== own && hash === nameKey(policy, rule.issuer, workspace_id, user),
  )
  const count = others.length + making
  if (count >= (rule.most_subjects ?? MOST_SUBJECTS))
    throw refuseExchange('invalid_grant', `This policy has ${count} subjects already`)
}

/** Finds the key that another server has made at the same moment. Throws what has happened else. */
async function findMade(world: IdentityWorld, hash: string, thrown: unknown): Promise<Key> {
  if (!(thrown instanceof GatewayError) || thrown.type !== 'conflict') throw thrown
  await world.catchUp()
  const made = world.memory.keys.get(hash)
  if (!made) throw thrown
  return made
}

// The secret is thrown away: the key has one, so that its hash, which can be computed, opens nothing.
function buildKey(world: IdentityWorld, { hash, policy, rule, workspace_id, subject }: NamedKey) {
  const input = { name: `${policy}: ${subject}`, external: { user: subject } }
  const limits = omitUndefined({ limit: rule.limit, limit_reset: rule.limit_reset })
  const secret = describeSecret(createPlaintext(world))
  const key: Key = {
    ...buildKeyFields({ ...input, ...limits }, world.clock.now()),
    ...secret,
    hash,
    secret_hash: secret.hash,
    kind: 'inference',
    workspace_id,
    isUnscoped: rule.workspace === undefined,
    creator_user_id: world.memory.owner.user_id,
  }
  return key
}

async function adjustKey(world: IdentityWorld, key: Key, rule: IssuerConfig): Promise<Key> {
  const limit = rule.limit === undefined ? null : toNanos(rule.limit)
  const limit_reset = rule.limit_reset ?? null
  if (key.limit === limit && key.limit_reset === limit_reset) return key
  const change = { limit: limit === null ? null : toUsd(limit), limit_reset }
  await updateKey(world, getOperator(world), key.hash, change)
  return world.memory.keys.get(key.hash) ?? key
}
