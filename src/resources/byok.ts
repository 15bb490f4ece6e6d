import { getIsoTime } from '../base/clock.ts'
import { invalid, requireFound } from '../base/errors.ts'
import { parseObject, pickDefined } from '../base/json.ts'
import { toPage } from '../base/pages.ts'
import { compareTexts } from '../base/sorting.ts'
import type { Auth } from '../config/credentials.ts'
import type { ProviderConfig } from '../config.ts'
import { type Actor, requireManaged, resolveWorkspaceId } from './actor.ts'
import { defineAudit, identifyById } from './audit/entry.ts'
import type { DecryptedKey } from './byok/decrypted-keys.ts'
import { PUBLIC_PROVIDERS } from './byok/providers.data.ts'
import { type ByokChange, type ByokQuery, CHANGEABLE, type NewByokKey } from './byok/schema.ts'
import type { ByokKey, ByokRoles } from './byok/store.ts'
import type { CatalogWorld } from './catalog-world.ts'
import { isUsable } from './keys/mirror.ts'
import type { Endpoint } from './models/catalog.ts'
import { getPublicSlug } from './providers/names.ts'
import type { Provider, SettingIssue } from './providers/provider.ts'
import { openProvider } from './providers.ts'

declare module '../base/events.ts' {
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
export async function createByokKey(world: CatalogWorld, actor: Actor, input: NewByokKey) {
  const provider = parseProviderSlug(world, input.provider)
  const workspace_id = resolveWorkspaceId(world, actor, input.workspace_id)
  const id = world.ids.uuid()
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
    ...sealKey(world, id, provider, input.key),
    id,
    workspace_id,
    provider,
    sort_order: computeNextSortOrder(world, workspace_id, provider),
    created_at: getIsoTime(world),
  }
  checkByokKey(world, key, input)
  await world.store.byok.insert(key, auditByokKey(world, actor, null, key))
  world.memory.byok.set(decryptKey(world, key))
  return { data: showByokKey(key) }
}

/**
 * Lists one page of a workspace's provider keys, by provider and then in the order in which they
 * are tried. Throws 400 for a workspace or a provider that does not exist.
 */
export function listByokKeys(world: CatalogWorld, actor: Actor, query: ByokQuery) {
  return toPage(listWorkspaceByokKeys(world, actor, query), query, ({ key }) => showByokKey(key))
}

function listWorkspaceByokKeys(
  world: CatalogWorld,
  actor: Actor,
  { workspace_id, provider }: ByokQuery,
): DecryptedKey[] {
  const slug = provider === undefined ? undefined : parseProviderSlug(world, provider)
  const workspaceKeys = world.memory.byok
    .listByWorkspace(resolveWorkspaceId(world, actor, workspace_id))
    .filter(({ key }) => slug === undefined || key.provider === slug)
  return workspaceKeys.toSorted(({ key: a }, { key: b }) => compareTexts(a.provider, b.provider))
}

/** Returns one provider key by its id. Throws 404, also for a key of another workspace. */
export const getByokKey = (world: CatalogWorld, actor: Actor, id: string) => ({
  data: showByokKey(requireByokKey(world, actor, id).key),
})

/**
 * Changes a provider key. A new `key` replaces the old one. Throws 404, and 400 as `createByokKey`
 * does.
 */
export async function updateByokKey(
  world: CatalogWorld,
  actor: Actor,
  id: string,
  change: ByokChange,
) {
  const { key } = requireByokKey(world, actor, id)
  const changes = {
    ...pickDefined(change, CHANGEABLE),
    ...(change.key === undefined ? {} : sealKey(world, id, key.provider, change.key)),
  }
  checkByokKey(world, { ...key, ...changes }, change)
  const entry = auditByokKey(world, actor, key, { ...key, ...changes })
  const isChange = Object.keys(changes).length > 0
  // Another change may have come meanwhile: the store judges again.
  const judge = (now: ByokRoles) => checkRoles({ ...now, ...changes })
  const update = () => world.store.byok.update(id, changes, entry, judge)
  const write = async () => (isChange ? update() : undefined)
  const changed = await world.memory.byok.change(
    id,
    now => decryptKey(world, { ...now.key, ...changes }, now),
    write,
  )
  return { data: showByokKey(requireFound(changed, NOUN).key) }
}

/**
 * Deletes a provider key. From the next call on it is not used, and its sealed credential is gone.
 * Throws 404.
 */
export async function deleteByokKey(world: CatalogWorld, actor: Actor, id: string) {
  const { key } = requireByokKey(world, actor, id)
  const entry = auditByokKey(world, actor, key, null)
  await world.store.byok.remove(id, entry.created_at, entry)
  world.memory.byok.delete(id)
  return { deleted: true as const }
}

/**
 * Returns whether a key can be used now. An `unreadable` key was sealed with another secret. An
 * `unserved` key belongs to a provider that this gateway does not know.
 */
export function getByokKeyState(
  world: CatalogWorld,
  id: string,
): 'active' | 'disabled' | 'unreadable' | 'unserved' {
  const decrypted = world.memory.byok.get(id)
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
export async function readByokKeys(
  world: CatalogWorld,
  ids?: string[],
): Promise<Iterable<DecryptedKey>> {
  const keys = await world.store.byok.all(ids)
  // Lazily: the config may have changed since the read, and with it where a key goes.
  return keys.values().map(key => decryptKey(world, key, world.memory.byok.get(key.id)))
}

function sealKey(
  world: CatalogWorld,
  id: string,
  provider: string,
  plaintext: string,
): Pick<ByokKey, 'sealed' | 'label'> {
  const text = plaintext.trim()
  const attempts = listProvidersByPublicSlug(world, provider).map(known =>
    openProviderWithCredential(known, world.config.providers[known.slug], text),
  )
  const issues = attempts.filter(one => 'expected' in one)
  const [issue] = issues
  if (issue && issues.length === attempts.length)
    throw invalid(`key: expected ${issue.expected}`, 'key')
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  return { sealed: world.secrets.seal().seal(text, id, nonce), label: createByokLabel(text) }
}

function checkByokKey(
  world: CatalogWorld,
  { workspace_id, ...key }: ByokKey,
  { allowed_api_key_hashes }: ByokChange,
): void {
  checkRoles(key)
  // An API key of another workspace counts as missing. It could not use this provider key, and the
  // answer must not reveal that it exists.
  const isLive = (hash: string) => {
    const key = world.memory.keys.get(hash)
    return key?.workspace_id === workspace_id && isUsable(key, world.clock.now())
  }
  if (allowed_api_key_hashes && !allowed_api_key_hashes.every(isLive))
    throw invalid(
      'allowed_api_key_hashes: expected API keys that exist in its workspace',
      'allowed_api_key_hashes',
    )
}

function checkRoles({ is_fallback, is_byok_only }: ByokRoles): void {
  if (is_fallback && is_byok_only)
    throw invalid('is_fallback: expected false where is_byok_only is true', 'is_fallback')
}

function computeNextSortOrder(
  { memory: { byok } }: CatalogWorld,
  workspace_id: string,
  provider: string,
): number {
  const siblings = byok.listByWorkspace(workspace_id).filter(({ key }) => key.provider === provider)
  return 1 + Math.max(-1, ...siblings.map(({ key }) => key.sort_order))
}

function parseProviderSlug(world: CatalogWorld, providerName: string): string {
  const slug = getPublicSlug(providerName)
  if (!PUBLIC_PROVIDERS.includes(slug) && listProvidersByPublicSlug(world, slug).length === 0)
    throw invalid('provider: expected the slug of a provider that is known', 'provider')
  return slug
}

const NOUN = 'Provider key'

function requireByokKey(world: CatalogWorld, actor: Actor, id: string): DecryptedKey {
  const found = world.memory.byok.get(id)
  requireManaged(world, actor, found?.key, NOUN)
  return requireFound(found, NOUN)
}

/** Returns a provider key as the wire shows it, without the sealed credential. */
const showByokKey = ({ sealed: _, ...shown }: ByokKey) => shown

/** Makes the audit entry of a change of a provider key. */
const auditByokKey = defineAudit<ByokKey, CatalogWorld>('byok', {
  identify: identifyById,
  show: showByokKeyForAudit,
})

// Of the key itself only a fingerprint, which tells whether it is the same again. Null where it
// cannot be decrypted.
function showByokKeyForAudit(key: ByokKey, world: CatalogWorld): object {
  const text = decryptText(world, key)
  return { ...showByokKey(key), key: text === undefined ? null : world.secrets.fingerprint(text) }
}

/** Decrypts a key. Keeps what `before` has if the credential is the same. */
export function decryptKey(world: CatalogWorld, key: ByokKey, before?: DecryptedKey): DecryptedKey {
  const endpoints = new WeakMap<Endpoint, Endpoint>()
  if (before?.key.sealed === key.sealed) return { ...before, key, endpoints }
  const text = decryptText(world, key)
  const providers =
    text === undefined ? new Map<string, Provider>() : openProviders(world, key.provider, text)
  return {
    key,
    isReadable: text !== undefined,
    credentialVersion: 1 + (before?.credentialVersion ?? 0),
    providers,
    endpoints,
  }
}

/**
 * Returns the sealed text, or undefined where it cannot be decrypted. A gateway without a secret
 * decrypts nothing and runs all the same.
 */
export function decryptText(world: CatalogWorld, { id, sealed }: ByokKey): string | undefined {
  try {
    return world.secrets.seal().open(sealed, id)
  } catch {
    return undefined
  }
}

function openProviders(world: CatalogWorld, provider: string, text: string): Map<string, Provider> {
  const attempts = listProvidersByPublicSlug(world, provider).map(known =>
    openProviderWithCredential(known, world.config.providers[known.slug], text),
  )
  return new Map(attempts.filter(one => 'name' in one).map(one => [one.slug, one]))
}

/** Lists our providers that the public slug stands for. */
export const listProvidersByPublicSlug = (
  { catalog }: CatalogWorld,
  provider: string,
): Provider[] =>
  [...catalog.providers.values()].filter(({ slug }) => getPublicSlug(slug) === provider)

/**
 * Headers of the operator's own account. They would contradict a caller's key, or be a second
 * credential.
 */
const ACCOUNT_HEADERS = [
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'xi-api-key',
  'x-key',
  'openai-organization',
  'openai-project',
]

/**
 * Opens the provider with a caller's credential instead of the operator's, or returns what is wrong
 * with the credential. A credential is a plain key or a JSON object: a Google service account, AWS
 * credentials (`access_key_id`, `secret_access_key`, optionally `session_token`; also in camelCase,
 * as AWS prints them), or `api_key`. Each may have a `region`.
 */
function openProviderWithCredential(
  { slug, protocol }: Provider,
  configured: ProviderConfig | undefined,
  text: string,
): Provider | SettingIssue {
  const {
    api_key: _,
    aws: __,
    service_account: ___,
    credentials: ____,
    auth,
    headers = {},
    ...rest
  } = configured ?? {}
  const credential = parseCredential(text)
  if ('field' in credential) return credential
  const authSetting = credential.api_key !== undefined && isHeaderAuth(auth) ? { auth } : {}
  const ownHeaders = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !ACCOUNT_HEADERS.includes(name.toLowerCase())),
  )
  const config: ProviderConfig = { ...rest, headers: ownHeaders, ...credential, ...authSetting }
  // Google's own default for accounts that name no region.
  if (config.service_account !== undefined) config.region ??= 'global'
  const opened = openProvider(slug, config, [protocol])
  return Array.isArray(opened) ? (opened[0] ?? EXPECTED) : opened
}

const HEADER_AUTHS: Auth[] = [
  'bearer',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'xi-api-key',
  'token',
  'key',
]

const isHeaderAuth = (auth: Auth | undefined): auth is Auth =>
  auth !== undefined && HEADER_AUTHS.includes(auth)

type CallerCredential = Pick<ProviderConfig, 'api_key' | 'aws' | 'service_account' | 'region'>

function parseCredential(text: string): CallerCredential | SettingIssue {
  if (!text.startsWith('{')) return isKey(text) ? { api_key: text } : EXPECTED
  const object = parseObject(text)
  if (!object) return EXPECTED
  const { region } = object
  if (region !== undefined && !isRegion(region))
    return { field: 'region', expected: 'a region in the JSON' }
  const regionSetting = region === undefined ? {} : { region }
  if ('private_key' in object) return { service_account: removeTokenUri(object), ...regionSetting }
  const aws = readAwsCredentials(object)
  if (aws) return { aws, ...regionSetting }
  return isKey(object.api_key) ? { api_key: object.api_key, ...regionSetting } : EXPECTED
}

const EXPECTED: SettingIssue = {
  field: 'key',
  expected: 'a key in printable ASCII, or the JSON of a service account or of AWS credentials',
}

// Any other character could end the header and begin another.
const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)

const isRegion = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z0-9-]{1,64}$/.test(value)

// A caller must not choose where tokens are bought, or the gateway would send requests to any
// address.
const removeTokenUri = ({ token_uri: _, ...account }: Record<string, unknown>) => account

function readAwsCredentials(
  object: Record<string, unknown>,
): NonNullable<ProviderConfig['aws']> | undefined {
  const access_key_id = object.access_key_id ?? object.accessKeyId
  const secret_access_key = object.secret_access_key ?? object.secretAccessKey
  const session_token = object.session_token ?? object.sessionToken
  if (!isKey(access_key_id) || !isKey(secret_access_key)) return undefined
  return { access_key_id, secret_access_key, ...(isKey(session_token) ? { session_token } : {}) }
}

/**
 * Returns a short label by which the owner recognizes the credential. For a JSON object it shows
 * the account name, never the secret.
 */
function createByokLabel(text: string): string {
  const object = text.startsWith('{') ? parseObject(text) : undefined
  const name =
    object && (object.client_email ?? object.access_key_id ?? object.accessKeyId ?? object.api_key)
  return maskText(object ? (typeof name === 'string' ? name : '') : text)
}

// Most of a short secret would be visible.
const maskText = (text: string) =>
  text.length < 16 ? '...' : `${text.slice(0, 4)}...${text.slice(-3)}`
