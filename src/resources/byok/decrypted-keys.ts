import { Mirror } from '../../base/mirror.ts'
import { compareTexts } from '../../base/sorting.ts'
import type { CatalogWorld } from '../catalog-world.ts'
import type { Endpoint } from '../models.ts'
import { getPublicSlug } from '../providers/names.ts'
import type { Provider } from '../providers.ts'
import { openProviderWithCredential } from './credential.ts'
import type { ByokKey } from './store.ts'

/** A provider key with its decrypted credential, as calls use it. */
export interface DecryptedKey {
  key: ByokKey
  /** False when it was sealed with another secret than this gateway's. */
  isReadable: boolean
  /**
   * Counts the credentials that this process has seen for the key. With a new credential its
   * endpoints are judged anew.
   */
  credentialVersion: number
  /** Its providers with its credential, by our slugs. Empty when it cannot be used. */
  providers: Map<string, Provider>
  /** The catalogue's endpoints with its credential, as far as calls have needed them. */
  endpoints: WeakMap<Endpoint, Endpoint>
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

/** Holds every provider key in memory, by id and by workspace. */
export class DecryptedKeys extends Mirror<DecryptedKey> {
  readonly #report: (unreadable: ByokKey) => void
  #byWorkspace: Map<string, DecryptedKey[]> | undefined

  /** Reports each key that cannot be decrypted and either is new or could be decrypted before. */
  constructor(read: () => Promise<Iterable<DecryptedKey>>, report: (unreadable: ByokKey) => void) {
    super({
      read,
      getName: ({ key }) => key.id,
      onChange: () => {
        this.#byWorkspace = undefined
      },
    })
    this.#report = report
  }

  /** Lists the keys of a workspace in the order in which they are tried. */
  listByWorkspace(workspace_id: string): DecryptedKey[] {
    this.#byWorkspace ??= this.#groupByWorkspace()
    return this.#byWorkspace.get(workspace_id) ?? NO_KEYS
  }

  /** Lists the keys that were sealed with another secret than this gateway's. They are not used. */
  listUnreadable(): ByokKey[] {
    return this.filter(({ isReadable }) => !isReadable).map(({ key }) => key)
  }

  override async reload(): Promise<void> {
    const known = new Set(this.listUnreadable().map(({ sealed }) => sealed))
    await super.reload()
    for (const key of this.listUnreadable()) if (!known.has(key.sealed)) this.#report(key)
  }

  #groupByWorkspace(): Map<string, DecryptedKey[]> {
    const keys = Map.groupBy(this.values(), ({ key }) => key.workspace_id)
    for (const own of keys.values()) own.sort(compareSortOrder)
    return keys
  }
}

const NO_KEYS: DecryptedKey[] = []

const compareSortOrder = ({ key: a }: DecryptedKey, { key: b }: DecryptedKey) =>
  a.sort_order - b.sort_order || compareTexts(a.id, b.id)
