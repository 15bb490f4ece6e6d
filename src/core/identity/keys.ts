import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import { nanosOf, usdOf } from '../kernel/money.ts'
import type { Period } from '../kernel/periods.ts'
import type { Region } from '../language/region.ts'
import type { Actor } from './actor.ts'
import { type AuditEntry, auditEntry } from './audit.ts'
import { managedWorkspace, managesAll, reaches } from './management.ts'
import { organizationId } from './organization.ts'
import type { IdentityWorld } from './world.ts'

/** An API key as it is kept: never the secret, only its hash. Money in nano-dollars, times in ISO 8601. */
export interface Key {
  /** Lowercase hex SHA-256 of the plaintext. The key's public name. */
  hash: string
  name: string
  label: string
  kind: 'management' | 'inference'
  workspace_id: string
  /** Whether it was made without naming a workspace, and so belongs to the default one and goes with it. */
  isUnscoped: boolean
  creator_user_id: string | null
  external_user: string | null
  external_api_key_hash: string | null
  disabled: boolean
  limit: bigint | null
  limit_reset: Period | null
  include_byok_in_limit: boolean
  expires_at: string | null
  created_at: string
  updated_at: string | null
}

/** Remembers keys. A hash is unique. What changes one is one transaction with the entry that tells of it. */
export interface KeyStore {
  all(): Promise<Key[]>
  /** A new one. Throws 400 where its workspace is gone, unless it manages all, and where its creator has left. */
  insert(key: Key, entry: AuditEntry): Promise<void>
  /**
   * Changes these fields of a key and no others: another process may have changed those. Throws 400 where it shall open again, and its
   * workspace or its creator is gone.
   */
  update(hash: string, change: Partial<Key>, entry: AuditEntry): Promise<void>
  remove(hash: string, entry: AuditEntry): Promise<void>
}

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const LimitReset = nullable(Type.Union([Type.Literal('daily'), Type.Literal('weekly'), Type.Literal('monthly')]))
// A billion dollars is what still fits a 64-bit count of nano-dollars with room to add.
const Limit = nullable(Type.Number({ minimum: 0, maximum: 1_000_000_000 }))
const Name = Type.String({ minLength: 1, maxLength: 1000 })

/** The body of E2, `POST /keys`. */
export const NewKey = Type.Object({
  name: Name,
  creator_user_id: Type.Optional(nullable(Type.String({ minLength: 1 }))),
  expires_at: Type.Optional(nullable(Type.String({ format: 'utc-time' }))),
  external: Type.Optional(Type.Object({ user: Type.String(), api_key: Type.Optional(Type.String({ minLength: 32 })) })),
  include_byok_in_limit: Type.Optional(Type.Boolean()),
  limit: Type.Optional(Limit),
  limit_reset: Type.Optional(LimitReset),
  workspace_id: Type.Optional(Type.String({ format: 'uuid' })),
})
export type NewKey = Static<typeof NewKey>

/** The body of `PATCH /keys/{hash}`. */
export const KeyChange = Type.Object({
  name: Type.Optional(Name),
  disabled: Type.Optional(Type.Boolean()),
  include_byok_in_limit: Type.Optional(Type.Boolean()),
  limit: Type.Optional(Limit),
  limit_reset: Type.Optional(LimitReset),
})
export type KeyChange = Static<typeof KeyChange>

/** The query of `GET /keys`. */
export const KeyQuery = Type.Object({
  include_disabled: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])),
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  workspace_id: Type.Optional(Type.String({ format: 'uuid' })),
})
export type KeyQuery = Static<typeof KeyQuery>

const PAGE = 100

/**
 * Creates an API key. The plaintext leaves here once and is never stored: only its hash is.
 * Throws 400 for an `expires_at` that has passed, a workspace that does not exist, or a creator who has left or is not for him to name.
 */
export async function createKey(gateway: IdentityWorld, actor: Actor, input: NewKey, kind: Key['kind'] = 'inference') {
  const now = gateway.clock.now()
  if (input.expires_at && new Date(input.expires_at) <= now) throw invalid('expires_at: expected a time to come', 'expires_at')
  const workspace_id = homeOf(gateway, actor, input.workspace_id, kind)
  const creator_user_id = input.creator_user_id ?? actor.user_id
  await mustStandFor(gateway, actor, workspace_id, creator_user_id)
  const plaintext = newPlaintext(gateway)
  const isUnscoped = input.workspace_id === undefined && managesAll(gateway, actor)
  const key: Key = { ...keyFor(plaintext, input, now), kind, workspace_id, isUnscoped, creator_user_id }
  await gateway.store.keys.insert(key, entryOf(gateway, actor, 'keys.create', null, key))
  gateway.memory.keys.set(key.hash, key)
  return { data: shownKey(gateway, key), key: plaintext }
}

/** What a new key is by itself, whosever it is. */
const keyFor = (plaintext: string, input: NewKey, now: Date) => ({
  hash: hashOf(plaintext),
  name: input.name,
  label: masked(plaintext),
  external_user: input.external?.user ?? null,
  external_api_key_hash: input.external?.api_key ? hashOf(input.external.api_key) : null,
  disabled: false,
  limit: input.limit == null ? null : nanosOf(input.limit),
  limit_reset: input.limit_reset ?? null,
  include_byok_in_limit: input.include_byok_in_limit ?? false,
  expires_at: input.expires_at ?? null,
  created_at: now.toISOString(),
  updated_at: null,
})

// What manages the organization needs no workspace: it is made also where the default one is gone.
function homeOf(gateway: IdentityWorld, actor: Actor, workspace_id: string | undefined, kind: Key['kind']): string {
  const isOfAll = kind === 'management' && workspace_id === undefined && managesAll(gateway, actor)
  return isOfAll ? gateway.memory.owner.workspace_id : managedWorkspace(gateway, actor, workspace_id)
}

// A key counts for who made it, wherever he has others: so who manages one workspace names himself, or one of its members.
async function mustStandFor(gateway: IdentityWorld, actor: Actor, workspace_id: string, creator: string): Promise<void> {
  if (managesAll(gateway, actor) || creator === actor.user_id) return
  if (await gateway.store.members.workspaceMember(workspace_id, creator)) return
  throw invalid('creator_user_id: expected a member of the workspace', 'creator_user_id')
}

/** One page of a workspace's keys, the newest first. Disabled ones only when asked for. */
export function listKeys(gateway: IdentityWorld, actor: Actor, query: KeyQuery) {
  const workspace_id = managedWorkspace(gateway, actor, query.workspace_id)
  const wanted = [...gateway.memory.keys.values()].filter(
    key => key.workspace_id === workspace_id && (!key.disabled || query.include_disabled === 'true'),
  )
  const sorted = wanted.sort((a, b) => (a.created_at === b.created_at ? (a.hash < b.hash ? -1 : 1) : a.created_at < b.created_at ? 1 : -1))
  const offset = query.offset ?? 0
  return { data: sorted.slice(offset, offset + PAGE).map(key => shownKey(gateway, key)) }
}

/** One key by its hash. Throws 404, also for another workspace's. */
export const getKey = (gateway: IdentityWorld, actor: Actor, hash: string) => ({
  data: shownKey(gateway, managedKey(gateway, actor, hash)),
})

/** Changes a key. Spending already counted stays as it is. Throws 404, and 400 for one that was disabled for good and shall open again. */
export async function updateKey(gateway: IdentityWorld, actor: Actor, hash: string, change: KeyChange) {
  const key = managedKey(gateway, actor, hash)
  const changes = changesOf(change, gateway.clock.now())
  await gateway.store.keys.update(hash, changes, entryOf(gateway, actor, 'keys.update', key, { ...key, ...changes }))
  // As it is now: it may have changed, or gone, while the store was writing.
  const changed = { ...managedKey(gateway, actor, hash), ...changes }
  gateway.memory.keys.set(hash, changed)
  return { data: shownKey(gateway, changed) }
}

// Field by field: a body may hold more than it may change.
function changesOf({ name, disabled, include_byok_in_limit, limit, limit_reset }: KeyChange, now: Date): Partial<Key> {
  const given = { name, disabled, include_byok_in_limit, limit: limit == null ? limit : nanosOf(limit), limit_reset }
  const known = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...(Object.fromEntries(known) as Partial<Key>), updated_at: now.toISOString() }
}

/** Deletes a key: from the next request on it opens nothing. What it did stays on record. Throws 404. */
export async function deleteKey(gateway: IdentityWorld, actor: Actor, hash: string) {
  const key = managedKey(gateway, actor, hash)
  await gateway.store.keys.remove(hash, entryOf(gateway, actor, 'keys.delete', key, null))
  gateway.memory.keys.delete(hash)
  return { deleted: true as const }
}

/** Keys that go out together with something else: their part of its transaction. */
export interface Disabling {
  hashes: string[]
  updated_at: string
  entries: AuditEntry[]
}

/** What it takes to disable the keys that are meant. Those that are disabled already are left alone. */
export function disablingOf(gateway: IdentityWorld, actor: Actor, isMeant: (key: Key) => boolean): Disabling {
  const keys = [...gateway.memory.keys.values()].filter(key => !key.disabled && isMeant(key))
  const change = { disabled: true, updated_at: gateway.clock.now().toISOString() }
  const entries = keys.map(key => entryOf(gateway, actor, 'keys.update', key, { ...key, ...change }))
  return { hashes: keys.map(key => key.hash), updated_at: change.updated_at, entries }
}

/** Disables these keys in memory, once they are in the store. */
export function disableKeys(gateway: IdentityWorld, { hashes, updated_at }: Disabling): void {
  for (const hash of hashes) {
    const key = gateway.memory.keys.get(hash)
    if (key) gateway.memory.keys.set(hash, { ...key, disabled: true, updated_at })
  }
}

/** What a key may know of itself and of its policy: `GET /key`. Throws 404 for the operator, who has none. */
export function describeKey(gateway: IdentityWorld, actor: Actor, { regions }: { regions: Region[] }) {
  const key = keyOf(gateway, actor.key_hash ?? '')
  const { hash: _, name: __, disabled: ___, created_at: ____, updated_at: _____, external_user: ______, ...shown } = shownKey(gateway, key)
  return {
    data: {
      ...shown,
      // Whoever has never paid in: wire reference B.2.
      is_free_tier: gateway.config.limits.credits && gateway.memory.credits === 0n,
      is_management_key: key.kind === 'management',
      is_provisioning_key: key.kind === 'management',
      allowed_data_regions: regions,
      free_model_daily_requests: freeModelDailyRequests(gateway),
      organization_id: organizationId(gateway),
      rate_limit: { requests: gateway.config.limits.requests_per_minute ?? -1, interval: '1m', note: RATE_LIMIT_NOTE },
    },
  }
}

// Where there is no limit, -1 is what clients of the public service know for the one, and the other has to be a number that nobody reaches.
const RATE_LIMIT_NOTE = 'This field is deprecated and safe to ignore.'

function freeModelDailyRequests({ traffic: { rateLimits } }: IdentityWorld) {
  const { limit, used } = rateLimits.freeToday() ?? { limit: Number.MAX_SAFE_INTEGER, used: 0 }
  return { limit, used, remaining: Math.max(0, limit - used) }
}

/** Reads every key, by its hash: what a request is checked against. */
export async function readKeys(store: KeyStore): Promise<Map<string, Key>> {
  return new Map((await store.all()).map(key => [key.hash, key]))
}

/** Lowercase hex SHA-256. */
export const hashOf = (plaintext: string): string => Bun.CryptoHasher.hash('sha256', plaintext, 'hex')

/** Whether a key opens anything at this moment. */
export const isUsable = (key: Key, now: Date): boolean => !key.disabled && (key.expires_at === null || new Date(key.expires_at) > now)

const newPlaintext = (gateway: IdentityWorld) => withChecksum(`gw-v1-${gateway.ids.secret()}`)

/** A secret with eight digits at its end that are a checksum of the rest: so a secret scanner can tell it from a look-alike. */
export const withChecksum = (secret: string): string => secret + Bun.hash.crc32(secret).toString(16).padStart(8, '0')

/** What of a secret may be shown, to know it again. */
export const masked = (plaintext: string) => `${plaintext.slice(0, 9)}...${plaintext.slice(-3)}`

function keyOf(gateway: IdentityWorld, hash: string): Key {
  const key = gateway.memory.keys.get(hash)
  if (!key) throw notFound('API key not found')
  return key
}

/** A key that the actor may manage. Throws 404. */
export function managedKey(gateway: IdentityWorld, actor: Actor, hash: string): Key {
  const key = keyOf(gateway, hash)
  if (!reaches(gateway, actor, key.workspace_id)) throw notFound('API key not found')
  return key
}

function entryOf(gateway: IdentityWorld, actor: Actor, action: string, before: Key | null, after: Key | null): AuditEntry {
  const { hash: id = '', workspace_id = null } = after ?? before ?? {}
  return auditEntry(gateway, actor, action, { id, workspace_id }, told(gateway, before), told(gateway, after))
}

// What a partner's key hashes to is nobody else's business; whether it is the same again may be asked.
function told(gateway: IdentityWorld, key: Key | null) {
  if (key === null) return null
  const { external_api_key_hash, ...rest } = key
  return { ...rest, external_api_key: external_api_key_hash && gateway.secrets.fingerprint(external_api_key_hash) }
}

function shownKey(gateway: IdentityWorld, key: Key) {
  const spend = (period: Period | null, byok: boolean) => usdOf(gateway.ledger.spent(`key ${key.hash}`, period, byok))
  return {
    hash: key.hash,
    name: key.name,
    label: key.label,
    disabled: key.disabled,
    limit: key.limit === null ? null : usdOf(key.limit),
    limit_remaining: limitRemaining(gateway, key),
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

function limitRemaining({ ledger }: IdentityWorld, { hash, limit, limit_reset, include_byok_in_limit: byok }: Key): number | null {
  if (limit === null) return null
  const spent = ledger.spent(`key ${hash}`, limit_reset, false) + (byok ? ledger.spent(`key ${hash}`, limit_reset, true) : 0n)
  const left = limit - spent - ledger.held(`key ${hash}`, byok)
  return usdOf(left > 0n ? left : 0n)
}
