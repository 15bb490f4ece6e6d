import { PackedMirror } from '../../base/packed-mirror.ts'
import { KEY_MARKS, KEY_PACKING } from './packing.ts'
import type { Key } from './store.ts'

/** What is called when keys change. */
interface KeyListener {
  onChange(): void
  /** A key is deleted. */
  onDelete(hash: string): void
}

/** Holds every key in memory, by hash, and finds one by its secret. */
export class KeyMirror extends PackedMirror<Key> {
  readonly #listener: KeyListener
  #rotated: Map<string, Key> | undefined

  constructor(read: () => Promise<Iterable<Key>>, listener: KeyListener) {
    const onChange = () => {
      this.#rotated = undefined
      listener.onChange()
    }
    super(KEY_PACKING, { read, onChange })
    this.#listener = listener
  }

  /** Opens the mirror and reads what the store has. */
  static async openKeys(
    read: () => Promise<Iterable<Key>>,
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
    const rotated = this.#rotated.get(secretHash)
    return rotated?.secret_hash === secretHash || isOverlapping(rotated, now) ? rotated : undefined
  }

  #indexRotated(): Map<string, Key> {
    const index = new Map<string, Key>()
    for (const key of this.listMarked(KEY_MARKS.rotated)) {
      if (key.secret_hash !== null) index.set(key.secret_hash, key)
      if (key.previous_secret_hash !== null) index.set(key.previous_secret_hash, key)
    }
    return index
  }
}

const isOverlapping = (key: Key | undefined, now: Date): boolean =>
  key?.previous_secret_until != null && new Date(key.previous_secret_until) > now
/** Whether a key is valid at this moment. */
export const isUsable = (key: Key, now: Date): boolean =>
  !key.disabled && (key.expires_at === null || new Date(key.expires_at) > now)
