import { getIsoTime, type Period, yieldToEventLoop } from '../base/clock.ts'
import { addChecksum, hashSecret, maskSecret } from '../base/credential.ts'
import { conflict, denied, invalid, requireFound } from '../base/errors.ts'
import { omitUndefined, pickDefined } from '../base/json.ts'
import { overlay } from '../base/mirror.ts'
import { toNanos, toUsd } from '../base/money.ts'
import { compareTexts } from '../base/sorting.ts'
import type { Region } from '../language/call.ts'
import {
  type Actor,
  canManageAll,
  listOwnWorkspaces,
  requireManaged,
  resolveWorkspaceId,
} from './actor.ts'
import { defineAudit } from './audit/entry.ts'
import { KEY_MARKS } from './keys/mirror.ts'
import { KeyChange, type KeyListQuery, type NewKey } from './keys/schema.ts'
import type { ChangingKey, Key, MakerBounds } from './keys/store.ts'
import { getOrganizationId } from './organization.ts'
import type { IdentityWorld } from './world.ts'

/**
 * Creates an API key. The plaintext leaves here once and is never stored: only its hash is. Throws
 * 400 for an `expires_at` in the past or a workspace that does not exist. Throws 400 for a creator
 * who has left or whom the actor may not name.
 */
export async function createKey(
  world: IdentityWorld,
  actor: Actor,
  input: NewKey,
  kind: Key['kind'] = 'inference',
) {
  const plaintext = createPlaintext(world)
  const key = await insertKey(world, actor, input, { ...describeSecret(plaintext), kind })
  world.memory.keys.add(key)
  return { data: showKey({ ledger: UNSPENT }, key), key: plaintext }
}

/** What the ledger says of a key that is new. */
const UNSPENT: IdentityWorld['ledger'] = { getSpent: () => 0n, getHeld: () => 0n }

/** What is known of the secret of a key that another service made, and whether it is disabled. */
type KnownSecret = Pick<Key, 'hash' | 'label' | 'disabled'>

/** Returns what is kept of the secret of a new key. */
export const describeSecret = (plaintext: string): KnownSecret => ({
  hash: hashSecret(plaintext),
  label: maskSecret(plaintext),
  disabled: false,
})

/**
 * Adds a key for inference whose secret another service made, of which only the hash is known: its
 * holders go on using it. Throws as `createKey` does, and 409 where the hash is known already.
 */
export async function importKey(
  world: IdentityWorld,
  actor: Actor,
  input: NewKey,
  secret: KnownSecret,
) {
  const { keys } = world.memory
  if (keys.get(secret.hash) ?? keys.findBySecret(secret.hash, world.clock.now()))
    throw conflict('There is a key with this hash')
  const key = await insertKey(world, actor, input, { ...secret, kind: 'inference' })
  keys.set(key)
  return { data: showKey(world, key) }
}

async function insertKey(
  world: IdentityWorld,
  actor: Actor,
  input: NewKey,
  { kind, ...secret }: KnownSecret & Pick<Key, 'kind'>,
): Promise<Key> {
  const now = world.clock.now()
  if (input.expires_at && new Date(input.expires_at) <= now)
    throw invalid('expires_at: expected a time in the future', 'expires_at')
  if (actor.kind === 'member' && input.external) throw denied('external: for management keys only')
  const workspace_id =
    actor.kind === 'member'
      ? await resolveOwnWorkspace(world, actor, input.workspace_id)
      : resolveKeyWorkspace(world, actor, input.workspace_id, kind)
  const creator_user_id = input.creator_user_id ?? actor.user_id
  await assertCreatorAllowed(world, actor, workspace_id, creator_user_id)
  const isUnscoped = input.workspace_id === undefined && canManageAll(world, actor)
  const owner = { kind, workspace_id, isUnscoped, creator_user_id }
  const key: Key = { ...buildKeyFields(input, now), ...secret, ...owner }
  await world.store.keys.insert(
    key,
    auditKey(world, actor, null, key),
    findMakerBounds(world, actor, key),
  )
  return key
}

/** Builds the fields of a new key that depend on neither its owner nor its secret. */
export const buildKeyFields = (input: NewKey, now: Date) => ({
  secret_hash: null,
  previous_secret_hash: null,
  previous_secret_until: null,
  name: input.name,
  external_user: input.external?.user ?? null,
  external_api_key_hash: input.external?.api_key ? hashSecret(input.external.api_key) : null,
  limit: input.limit == null ? null : toNanos(input.limit),
  limit_reset: input.limit_reset ?? null,
  include_byok_in_limit: input.include_byok_in_limit ?? false,
  expires_at: input.expires_at ?? null,
  created_at: now.toISOString(),
  updated_at: null,
})

// A key that manages the organization needs no workspace. It can be created even after the default
// workspace was deleted.
function resolveKeyWorkspace(
  world: IdentityWorld,
  actor: Actor,
  workspace_id: string | undefined,
  kind: Key['kind'],
): string {
  const managesAll =
    kind === 'management' && workspace_id === undefined && canManageAll(world, actor)
  return managesAll
    ? world.memory.owner.workspace_id
    : resolveWorkspaceId(world, actor, workspace_id)
}

// Members make keys in the workspaces that they are in, the default one unless they name another.
async function resolveOwnWorkspace(
  world: IdentityWorld,
  { user_id }: Actor,
  workspace_id: string | undefined,
): Promise<string> {
  const [member] = await world.store.members.byIds([user_id])
  const own = member ? await listOwnWorkspaces(world, member) : []
  const found = workspace_id === undefined ? own[0] : own.find(({ id }) => id === workspace_id)
  if (!found) throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  return found.id
}

// A key counts towards its creator, in all workspaces. So an actor who manages one workspace may
// name only themselves or one of its members, and no actor may name a stranger.
async function assertCreatorAllowed(
  world: IdentityWorld,
  actor: Actor,
  workspace_id: string,
  creator: string,
): Promise<void> {
  if (creator === actor.user_id) return
  if (actor.kind === 'member')
    throw invalid('creator_user_id: expected you, or nobody', 'creator_user_id')
  const managesAll = canManageAll(world, actor)
  const found = managesAll
    ? creator === world.memory.owner.user_id || (await world.store.members.byIds([creator]))[0]
    : await world.store.members.findWorkspaceMember(workspace_id, creator)
  if (found) return
  const whose = managesAll ? 'the organization' : 'the workspace'
  throw invalid(`creator_user_id: expected a member of ${whose}`, 'creator_user_id')
}

/** More than anyone uses: members cannot fill the memory of all. */
const MOST_OWN_KEYS = 1_000

/** Returns what bounds a new key of a member, whom somebody makes it for who does not manage all. */
function findMakerBounds(
  world: IdentityWorld,
  actor: Actor,
  { creator_user_id }: Key,
): MakerBounds | undefined {
  const isOwners = creator_user_id === world.memory.owner.user_id
  const most = isOwners ? {} : { most: MOST_OWN_KEYS }
  // A code was exchanged: what binds its key, or its member, must not be shaken off.
  if (actor.kind === 'inference') return { ...most, maker: actor.key_hash ?? '' }
  if (isOwners) return undefined
  if (actor.kind === 'member') return { inWorkspace: true, most: MOST_OWN_KEYS }
  const isOthers = creator_user_id !== actor.user_id
  return isOthers && !canManageAll(world, actor) ? { inWorkspace: true } : undefined
}

/**
 * Lists one page of a workspace's keys, or of a member's own, the newest first. Disabled ones only
 * on request.
 */
export async function listKeys(world: IdentityWorld, actor: Actor, query: KeyListQuery) {
  if (actor.kind === 'member') return listOwnKeys(world, actor, query)
  const workspace_id = resolveWorkspaceId(world, actor, query.workspace_id)
  const { offset = 0, limit = LIST_SIZE, include_disabled } = query
  const { first } = world.memory.keys.pick({
    isInGroup: id => id === workspace_id,
    without: include_disabled === 'true' ? 0 : KEY_MARKS.disabled,
    order: 'newest',
    count: offset + limit,
  })
  return { data: first.slice(offset).map(key => showKey(world, key)) }
}

async function listOwnKeys(world: IdentityWorld, actor: Actor, query: KeyListQuery) {
  const { offset = 0, limit = LIST_SIZE, include_disabled, workspace_id } = query
  const own = (await findOwnKeys(world, actor))
    .filter(key => workspace_id === undefined || key.workspace_id === workspace_id)
    .filter(({ disabled }) => !disabled || include_disabled === 'true')
    .sort((a, b) => compareTexts(b.created_at, a.created_at) || compareTexts(b.hash, a.hash))
  return { data: own.slice(offset, offset + limit).map(key => showKey(world, key)) }
}

/** Finds the keys of a member, who may have very many, in turns. */
async function findOwnKeys({ memory: { keys } }: IdentityWorld, actor: Actor): Promise<Key[]> {
  const own: Key[] = []
  let read = 0
  for (const key of keys.listMentioning(actor.user_id)) {
    if (isOwnKey(actor, key)) own.push(key)
    read++
    if (read % KEYS_AT_ONCE === 0) await yieldToEventLoop()
  }
  return own
}

const KEYS_AT_ONCE = 2_000

const LIST_SIZE = 100

/** Gets one key by its hash. Throws 404, also for another workspace's. */
export const getKey = (world: IdentityWorld, actor: Actor, hash: string) => ({
  data: showKey(world, requireManagedKey(world, actor, hash)),
})

/**
 * Changes a key. Its counted spending stays. Throws 404, 400 when a permanently disabled key is to
 * be enabled again, and 403 where a member would loosen what bounds a key.
 */
export async function updateKey(
  world: IdentityWorld,
  actor: Actor,
  hash: string,
  change: KeyChange,
) {
  const key = requireManagedKey(world, actor, hash)
  // An administrator may bound it meanwhile: the store judges again.
  const judge =
    actor.kind === 'member' ? (now: ChangingKey) => refuseLoosening(now, change) : undefined
  judge?.(key)
  const changes = toKeyChanges(change, getIsoTime(world))
  const entry = auditKey(world, actor, key, { ...key, ...changes })
  const write = () => world.store.keys.update(hash, changes, entry, judge)
  const changed = await world.memory.keys.change(hash, overlay(changes), write)
  return { data: showKey(world, requireFound(changed, 'API key')) }
}

// Somebody else may have bounded a member's key: it stays bounded.
function refuseLoosening(key: ChangingKey, { limit, limit_reset, ...change }: KeyChange): void {
  const isRaised = limit !== undefined && (limit === null || toNanos(limit) > (key.limit ?? 0n))
  if (key.limit !== null && isRaised)
    throw denied('limit: you can lower it, but not raise it: make another key')
  if (key.limit !== null && limit_reset !== undefined && limit_reset !== key.limit_reset)
    throw denied('limit_reset: you cannot change it: make another key')
  if (key.include_byok_in_limit && change.include_byok_in_limit === false)
    throw denied('include_byok_in_limit: you cannot take it back')
  if (key.disabled && change.disabled === false)
    throw denied('disabled: only those who manage the workspace enable a key again')
}

function toKeyChanges(change: KeyChange, updated_at: string): Partial<Key> {
  const limit = change.limit == null ? change.limit : toNanos(change.limit)
  return omitUndefined({ ...pickDefined(change, KeyChange.properties), limit, updated_at })
}

/**
 * Deletes a key. It is invalid from the next request on. Its records stay. Throws 404.
 */
export async function deleteKey(world: IdentityWorld, actor: Actor, hash: string) {
  const key = requireManagedKey(world, actor, hash)
  await world.store.keys.remove(hash, auditKey(world, actor, key, null))
  world.memory.keys.delete(hash)
  return { deleted: true as const }
}

/** What limits the calls of a key. */
interface KeyLimits {
  regions: Region[]
  rate_limits?: object[] | undefined
  budgets?: object[] | undefined
}

/**
 * Describes the actor's own key and its policy: `GET /key`. Throws 404 for the operator, who has no
 * key.
 */
export function describeKey(
  world: IdentityWorld,
  actor: Actor,
  { regions, rate_limits, budgets }: KeyLimits,
) {
  const key = requireFound(world.memory.keys.get(actor.key_hash ?? ''), 'API key')
  const {
    hash: _,
    name: __,
    disabled: ___,
    created_at: ____,
    updated_at: _____,
    external_user: ______,
    ...shown
  } = showKey(world, key)
  return {
    data: {
      ...shown,
      // True until credits have been paid in: wire reference B.2.
      is_free_tier: world.config.limits.credits && world.memory.credits === 0n,
      is_management_key: key.kind === 'management',
      is_provisioning_key: key.kind === 'management',
      allowed_data_regions: regions,
      free_model_daily_requests: countFreeModelRequests(world),
      organization_id: getOrganizationId(world),
      rate_limit: {
        requests: world.config.limits.requests_per_minute ?? -1,
        interval: '1m',
        note: RATE_LIMIT_NOTE,
      },
      // Our own fields: what guardrails allow, and what is left of it.
      ...(rate_limits ? { rate_limits } : {}),
      ...(budgets ? { budgets } : {}),
    },
  }
}

// Without a limit, `requests` is -1, as clients of the public service know it, and so are the numbers
// of free models.
const RATE_LIMIT_NOTE = 'This field is deprecated and safe to ignore.'

function countFreeModelRequests({ traffic: { counters } }: IdentityWorld) {
  const usage = counters.getFreeUsage()
  if (!usage) return { limit: -1, used: 0, remaining: -1 }
  const { limit, used } = usage
  return { limit, used, remaining: Math.max(0, limit - used) }
}

/** Creates the plaintext of a key. */
export const createPlaintext = (world: IdentityWorld): string =>
  addChecksum(`gw-v1-${world.ids.secret()}`)

/** Whether a member made the key. Keys that manage are never a member's. */
const isOwnKey = ({ user_id }: Actor, { kind, creator_user_id }: Key): boolean =>
  kind === 'inference' && creator_user_id === user_id

/** Returns a key that the actor may manage. Throws 404. */
export function requireManagedKey(world: IdentityWorld, actor: Actor, hash: string): Key {
  const key = world.memory.keys.get(hash)
  if (actor.kind !== 'member') return requireManaged(world, actor, key, 'API key')
  return requireFound(key && isOwnKey(actor, key) ? key : undefined, 'API key')
}

/** Shows a key in its wire form, with its spending. */
export function showKey(world: Pick<IdentityWorld, 'ledger'>, key: Key) {
  const spend = (period: Period | null, byok: boolean) =>
    toUsd(world.ledger.getSpent(`key ${key.hash}`, period, byok))
  return {
    hash: key.hash,
    name: key.name,
    label: key.label,
    disabled: key.disabled,
    limit: key.limit === null ? null : toUsd(key.limit),
    limit_remaining: computeLimitRemaining(world, key),
    limit_reset: key.limit_reset,
    include_byok_in_limit: key.include_byok_in_limit,
    usage: spend(null, false),
    usage_daily: spend('daily', false),
    usage_weekly: spend('weekly', false),
    usage_monthly: spend('monthly', false),
    byok_usage: spend(null, true),
    byok_usage_daily: spend('daily', true),
    byok_usage_weekly: spend('weekly', true),
    byok_usage_monthly: spend('monthly', true),
    created_at: key.created_at,
    updated_at: key.updated_at,
    expires_at: key.expires_at,
    creator_user_id: key.creator_user_id,
    external_user: key.external_user,
    workspace_id: key.workspace_id,
  }
}

function computeLimitRemaining(world: Pick<IdentityWorld, 'ledger'>, key: Key): number | null {
  const left = computeLeft(world, key)
  return left === null ? null : toUsd(left)
}

/** Computes what a key may still spend, in nano-dollars; null without a limit. */
function computeLeft(
  { ledger }: Pick<IdentityWorld, 'ledger'>,
  { hash, limit, limit_reset, include_byok_in_limit: byok }: Key,
): bigint | null {
  if (limit === null) return null
  const spent =
    ledger.getSpent(`key ${hash}`, limit_reset, false) +
    (byok ? ledger.getSpent(`key ${hash}`, limit_reset, true) : 0n)
  const left = limit - spent - ledger.getHeld(`key ${hash}`, byok)
  return left > 0n ? left : 0n
}

/** Counts the enabled keys that have spent nine tenths of their limit, and those that have it all. */
export function countSpentKeys(world: Pick<IdentityWorld, 'ledger' | 'memory'>) {
  const counts = { near: 0, spent: 0 }
  for (const key of world.memory.keys.listMarked(KEY_MARKS.limited)) {
    const left = key.disabled ? null : computeLeft(world, key)
    if (left === null || left * 10n > (key.limit ?? 0n)) continue
    if (left === 0n) counts.spent += 1
    else counts.near += 1
  }
  return counts
}

/** Creates the audit entry of a change of a key. */
export const auditKey = defineAudit<Key>('keys', {
  identify: ({ hash, workspace_id }) => ({ id: hash, workspace_id }),
  show: showAuditedKey,
})

// The hash of a partner's key stays private. Its fingerprint still shows whether two are equal.
function showAuditedKey(
  { external_api_key_hash, ...key }: Key,
  { secrets }: IdentityWorld,
): object {
  return {
    ...key,
    external_api_key: external_api_key_hash && secrets.fingerprint(external_api_key_hash),
  }
}
