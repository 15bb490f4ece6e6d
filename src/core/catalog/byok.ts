import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { type AuditEntry, auditEntry } from '../identity/audit.ts'
import { isUsable } from '../identity/keys.ts'
import { managedWorkspace, reaches } from '../identity/management.ts'
import { labelOf, providerWith } from './byok/credential.ts'
import { knownAs, type OpenedKey, OpenedKeys, opened, textOf } from './byok/opened.ts'
import { PUBLIC_PROVIDERS } from './byok/providers.data.ts'
import { publicSlugOf } from './providers/called.ts'
import type { CatalogWorld } from './world.ts'

declare module '../events.ts' {
  interface EventMap {
    /** A caller's provider key was sealed with another secret: it is not used. */
    'byok.unreadable': Pick<ByokKey, 'id' | 'provider'>
  }
}

/** A provider key that a caller brings along, as it is kept: sealed, and never shown again. Times in ISO 8601. */
export interface ByokKey {
  id: string
  workspace_id: string
  /** By the public service's slug, where it has one. */
  provider: string
  name: string | null
  label: string
  /** The key itself, sealed for this id. */
  sealed: string
  disabled: boolean
  /** Tried after the gateway's own credential instead of before it. */
  is_fallback: boolean
  /** The gateway's own credential serves no model of this provider. */
  is_byok_only: boolean
  /** The gateway's own credential serves none of the models that this key is for. */
  is_required: boolean
  /** Whether the provider keeps nothing for the owner of this key; null: what is publicly known. */
  declared_zdr: boolean | null
  /** Whom it may serve. Null: all. */
  allowed_models: string[] | null
  allowed_api_key_hashes: string[] | null
  allowed_user_ids: string[] | null
  /** Its place among the keys of its provider: the lowest is tried first. */
  sort_order: number
  created_at: string
}

/** Remembers callers' provider keys. An id is unique. */
export interface ByokStore {
  /** Those that were not deleted. */
  all(): Promise<ByokKey[]>
  insert(key: ByokKey, entry: AuditEntry): Promise<void>
  /** Changes these fields of a key and no others: another process may have changed those. */
  update(id: string, change: Partial<ByokKey>, entry: AuditEntry): Promise<void>
  /** Forgets what was sealed, and keeps that there was a key. */
  remove(id: string, at: string, entry: AuditEntry): Promise<void>
}

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const Texts = nullable(Type.Array(Type.String({ minLength: 1 }), { maxItems: 100 }))
const Hashes = nullable(Type.Array(Type.String({ pattern: '^[a-f0-9]{64}$' }), { minItems: 1, maxItems: 100 }))
const Plaintext = Type.String({
  minLength: 1,
  maxLength: 16_384,
  description: 'A key, or the JSON of a service account or AWS credentials',
})

const CHANGEABLE = {
  allowed_api_key_hashes: Type.Optional(Hashes),
  allowed_models: Type.Optional(Texts),
  allowed_user_ids: Type.Optional(Texts),
  declared_zdr: Type.Optional(nullable(Type.Boolean())),
  disabled: Type.Optional(Type.Boolean()),
  is_byok_only: Type.Optional(Type.Boolean()),
  is_fallback: Type.Optional(Type.Boolean()),
  is_required: Type.Optional(Type.Boolean()),
  name: Type.Optional(nullable(Type.String({ maxLength: 255 }))),
}

/** The body of `POST /byok`. */
export const NewByokKey = Type.Object({
  ...CHANGEABLE,
  key: Plaintext,
  provider: Type.String({ minLength: 1 }),
  workspace_id: Type.Optional(Type.String({ format: 'uuid' })),
})
export type NewByokKey = Static<typeof NewByokKey>

/** The body of `PATCH /byok/{id}`. */
export const ByokChange = Type.Object({ ...CHANGEABLE, key: Type.Optional(Plaintext) })
export type ByokChange = Static<typeof ByokChange>

/** The query of `GET /byok`. */
export const ByokQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  workspace_id: Type.Optional(Type.String({ format: 'uuid' })),
  provider: Type.Optional(Type.String({ minLength: 1 })),
})
export type ByokQuery = Static<typeof ByokQuery>

const PAGE = 50

/**
 * Keeps a provider key of a workspace, sealed. The plaintext goes to its provider and nowhere else. Throws 400 for a provider that
 * nobody knows, a key that cannot be one of his, a workspace or an API key that does not exist, and for a fallback that is the only way.
 */
export async function createByokKey(gateway: CatalogWorld, actor: Actor, input: NewByokKey) {
  const provider = providerOf(gateway, input.provider)
  const workspace_id = managedWorkspace(gateway, actor, input.workspace_id)
  const id = gateway.ids.uuid()
  const key: ByokKey = {
    disabled: false,
    is_fallback: false,
    is_byok_only: false,
    is_required: false,
    declared_zdr: null,
    allowed_models: null,
    allowed_api_key_hashes: null,
    allowed_user_ids: null,
    name: null,
    ...changesOf(input),
    ...sealedAs(gateway, id, provider, input.key),
    id,
    workspace_id,
    provider,
    sort_order: nextPlace(gateway, workspace_id, provider),
    created_at: gateway.clock.now().toISOString(),
  }
  check(gateway, key, input)
  await gateway.store.byok.insert(key, auditEntry(gateway, actor, 'byok.create', key, null, toldByokKey(gateway, key)))
  gateway.memory.byok.set(opened(gateway, key))
  return { data: shownByokKey(key) }
}

/** One page of a workspace's provider keys, by provider and then in the order in which they are tried. Throws 400 for what does not exist. */
export function listByokKeys(gateway: CatalogWorld, actor: Actor, query: ByokQuery) {
  const wanted = byokKeysOf(gateway, actor, query).map(({ key }) => shownByokKey(key))
  const { offset = 0, limit = PAGE } = query
  return { data: wanted.slice(offset, offset + limit), total_count: wanted.length }
}

function byokKeysOf(gateway: CatalogWorld, actor: Actor, { workspace_id, provider }: ByokQuery): OpenedKey[] {
  const slug = provider === undefined ? undefined : providerOf(gateway, provider)
  const own = gateway.memory.byok
    .of(managedWorkspace(gateway, actor, workspace_id))
    .filter(({ key }) => slug === undefined || key.provider === slug)
  return own.toSorted(({ key: a }, { key: b }) => (a.provider === b.provider ? 0 : a.provider < b.provider ? -1 : 1))
}

/** One provider key by its id. Throws 404, also for another workspace's. */
export const getByokKey = (gateway: CatalogWorld, actor: Actor, id: string) => ({ data: shownByokKey(byokKeyOf(gateway, actor, id).key) })

/** Changes a provider key; a new `key` takes the place of the old one. Throws 404, and 400 as `createByokKey` does. */
export async function updateByokKey(gateway: CatalogWorld, actor: Actor, id: string, change: ByokChange) {
  const { key } = byokKeyOf(gateway, actor, id)
  const changes = { ...changesOf(change), ...(change.key === undefined ? {} : sealedAs(gateway, id, key.provider, change.key)) }
  check(gateway, { ...key, ...changes }, change)
  const entry = auditEntry(gateway, actor, 'byok.update', key, toldByokKey(gateway, key), toldByokKey(gateway, { ...key, ...changes }))
  if (Object.keys(changes).length > 0) await gateway.store.byok.update(id, changes, entry)
  // As it is now: it may have changed, or gone, while the store was writing.
  const before = byokKeyOf(gateway, actor, id)
  const changed = { ...before.key, ...changes }
  gateway.memory.byok.set(opened(gateway, changed, before))
  return { data: shownByokKey(changed) }
}

/** Deletes a provider key: from the next call on it is not used, and what was sealed is gone. Throws 404. */
export async function deleteByokKey(gateway: CatalogWorld, actor: Actor, id: string) {
  const { key } = byokKeyOf(gateway, actor, id)
  const entry = auditEntry(gateway, actor, 'byok.delete', key, toldByokKey(gateway, key), null)
  await gateway.store.byok.remove(id, entry.created_at, entry)
  gateway.memory.byok.delete(id)
  return { deleted: true as const }
}

/** What can be done with a key at this moment: `unreadable` was sealed with another secret, `unserved` has nobody to go to. */
export function stateOf(gateway: CatalogWorld, id: string): 'active' | 'disabled' | 'unreadable' | 'unserved' {
  const one = gateway.memory.byok.get(id)
  if (one && !one.isReadable) return 'unreadable'
  if (!one || one.providers.size === 0) return 'unserved'
  return one.key.disabled ? 'disabled' : 'active'
}

/** The keys of the actor's workspace that may be used for him, in the order in which they are tried. */
export function byokKeysFor({ memory: { byok } }: CatalogWorld, { workspace_id, key_hash, user_id }: Actor): OpenedKey[] {
  const own = byok.of(workspace_id)
  return own.length === 0
    ? own
    : own.filter(({ key }) => !key.disabled && allows(key.allowed_user_ids, user_id) && allowsKey(key, key_hash))
}

const allows = (list: string[] | null, one: string) => list === null || list.includes(one)

const allowsKey = ({ allowed_api_key_hashes: list }: ByokKey, hash: string | null) =>
  list === null || (hash !== null && list.includes(hash))

/** The provider keys that were sealed with another secret than this gateway has. They are not used. */
export const unreadableKeys = ({ memory: { byok } }: CatalogWorld): ByokKey[] =>
  byok.values().flatMap(({ key, isReadable }) => (isReadable ? [] : key))

/**
 * Every provider key read and opened anew, for what another process has changed. What this process changes while it reads is kept: the
 * reading may be older than that. What cannot be opened, and could before or is new, is told of.
 */
export async function reloadByokKeys(gateway: CatalogWorld): Promise<void> {
  const before = new Map(gateway.memory.byok.values().map(one => [one.key.id, one]))
  const read = new Map((await gateway.store.byok.all()).map(key => [key.id, key]))
  for (const one of gateway.memory.byok.values()) if (before.get(one.key.id) !== one) read.set(one.key.id, one.key)
  const byok = new OpenedKeys()
  for (const key of read.values()) {
    const isGone = before.has(key.id) && !gateway.memory.byok.get(key.id)
    if (!isGone) byok.set(opened(gateway, key, gateway.memory.byok.get(key.id)))
  }
  const known = new Set(unreadableKeys(gateway).map(({ sealed }) => sealed))
  gateway.memory.byok = byok
  for (const key of unreadableKeys(gateway)) if (!known.has(key.sealed)) gateway.events.publish('byok.unreadable', key)
}

function changesOf(change: ByokChange): Partial<Omit<ByokKey, 'sealed' | 'label'>> {
  // Field by field: a body may hold more than it may change.
  const known = Object.keys(CHANGEABLE) as (keyof typeof CHANGEABLE)[]
  return Object.fromEntries(known.filter(name => change[name] !== undefined).map(name => [name, change[name]]))
}

function sealedAs(gateway: CatalogWorld, id: string, provider: string, given: string): Pick<ByokKey, 'sealed' | 'label'> {
  const text = given.trim()
  const made = knownAs(gateway, provider).map(known => providerWith(known, gateway.config.providers[known.slug], text))
  const faults = made.filter(one => 'expected' in one)
  const [fault] = faults
  if (fault && faults.length === made.length) throw invalid(`key: expected ${fault.expected}`, 'key')
  const nonce = Buffer.from(gateway.ids.secret(), 'hex').subarray(-12)
  return { sealed: gateway.secrets.seal().seal(text, id, nonce), label: labelOf(text) }
}

function check(gateway: CatalogWorld, { is_fallback, is_byok_only, workspace_id }: ByokKey, { allowed_api_key_hashes }: ByokChange): void {
  if (is_fallback && is_byok_only) throw invalid('is_fallback: expected false where is_byok_only is true', 'is_fallback')
  // One of another workspace is none: it could not use this key, and nobody shall learn here that it exists.
  const isLive = (hash: string) => {
    const key = gateway.memory.keys.get(hash)
    return key?.workspace_id === workspace_id && isUsable(key, gateway.clock.now())
  }
  if (allowed_api_key_hashes && !allowed_api_key_hashes.every(isLive))
    throw invalid('allowed_api_key_hashes: expected API keys that exist in its workspace', 'allowed_api_key_hashes')
}

function nextPlace({ memory: { byok } }: CatalogWorld, workspace_id: string, provider: string): number {
  const places = byok.of(workspace_id).filter(({ key }) => key.provider === provider)
  return 1 + Math.max(-1, ...places.map(({ key }) => key.sort_order))
}

function providerOf(gateway: CatalogWorld, said: string): string {
  const slug = publicSlugOf(said)
  if (!PUBLIC_PROVIDERS.includes(slug) && knownAs(gateway, slug).length === 0)
    throw invalid('provider: expected the slug of a provider that is known', 'provider')
  return slug
}

function byokKeyOf(gateway: CatalogWorld, actor: Actor, id: string): OpenedKey {
  const one = gateway.memory.byok.get(id)
  if (!one || !reaches(gateway, actor, one.key.workspace_id)) throw notFound('Provider key not found')
  return one
}

function shownByokKey({ sealed: _, ...shown }: ByokKey) {
  return shown
}

/** As the audit trail has it: of the key itself only what tells whether it is the same again; null where it does not open. */
function toldByokKey(gateway: CatalogWorld, key: ByokKey) {
  const text = textOf(gateway, key)
  return { ...shownByokKey(key), key: text === undefined ? null : gateway.secrets.fingerprint(text) }
}
