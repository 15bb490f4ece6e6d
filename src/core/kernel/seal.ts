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
  /** Seals as `seal` does, into the bytes that its text stands for. */
  sealBytes(text: string, context: string, nonce: Uint8Array): Uint8Array
  /** Opens what `sealBytes` has sealed, as `open` does. */
  openBytes(sealed: Uint8Array, context: string): string | undefined
}

const CIPHER = 'aes-256-gcm'
const NONCE = 12
const TAG = 16

/**
 * Creates a seal whose key is derived from the secret (HKDF with SHA-256, RFC 5869). `purpose`
 * separates the keys of two uses. The cipher is AES-256-GCM (NIST SP 800-38D) with the context as
 * additional data. A sealed text is nonce, tag and ciphertext in base64url.
 */
export function openSeal(secret: Uint8Array, purpose: string): Seal {
  const key = Buffer.from(hkdfSync('sha256', secret, new Uint8Array(0), purpose, 32))
  const sealBytes = (text: string, context: string, nonce: Uint8Array): Buffer => {
    const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG }).setAAD(
      Buffer.from(context),
    )
    // Bytes: a text takes longer than the cipher. This cipher's `final` returns none.
    const ciphertext = cipher.update(Buffer.from(text))
    cipher.final()
    // Copied by hand: `Buffer.concat` takes longer.
    const sealed = Buffer.allocUnsafe(NONCE + TAG + ciphertext.length)
    sealed.set(nonce)
    sealed.set(cipher.getAuthTag(), NONCE)
    sealed.set(ciphertext, NONCE + TAG)
    return sealed
  }
  const openBytes = (bytes: Uint8Array, context: string): string | undefined => {
    if (bytes.length < NONCE + TAG) return undefined
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE), {
      authTagLength: TAG,
    }).setAAD(Buffer.from(context))
    decipher.setAuthTag(bytes.subarray(NONCE, NONCE + TAG))
    try {
      return (
        decipher.update(bytes.subarray(NONCE + TAG), undefined, 'utf8') + decipher.final('utf8')
      )
    } catch {
      return undefined
    }
  }
  return {
    seal: (text, context, nonce) => sealBytes(text, context, nonce).toString('base64url'),
    open: (sealed, context) => openBytes(Buffer.from(sealed, 'base64url'), context),
    sealBytes,
    openBytes,
  }
}
