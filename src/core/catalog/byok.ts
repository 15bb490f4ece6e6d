import { invalid, requireFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isUsable } from '../identity/keys.ts'
import { managedWorkspace, requireManaged } from '../identity/management.ts'
import { isoNow } from '../kernel/clock.ts'
import { pickGiven } from '../kernel/json.ts'
import { pageOf } from '../kernel/pages.ts'
import { compareTexts } from '../kernel/sorting.ts'
import { labelOf, providerWith } from './byok/credential.ts'
import { knownAs, type OpenedKey, opened } from './byok/opened.ts'
import { PUBLIC_PROVIDERS } from './byok/providers.data.ts'
import { type ByokChange, type ByokQuery, CHANGEABLE, type NewByokKey } from './byok/schema.ts'
import type { ByokKey } from './byok/store.ts'
import { auditByokKey, showByokKey } from './byok/view.ts'
import { publicSlugOf } from './providers/called.ts'
import type { CatalogWorld } from './world.ts'

declare module '../events.ts' {
  interface EventMap {
    /** A caller's provider key was sealed with another secret, so it is not used. */
    'byok.unreadable': Pick<ByokKey, 'id' | 'provider'>
  }
}

/**
 * Keeps a provider key of a workspace, sealed. The plaintext goes to its provider and nowhere else.
 * Throws 400 for an unknown provider, for a key that cannot be one of that provider's, for a
 * workspace or an API key that does not exist, and for a fallback that is also the only key.
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
    ...pickGiven(input, CHANGEABLE),
    ...sealedAs(gateway, id, provider, input.key),
    id,
    workspace_id,
    provider,
    sort_order: nextPlace(gateway, workspace_id, provider),
    created_at: isoNow(gateway),
  }
  check(gateway, key, input)
  await gateway.store.byok.insert(key, auditByokKey(gateway, actor, null, key))
  gateway.memory.byok.set(opened(gateway, key))
  return { data: showByokKey(key) }
}

/**
 * Lists one page of a workspace's provider keys, by provider and then in the order in which they
 * are tried. Throws 400 for a workspace or a provider that does not exist.
 */
export function listByokKeys(gateway: CatalogWorld, actor: Actor, query: ByokQuery) {
  return pageOf(byokKeysOf(gateway, actor, query), query, ({ key }) => showByokKey(key))
}

function byokKeysOf(
  gateway: CatalogWorld,
  actor: Actor,
  { workspace_id, provider }: ByokQuery,
): OpenedKey[] {
  const slug = provider === undefined ? undefined : providerOf(gateway, provider)
  const own = gateway.memory.byok
    .of(managedWorkspace(gateway, actor, workspace_id))
    .filter(({ key }) => slug === undefined || key.provider === slug)
  return own.toSorted(({ key: a }, { key: b }) => compareTexts(a.provider, b.provider))
}

/** Returns one provider key by its id. Throws 404, also for a key of another workspace. */
export const getByokKey = (gateway: CatalogWorld, actor: Actor, id: string) => ({
  data: showByokKey(byokKeyOf(gateway, actor, id).key),
})

/**
 * Changes a provider key. A new `key` replaces the old one. Throws 404, and 400 as `createByokKey`
 * does.
 */
export async function updateByokKey(
  gateway: CatalogWorld,
  actor: Actor,
  id: string,
  change: ByokChange,
) {
  const { key } = byokKeyOf(gateway, actor, id)
  const changes = {
    ...pickGiven(change, CHANGEABLE),
    ...(change.key === undefined ? {} : sealedAs(gateway, id, key.provider, change.key)),
  }
  check(gateway, { ...key, ...changes }, change)
  const entry = auditByokKey(gateway, actor, key, { ...key, ...changes })
  const isChange = Object.keys(changes).length > 0
  const write = async () => (isChange ? gateway.store.byok.update(id, changes, entry) : undefined)
  const changed = await gateway.memory.byok.change(
    id,
    now => opened(gateway, { ...now.key, ...changes }, now),
    write,
  )
  return { data: showByokKey(requireFound(changed, NOUN).key) }
}

/**
 * Deletes a provider key. From the next call on it is not used, and its sealed credential is gone.
 * Throws 404.
 */
export async function deleteByokKey(gateway: CatalogWorld, actor: Actor, id: string) {
  const { key } = byokKeyOf(gateway, actor, id)
  const entry = auditByokKey(gateway, actor, key, null)
  await gateway.store.byok.remove(id, entry.created_at, entry)
  gateway.memory.byok.delete(id)
  return { deleted: true as const }
}

/**
 * Returns whether a key can be used now. An `unreadable` key was sealed with another secret. An
 * `unserved` key belongs to a provider that this gateway does not know.
 */
export function stateOf(
  gateway: CatalogWorld,
  id: string,
): 'active' | 'disabled' | 'unreadable' | 'unserved' {
  const one = gateway.memory.byok.get(id)
  if (one && !one.isReadable) return 'unreadable'
  if (!one || one.providers.size === 0) return 'unserved'
  return one.key.disabled ? 'disabled' : 'active'
}

/**
 * Lists the keys of the actor's workspace that the actor may use, in the order in which they are
 * tried.
 */
export function byokKeysFor(
  { memory: { byok } }: CatalogWorld,
  { workspace_id, key_hash, user_id }: Actor,
): OpenedKey[] {
  const own = byok.of(workspace_id)
  return own.length === 0
    ? own
    : own.filter(
        ({ key }) =>
          !key.disabled && allows(key.allowed_user_ids, user_id) && allowsKey(key, key_hash),
      )
}

const allows = (list: string[] | null, one: string) => list === null || list.includes(one)

const allowsKey = ({ allowed_api_key_hashes: list }: ByokKey, hash: string | null) =>
  list === null || (hash !== null && list.includes(hash))

/**
 * Lists the provider keys that were sealed with another secret than this gateway's. They are not
 * used.
 */
export const unreadableKeys = ({ memory: { byok } }: CatalogWorld): ByokKey[] => byok.unreadable()

/**
 * Reads every provider key and decrypts each as the iterator reaches it. Keeps what was built from
 * a credential that has not changed.
 */
export async function readByokKeys(gateway: CatalogWorld): Promise<Iterable<OpenedKey>> {
  const keys = await gateway.store.byok.all()
  // Lazily: the config may have changed since the read, and with it where a key goes.
  return keys.values().map(key => opened(gateway, key, gateway.memory.byok.get(key.id)))
}

function sealedAs(
  gateway: CatalogWorld,
  id: string,
  provider: string,
  given: string,
): Pick<ByokKey, 'sealed' | 'label'> {
  const text = given.trim()
  const made = knownAs(gateway, provider).map(known =>
    providerWith(known, gateway.config.providers[known.slug], text),
  )
  const faults = made.filter(one => 'expected' in one)
  const [fault] = faults
  if (fault && faults.length === made.length)
    throw invalid(`key: expected ${fault.expected}`, 'key')
  const nonce = Buffer.from(gateway.ids.secret(), 'hex').subarray(-12)
  return { sealed: gateway.secrets.seal().seal(text, id, nonce), label: labelOf(text) }
}

function check(
  gateway: CatalogWorld,
  { is_fallback, is_byok_only, workspace_id }: ByokKey,
  { allowed_api_key_hashes }: ByokChange,
): void {
  if (is_fallback && is_byok_only)
    throw invalid('is_fallback: expected false where is_byok_only is true', 'is_fallback')
  // An API key of another workspace counts as missing. It could not use this provider key, and the
  // answer must not reveal that it exists.
  const isLive = (hash: string) => {
    const key = gateway.memory.keys.get(hash)
    return key?.workspace_id === workspace_id && isUsable(key, gateway.clock.now())
  }
  if (allowed_api_key_hashes && !allowed_api_key_hashes.every(isLive))
    throw invalid(
      'allowed_api_key_hashes: expected API keys that exist in its workspace',
      'allowed_api_key_hashes',
    )
}

function nextPlace(
  { memory: { byok } }: CatalogWorld,
  workspace_id: string,
  provider: string,
): number {
  const places = byok.of(workspace_id).filter(({ key }) => key.provider === provider)
  return 1 + Math.max(-1, ...places.map(({ key }) => key.sort_order))
}

function providerOf(gateway: CatalogWorld, said: string): string {
  const slug = publicSlugOf(said)
  if (!PUBLIC_PROVIDERS.includes(slug) && knownAs(gateway, slug).length === 0)
    throw invalid('provider: expected the slug of a provider that is known', 'provider')
  return slug
}

const NOUN = 'Provider key'

function byokKeyOf(gateway: CatalogWorld, actor: Actor, id: string): OpenedKey {
  const found = gateway.memory.byok.get(id)
  requireManaged(gateway, actor, found?.key, NOUN)
  return requireFound(found, NOUN)
}
