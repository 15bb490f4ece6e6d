import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'

/** Encrypts texts and decrypts them again, so that the store alone reveals nothing. */
export interface Seal {
  /**
   * Seals the text for `context`; it opens only with the same context. `nonce` is 12 bytes that
   * were never used before.
   */
  seal(text: string, context: string, nonce: Uint8Array): string
  /**
   * Opens a sealed text. Undefined when it was sealed with another secret or for another context,
   * or has been changed.
   */
  open(sealed: string, context: string): string | undefined
  /** Copies the key, for a Worker of this process that opens what was sealed: see `createSeal`. */
  exportKey(): Uint8Array
  /**
   * Seals, as `seal` does, what follows the first `SEAL_ROOM` bytes. They are then what the text of
   * `seal` stands for.
   */
  sealInPlace(bytes: Uint8Array, context: string, nonce: Uint8Array): void
  /** Opens what `sealInPlace` has sealed, as `open` does. */
  openBytes(sealed: Uint8Array, context: string): Buffer | undefined
}

const CIPHER = 'aes-256-gcm'
const NONCE = 12
const TAG = 16
/** In bytes: what comes before the ciphertext. */
export const SEAL_ROOM = NONCE + TAG

/**
 * Creates a seal whose key is derived from the secret (HKDF with SHA-256, RFC 5869). `purpose`
 * separates the keys of two uses. The cipher is AES-256-GCM (NIST SP 800-38D) with the context as
 * additional data. A sealed text is nonce, tag and ciphertext in base64url.
 */
export const openSeal = (secret: Uint8Array, purpose: string): Seal =>
  createSeal(Buffer.from(hkdfSync('sha256', secret, new Uint8Array(0), purpose, 32)))

/** Creates a seal from the key that another one has exported. */
export function createSeal(key: Uint8Array): Seal {
  const sealInPlace = (bytes: Uint8Array, context: string, nonce: Uint8Array): void => {
    const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG }).setAAD(
      Buffer.from(context),
    )
    // Bytes: a text takes longer than the cipher. This cipher's `final` returns none.
    const ciphertext = cipher.update(bytes.subarray(SEAL_ROOM))
    cipher.final()
    bytes.set(nonce)
    bytes.set(cipher.getAuthTag(), NONCE)
    bytes.set(ciphertext, SEAL_ROOM)
  }
  const openBytes = (bytes: Uint8Array, context: string): Buffer | undefined => {
    if (bytes.length < SEAL_ROOM) return undefined
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE), {
      authTagLength: TAG,
    }).setAAD(Buffer.from(context))
    decipher.setAuthTag(bytes.subarray(NONCE, SEAL_ROOM))
    try {
      const opened = decipher.update(bytes.subarray(SEAL_ROOM))
      // Throws where it was changed; this cipher's `final` returns none.
      decipher.final()
      return opened
    } catch {
      return undefined
    }
  }
  return {
    exportKey: () => new Uint8Array(key),
    seal(text, context, nonce) {
      const bytes = Buffer.allocUnsafe(SEAL_ROOM + Buffer.byteLength(text))
      bytes.write(text, SEAL_ROOM)
      sealInPlace(bytes, context, nonce)
      return bytes.toString('base64url')
    },
    open: (sealed, context) => openBytes(Buffer.from(sealed, 'base64url'), context)?.toString(),
    sealInPlace,
    openBytes,
  }
}
