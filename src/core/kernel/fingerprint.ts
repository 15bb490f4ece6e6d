import { createHmac, hkdfSync } from 'node:crypto'

/** What stands for a secret where the secret may not: the same for the same secret, and nothing that leads back to it. */
export type Fingerprint = (secret: string) => string

/**
 * Fingerprints under a key that is derived from the gateway's own secret (HKDF with SHA-256, RFC 5869), so that nobody without that can
 * try guesses: HMAC with SHA-256 (RFC 2104) in hexadecimal, behind the name of what it is.
 */
export function openFingerprint(secret: Uint8Array): Fingerprint {
  const key = Buffer.from(hkdfSync('sha256', secret, new Uint8Array(0), 'fingerprint', 32))
  return text => `hmac-sha256:${createHmac('sha256', key).update(text).digest('hex')}`
}
