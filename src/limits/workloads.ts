import { hashSecret } from '../base/credential.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { omitUndefined } from '../base/json.ts'
import { toNanos, toUsd } from '../base/money.ts'
import { handleEach, runAtOnce, runInTurns, type Work } from '../base/turns.ts'
import type { IssuerConfig } from '../config/workloads.ts'
import { findWorkspaceId, getOperator } from '../resources/actor.ts'
import { isUsable, KEY_MARKS } from '../resources/keys/mirror.ts'
import type { Key } from '../resources/keys/store.ts'
import {
  auditKey,
  buildKeyFields,
  createPlaintext,
  describeSecret,
  updateKey,
} from '../resources/keys.ts'
import { postponeExchange, refuseExchange } from '../resources/workloads/refusal.ts'
import type { TokenExchange } from '../resources/workloads/schema.ts'
import { type Subject, verifySubjectToken } from '../resources/workloads/subject-token.ts'
import type { IdentityWorld } from '../resources/world.ts'
import { assignKeys, findAssignment } from './assignments.ts'
import type { PolicyWorld } from './policy-world.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
const JWT = 'urn:ietf:params:oauth:token-type:jwt'
/** In seconds: the longest life of a token of ours (wire reference B.5). */
const LONGEST_LIFE = 900

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/**
 * Exchanges the token of a workload for a short-lived one of ours (RFC 8693), which calls accept
 * like the key of its subject. Throws 400 with a code of RFC 6749, and 503 where the issuer, the
 * workspace or the guardrail is missing.
 */
export async function exchangeToken(world: PolicyWorld, form: TokenExchange) {
  checkWords(form)
  const { federation_policy_id: policy, subject_token } = form
  const rule = requirePolicy(world, policy)
  const subject = await verifySubjectToken(world, rule, subject_token)
  const now = world.clock.now()
  const left = Math.floor(subject.expiresAt - now.getTime() / 1000)
  const seconds = Math.min(rule.token_seconds ?? LONGEST_LIFE, left)
  if (seconds < 1) throw refuseExchange('invalid_grant', 'subject_token: it is over')
  const { used } = world.workloads
  if (rule.single_use) await used.use(policy, subject, now)
  const access_token = await issueToken(world, { policy, rule, subject }, seconds).catch(
    async thrown => {
      // What got nothing for it may be asked again, as the refusal says.
      if (rule.single_use) await used.giveBack(policy, subject)
      throw thrown
    },
  )
  return {
    access_token,
    expires_in: seconds,
    issued_token_type: ACCESS_TOKEN,
    scope: 'inference',
    token_type: 'Bearer',
  }
}

/** Who is given a token, and by which policy. */
interface Grantee {
  policy: string
  rule: IssuerConfig
  subject: Subject
}

async function issueToken(
  world: PolicyWorld,
  { policy, rule, subject }: Grantee,
  seconds: number,
): Promise<string> {
  const { hash } = await provideKey(world, policy, rule, subject)
  await assignGuardrail(world, hash, rule.guardrail)
  const grant = { policy, issuer: rule.issuer, subject: subject.name, key_hash: hash }
  return world.workloads.tokens.sign(world, grant, seconds, world.ids.uuid())
}

function checkWords({
  grant_type,
  subject_token_type,
  requested_token_type,
  scope,
}: TokenExchange) {
  if (grant_type !== GRANT)
    throw refuseExchange('unsupported_grant_type', `grant_type: expected ${GRANT}`)
  if (subject_token_type !== JWT) throw invalid(`subject_token_type: expected ${JWT}`)
  if (requested_token_type !== undefined && requested_token_type !== ACCESS_TOKEN)
    throw invalid(`requested_token_type: expected ${ACCESS_TOKEN}`)
  if (scope !== undefined && scope !== 'inference')
    throw refuseExchange('invalid_scope', 'scope: expected inference')
}

// Without the guardrail that its policy names, a token could do more than it should.
async function assignGuardrail(world: PolicyWorld, hash: string, id: string | undefined) {
  if (id === undefined || findAssignment(world, 'key', hash)?.guardrail_id === id) return
  const guardrail = world.memory.guardrails.get(id)
  if (guardrail?.workspace_id !== world.memory.keys.get(hash)?.workspace_id)
    throw postponeExchange('The guardrail of this policy is not in its workspace', 60)
  await assignKeys(world, getOperator(world), id, { key_hashes: [hash] })
}

/** Lists the keys that access tokens are signed with (RFC 7517). */
export const listSigningKeys = ({ workloads, clock }: PolicyWorld) => ({
  keys: workloads.tokens.keys.listPublic(clock.now()),
})

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

/** Whether the store has other servers, too. */
interface SharingWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { shared?: object }
}

async function makeKey(world: SharingWorld, named: NamedKey): Promise<Key> {
  const known = world.memory.keys.get(named.hash)
  if (known) return adjustKey(world, known, named.rule)
  // Those that are about to be made count, too.
  const making = [...world.workloads.making].filter(
    ([hash, one]) => one.policy === namePolicy(named) && !world.memory.keys.has(hash),
  ).length
  const most = named.rule.most_subjects ?? MOST_SUBJECTS
  // Each is read and hashed: only where there are so many at all, while others have their turn.
  if (countSecretless(world, named) + making >= most)
    refuseMore(most, making + (await runInTurns(countOthers(named, listSecretless(world)))))
  const key = buildKey(world, named)
  try {
    const entry = auditKey(world, getOperator(world), null, key)
    const judge = (keys: NamedUser[]) => refuseMore(most, runAtOnce(countOthers(named, keys)))
    // Where other servers make keys, too, the store alone knows all of them.
    const bounds = world.store.shared && { most, judge }
    await world.store.keys.insert(key, entry, undefined, bounds)
  } catch (thrown) {
    return findMade(world, key.hash, thrown)
  }
  world.memory.keys.set(key)
  return key
}

type NamedUser = Pick<Key, 'hash' | 'external_user'>

/** Lists keys whose secret is another than their name says: those of subjects, whose was thrown away. */
const listSecretless = ({ memory: { keys } }: IdentityWorld): Iterable<Key> =>
  keys.listMarked(KEY_MARKS.rotated)

/** Counts those of the workspace, without reading them. */
function countSecretless({ memory: { keys } }: IdentityWorld, { workspace_id }: NamedKey): number {
  const count = (without: number) =>
    keys.pick({ isInGroup: id => id === workspace_id, without, order: 'oldest', count: 0 }).total
  return count(0) - count(KEY_MARKS.rotated)
}

/** Counts those of keys that other subjects of a policy have. */
function* countOthers(
  { hash: own, policy, rule, workspace_id }: NamedKey,
  keys: Iterable<NamedUser>,
): Work<number> {
  let count = 0
  const countOne = ({ hash, external_user: user }: NamedUser) => {
    const isOther = user !== null && hash !== own
    if (isOther && hash === nameKey(policy, rule.issuer, workspace_id, user)) count += 1
  }
  yield* handleEach(keys, countOne)
  return count
}

function refuseMore(most: number, count: number): void {
  if (count >= most)
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
