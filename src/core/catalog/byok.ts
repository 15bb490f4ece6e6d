import { invalid, requireFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isUsable } from '../identity/keys.ts'
import { requireManaged, resolveWorkspaceId } from '../identity/management.ts'
import { getIsoTime } from '../kernel/clock.ts'
import { pickDefined } from '../kernel/json.ts'
import { toPage } from '../kernel/pages.ts'
import { compareTexts } from '../kernel/sorting.ts'
import { createByokLabel, openProviderWithCredential } from './byok/credential.ts'
import { type DecryptedKey, decryptKey, listProvidersByPublicSlug } from './byok/decrypted-keys.ts'
import { PUBLIC_PROVIDERS } from './byok/providers.data.ts'
import { type ByokChange, type ByokQuery, CHANGEABLE, type NewByokKey } from './byok/schema.ts'
import type { ByokKey } from './byok/store.ts'
import { auditByokKey, showByokKey } from './byok/view.ts'
import { getPublicSlug } from './providers/names.ts'
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
  const provider = parseProviderSlug(gateway, input.provider)
  const workspace_id = resolveWorkspaceId(gateway, actor, input.workspace_id)
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
    ...pickDefined(input, CHANGEABLE),
    ...sealKey(gateway, id, provider, input.key),
    id,
    workspace_id,
    provider,
    sort_order: computeNextSortOrder(gateway, workspace_id, provider),
    created_at: getIsoTime(gateway),
  }
  checkByokKey(gateway, key, input)
  await gateway.store.byok.insert(key, auditByokKey(gateway, actor, null, key))
  gateway.memory.byok.set(decryptKey(gateway, key))
  return { data: showByokKey(key) }
}

/**
 * Lists one page of a workspace's provider keys, by provider and then in the order in which they
 * are tried. Throws 400 for a workspace or a provider that does not exist.
 */
export function listByokKeys(gateway: CatalogWorld, actor: Actor, query: ByokQuery) {
  return toPage(listWorkspaceByokKeys(gateway, actor, query), query, ({ key }) => showByokKey(key))
}

function listWorkspaceByokKeys(
  gateway: CatalogWorld,
  actor: Actor,
  { workspace_id, provider }: ByokQuery,
): DecryptedKey[] {
  const slug = provider === undefined ? undefined : parseProviderSlug(gateway, provider)
  const workspaceKeys = gateway.memory.byok
    .listByWorkspace(resolveWorkspaceId(gateway, actor, workspace_id))
    .filter(({ key }) => slug === undefined || key.provider === slug)
  return workspaceKeys.toSorted(({ key: a }, { key: b }) => compareTexts(a.provider, b.provider))
}

/** Returns one provider key by its id. Throws 404, also for a key of another workspace. */
export const getByokKey = (gateway: CatalogWorld, actor: Actor, id: string) => ({
  data: showByokKey(requireByokKey(gateway, actor, id).key),
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
  const { key } = requireByokKey(gateway, actor, id)
  const changes = {
    ...pickDefined(change, CHANGEABLE),
    ...(change.key === undefined ? {} : sealKey(gateway, id, key.provider, change.key)),
  }
  checkByokKey(gateway, { ...key, ...changes }, change)
  const entry = auditByokKey(gateway, actor, key, { ...key, ...changes })
  const isChange = Object.keys(changes).length > 0
  const write = async () => (isChange ? gateway.store.byok.update(id, changes, entry) : undefined)
  const changed = await gateway.memory.byok.change(
    id,
    now => decryptKey(gateway, { ...now.key, ...changes }, now),
    write,
  )
  return { data: showByokKey(requireFound(changed, NOUN).key) }
}

/**
 * Deletes a provider key. From the next call on it is not used, and its sealed credential is gone.
 * Throws 404.
 */
export async function deleteByokKey(gateway: CatalogWorld, actor: Actor, id: string) {
  const { key } = requireByokKey(gateway, actor, id)
  const entry = auditByokKey(gateway, actor, key, null)
  await gateway.store.byok.remove(id, entry.created_at, entry)
  gateway.memory.byok.delete(id)
  return { deleted: true as const }
}

/**
 * Returns whether a key can be used now. An `unreadable` key was sealed with another secret. An
 * `unserved` key belongs to a provider that this gateway does not know.
 */
export function getByokKeyState(
  gateway: CatalogWorld,
  id: string,
): 'active' | 'disabled' | 'unreadable' | 'unserved' {
  const decrypted = gateway.memory.byok.get(id)
  if (decrypted && !decrypted.isReadable) return 'unreadable'
  if (!decrypted || decrypted.providers.size === 0) return 'unserved'
  return decrypted.key.disabled ? 'disabled' : 'active'
}

/**
 * Lists the keys of the actor's workspace that the actor may use, in the order in which they are
 * tried.
 */
export function listUsableByokKeys(
  { memory: { byok } }: CatalogWorld,
  { workspace_id, key_hash, user_id }: Actor,
): DecryptedKey[] {
  const workspaceKeys = byok.listByWorkspace(workspace_id)
  return workspaceKeys.length === 0
    ? workspaceKeys
    : workspaceKeys.filter(
        ({ key }) =>
          !key.disabled &&
          isListed(key.allowed_user_ids, user_id) &&
          isApiKeyAllowed(key, key_hash),
      )
}

const isListed = (list: string[] | null, id: string) => list === null || list.includes(id)

const isApiKeyAllowed = ({ allowed_api_key_hashes: list }: ByokKey, hash: string | null) =>
  list === null || (hash !== null && list.includes(hash))

/**
 * Lists the provider keys that were sealed with another secret than this gateway's. They are not
 * used.
 */
export const listUnreadableByokKeys = ({ memory: { byok } }: CatalogWorld): ByokKey[] =>
  byok.listUnreadable()

/**
 * Reads every provider key and decrypts each as the iterator reaches it. Keeps what was built from
 * a credential that has not changed.
 */
export async function readByokKeys(gateway: CatalogWorld): Promise<Iterable<DecryptedKey>> {
  const keys = await gateway.store.byok.all()
  // Lazily: the config may have changed since the read, and with it where a key goes.
  return keys.values().map(key => decryptKey(gateway, key, gateway.memory.byok.get(key.id)))
}

function sealKey(
  gateway: CatalogWorld,
  id: string,
  provider: string,
  plaintext: string,
): Pick<ByokKey, 'sealed' | 'label'> {
  const text = plaintext.trim()
  const attempts = listProvidersByPublicSlug(gateway, provider).map(known =>
    openProviderWithCredential(known, gateway.config.providers[known.slug], text),
  )
  const issues = attempts.filter(one => 'expected' in one)
  const [issue] = issues
  if (issue && issues.length === attempts.length)
    throw invalid(`key: expected ${issue.expected}`, 'key')
  const nonce = Buffer.from(gateway.ids.secret(), 'hex').subarray(-12)
  return { sealed: gateway.secrets.seal().seal(text, id, nonce), label: createByokLabel(text) }
}

function checkByokKey(
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

function computeNextSortOrder(
  { memory: { byok } }: CatalogWorld,
  workspace_id: string,
  provider: string,
): number {
  const siblings = byok.listByWorkspace(workspace_id).filter(({ key }) => key.provider === provider)
  return 1 + Math.max(-1, ...siblings.map(({ key }) => key.sort_order))
}

function parseProviderSlug(gateway: CatalogWorld, providerName: string): string {
  const slug = getPublicSlug(providerName)
  if (!PUBLIC_PROVIDERS.includes(slug) && listProvidersByPublicSlug(gateway, slug).length === 0)
    throw invalid('provider: expected the slug of a provider that is known', 'provider')
  return slug
}

const NOUN = 'Provider key'

function requireByokKey(gateway: CatalogWorld, actor: Actor, id: string): DecryptedKey {
  const found = gateway.memory.byok.get(id)
  requireManaged(gateway, actor, found?.key, NOUN)
  return requireFound(found, NOUN)
}
