import { hkdfSync } from 'node:crypto'

/**
 * Computes the authentication code of a text, in lowercase hex. Without the secret it can neither
 * be computed nor checked.
 */
export type Mac = (text: string) => string

/**
 * Creates a function that computes HMAC with SHA-256 (RFC 2104), with a key that is derived from
 * the secret (HKDF with SHA-256, RFC 5869). `purpose` separates the keys of two uses.
 */
export function openMac(secret: Uint8Array, purpose: string): Mac {
  return openMacOfKey(Buffer.from(hkdfSync('sha256', secret, new Uint8Array(0), purpose, 32)))
}

/** Opens one with the first text: its secret may not be read before. */
export function openMacLate(open: () => Mac): Mac {
  let mac: Mac | undefined
  return text => {
    mac ??= open()
    return mac(text)
  }
}

/** Creates a function that computes HMAC with SHA-256 with this key, which others have too. */
export function openMacOfKey(key: string | Uint8Array): Mac {
  // A copy has the key's two blocks hashed already.
  const keyed = new Bun.CryptoHasher('sha256', key)
  return text => keyed.copy().update(text).digest('hex')
}
