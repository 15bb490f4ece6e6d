import { Mirror } from '../../base/mirror.ts'
import { compareTexts } from '../../base/sorting.ts'
import type { Endpoint } from '../models/catalog.ts'
import type { Provider } from '../providers/provider.ts'
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

/** Holds every provider key in memory, by id and by workspace. */
export class DecryptedKeys extends Mirror<DecryptedKey> {
  readonly #report: (unreadable: ByokKey) => void
  #byWorkspace: Map<string, DecryptedKey[]> | undefined
  /** The sealed credentials of those that cannot be decrypted. */
  #unreadable = new Set<string>()

  /** Reports each key that cannot be decrypted and either is new or could be decrypted before. */
  constructor(
    read: (ids?: string[]) => Promise<Iterable<DecryptedKey>>,
    report: (unreadable: ByokKey) => void,
  ) {
    super({
      read,
      getName: ({ key }) => key.id,
      onChange: () => {
        this.#byWorkspace = undefined
        this.#reportUnreadable()
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

  #reportUnreadable(): void {
    const known = this.#unreadable
    const unreadable = this.listUnreadable()
    this.#unreadable = new Set(unreadable.map(({ sealed }) => sealed))
    for (const key of unreadable) if (!known.has(key.sealed)) this.#report(key)
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
