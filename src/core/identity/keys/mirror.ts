import { Mirror } from '../../kernel/mirror.ts'
import type { Key } from './store.ts'

/** Holds every key in memory, by hash, and finds one by its secret. */
export class KeyMirror extends Mirror<Key> {
  #rotated: Map<string, Key> | undefined

  constructor(read: () => Promise<Iterable<Key>>, onChange: () => void) {
    super({
      read,
      getName: ({ hash }) => hash,
      onChange: () => {
        this.#rotated = undefined
        onChange()
      },
    })
  }

  /** Opens the mirror and reads what the store has. */
  static async openKeys(
    read: () => Promise<Iterable<Key>>,
    onChange: () => void,
  ): Promise<KeyMirror> {
    const mirror = new KeyMirror(read, onChange)
    await mirror.reload()
    return mirror
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
    for (const key of this.values()) {
      if (key.secret_hash !== null) index.set(key.secret_hash, key)
      if (key.previous_secret_hash !== null) index.set(key.previous_secret_hash, key)
    }
    return index
  }
}

const isOverlapping = (key: Key | undefined, now: Date): boolean =>
  key?.previous_secret_until != null && new Date(key.previous_secret_until) > now
