import { PackedMirror } from '../../base/mirror.ts'
import { NO_MARK, type Packing } from '../../base/packed-rows.ts'
import type { Key } from './store.ts'

/** What is called when keys change. */
interface KeyListener {
  /** Those of these hashes have changed, or all. */
  onChange(hashes?: Iterable<string>): void
  /** A key is deleted. */
  onDelete(hash: string): void
}

/** Holds every key in memory, by hash, and finds one by its secret. */
export class KeyMirror extends PackedMirror<Key> {
  readonly #listener: KeyListener
  /** The hashes of keys by those of their secrets that are others, or were. */
  #rotated: Map<string, string> | undefined

  constructor(read: (hashes?: string[]) => Promise<Iterable<Key>>, listener: KeyListener) {
    const onChange = (hashes?: Iterable<string>) => {
      if (!hashes) this.#rotated = undefined
      else if (this.#rotated) for (const hash of hashes) addSecrets(this.#rotated, this.get(hash))
      listener.onChange(hashes)
    }
    super(KEY_PACKING, { read, onChange })
    this.#listener = listener
  }

  /** Opens the mirror and reads what the store has. */
  static async openKeys(
    read: (hashes?: string[]) => Promise<Iterable<Key>>,
    listener: KeyListener,
  ): Promise<KeyMirror> {
    const mirror = new KeyMirror(read, listener)
    await mirror.reload()
    return mirror
  }

  override delete(hash: string): void {
    super.delete(hash)
    this.#listener.onDelete(hash)
  }

  /**
   * Finds the key that has a secret with this hash, or had it before a rotation whose overlap has
   * not ended. Times are compared, so that no timer has to fire.
   */
  findBySecret(secretHash: string, now: Date): Key | undefined {
    const key = this.get(secretHash)
    if (key?.secret_hash === null) return key
    this.#rotated ??= this.#indexRotated()
    // It may have been rotated again since it was indexed.
    const rotated = this.get(this.#rotated.get(secretHash) ?? '')
    const isCurrent = rotated?.secret_hash === secretHash
    const isPrevious = rotated?.previous_secret_hash === secretHash && isOverlapping(rotated, now)
    return isCurrent || isPrevious ? rotated : undefined
  }

  #indexRotated(): Map<string, string> {
    const index = new Map<string, string>()
    for (const key of this.listMarked(KEY_MARKS.rotated)) addSecrets(index, key)
    return index
  }
}

function addSecrets(index: Map<string, string>, key: Key | undefined): void {
  if (typeof key?.secret_hash === 'string') index.set(key.secret_hash, key.hash)
  if (typeof key?.previous_secret_hash === 'string') index.set(key.previous_secret_hash, key.hash)
}

const isOverlapping = (key: Key, now: Date): boolean =>
  key.previous_secret_until !== null && new Date(key.previous_secret_until) > now

/** Whether a key is valid at this moment. */
export const isUsable = (key: Key, now: Date): boolean =>
  !key.disabled && (key.expires_at === null || new Date(key.expires_at) > now)

/** The bits of a key's mark. */
export const KEY_MARKS = {
  disabled: 1,
  limited: 2,
  rotated: 4,
  management: 8,
  unscoped: 16,
  byok: 32,
} as const

/** How keys are held in memory, by hash and of a workspace: there may be very many. */
export const KEY_PACKING: Packing<Key> = {
  parse: parseKey,
  getName: ({ hash }) => hash,
  getGroup: ({ workspace_id }) => workspace_id,
  getMark: key =>
    (key.disabled ? KEY_MARKS.disabled : 0) +
    (key.limit === null ? 0 : KEY_MARKS.limited) +
    (key.secret_hash === null ? 0 : KEY_MARKS.rotated) +
    (key.kind === 'management' ? KEY_MARKS.management : 0) +
    (key.isUnscoped ? KEY_MARKS.unscoped : 0) +
    (key.include_byok_in_limit ? KEY_MARKS.byok : 0),
  tie: 'name',
  getTie: ({ hash }) => hash,
}

/** The fields of a row. Those that few keys have are one field. */
type Row = [
  hash: string,
  created_at: string,
  mark: number,
  workspace_id: string,
  name: string,
  label: string,
  creator_user_id: string | null,
  rare: Rare | null,
]

type Rare = [
  secret_hash: string | null,
  previous_secret_hash: string | null,
  previous_secret_until: string | null,
  external_user: string | null,
  external_api_key_hash: string | null,
  limit: string | null,
  limit_reset: Key['limit_reset'],
  expires_at: string | null,
  updated_at: string | null,
]

const NO_RARE: Rare = [null, null, null, null, null, null, null, null, null]
function parseKey(fields: unknown[]): Key {
  const [hash, created_at, mark, workspace_id, name, label, creator_user_id, rare] = fields as Row
  const has = (bit: number) => ((mark - NO_MARK) & bit) !== 0
  const [secret_hash, previous_secret_hash, previous_secret_until, external_user, ...others] =
    rare ?? NO_RARE
  const [external_api_key_hash, limit, limit_reset, expires_at, updated_at] = others
  return {
    hash,
    secret_hash,
    previous_secret_hash,
    previous_secret_until,
    name,
    label,
    kind: has(KEY_MARKS.management) ? 'management' : 'inference',
    workspace_id,
    isUnscoped: has(KEY_MARKS.unscoped),
    creator_user_id,
    external_user,
    external_api_key_hash,
    disabled: has(KEY_MARKS.disabled),
    limit: limit === null ? null : BigInt(limit),
    limit_reset,
    include_byok_in_limit: has(KEY_MARKS.byok),
    expires_at,
    created_at,
    updated_at,
  }
}
