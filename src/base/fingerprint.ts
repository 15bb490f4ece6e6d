import { createHmac, hkdfSync } from 'node:crypto'

/**
 * Computes a value that stands for a secret where the secret must not appear. It is the same for
 * the same secret, and does not lead back to it.
 */
export type Fingerprint = (secret: string) => string

/**
 * Creates fingerprints with a key that is derived from the gateway's own secret (HKDF with SHA-256,
 * RFC 5869), so that guesses cannot be tested without that secret. A fingerprint is HMAC with
 * SHA-256 (RFC 2104) in hexadecimal, prefixed with the name of the algorithm.
 */
export function openFingerprint(secret: Uint8Array): Fingerprint {
  const key = Buffer.from(hkdfSync('sha256', secret, new Uint8Array(0), 'fingerprint', 32))
  return text => `hmac-sha256:${createHmac('sha256', key).update(text).digest('hex')}`
}
