import { Mirror } from '../../kernel/mirror.ts'
import { compareTexts } from '../../kernel/sorting.ts'
import type { Endpoint } from '../models.ts'
import { publicSlugOf } from '../providers/called.ts'
import type { Provider } from '../providers.ts'
import type { CatalogWorld } from '../world.ts'
import { providerWith } from './credential.ts'
import type { ByokKey } from './store.ts'

/** A provider key with its decrypted credential, as calls use it. */
export interface OpenedKey {
  key: ByokKey
  /** False when it was sealed with another secret than this gateway's. */
  isReadable: boolean
  /**
   * Counts the credentials that this process has seen for the key. With a new credential its
   * endpoints are judged anew.
   */
  credentials: number
  /** Its providers with its credential, by our slugs. Empty when it cannot be used. */
  providers: Map<string, Provider>
  /** The catalogue's endpoints with its credential, as far as calls have needed them. */
  endpoints: WeakMap<Endpoint, Endpoint>
}

/** Decrypts a key. Keeps what `before` has if the credential is the same. */
export function opened(gateway: CatalogWorld, key: ByokKey, before?: OpenedKey): OpenedKey {
  const endpoints = new WeakMap<Endpoint, Endpoint>()
  if (before?.key.sealed === key.sealed) return { ...before, key, endpoints }
  const text = textOf(gateway, key)
  const providers =
    text === undefined ? new Map<string, Provider>() : providersOf(gateway, key.provider, text)
  return {
    key,
    isReadable: text !== undefined,
    credentials: 1 + (before?.credentials ?? 0),
    providers,
    endpoints,
  }
}

/**
 * Returns the sealed text, or undefined where it cannot be decrypted. A gateway without a secret
 * decrypts nothing and runs all the same.
 */
export function textOf(gateway: CatalogWorld, { id, sealed }: ByokKey): string | undefined {
  try {
    return gateway.secrets.seal().open(sealed, id)
  } catch {
    return undefined
  }
}

function providersOf(gateway: CatalogWorld, provider: string, text: string): Map<string, Provider> {
  const made = knownAs(gateway, provider).map(known =>
    providerWith(known, gateway.config.providers[known.slug], text),
  )
  return new Map(made.filter(one => 'name' in one).map(one => [one.slug, one]))
}

/** Lists our providers that the public slug stands for. */
export const knownAs = ({ catalog }: CatalogWorld, provider: string): Provider[] =>
  [...catalog.providers.values()].filter(({ slug }) => publicSlugOf(slug) === provider)

/** Holds every provider key in memory, by id and by workspace. */
export class OpenedKeys extends Mirror<OpenedKey> {
  readonly #tell: (unreadable: ByokKey) => void
  #byWorkspace: Map<string, OpenedKey[]> | undefined

  /** Reports each key that cannot be decrypted and either is new or could be decrypted before. */
  constructor(read: () => Promise<Iterable<OpenedKey>>, tell: (unreadable: ByokKey) => void) {
    super({
      read,
      nameOf: ({ key }) => key.id,
      onChange: () => {
        this.#byWorkspace = undefined
      },
    })
    this.#tell = tell
  }

  /** Lists the keys of a workspace in the order in which they are tried. */
  of(workspace_id: string): OpenedKey[] {
    this.#byWorkspace ??= this.#arrange()
    return this.#byWorkspace.get(workspace_id) ?? NONE
  }

  /** Lists the keys that were sealed with another secret than this gateway's. They are not used. */
  unreadable(): ByokKey[] {
    return this.where(({ isReadable }) => !isReadable).map(({ key }) => key)
  }

  override async reload(): Promise<void> {
    const known = new Set(this.unreadable().map(({ sealed }) => sealed))
    await super.reload()
    for (const key of this.unreadable()) if (!known.has(key.sealed)) this.#tell(key)
  }

  #arrange(): Map<string, OpenedKey[]> {
    const keys = Map.groupBy(this.values(), ({ key }) => key.workspace_id)
    for (const own of keys.values()) own.sort(byTurn)
    return keys
  }
}

const NONE: OpenedKey[] = []

const byTurn = ({ key: a }: OpenedKey, { key: b }: OpenedKey) =>
  a.sort_order - b.sort_order || compareTexts(a.id, b.id)
