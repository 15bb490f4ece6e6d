/** Hashes a secret: lowercase hex SHA-256. */
export const hashOf = (plaintext: string): string =>
  Bun.CryptoHasher.hash('sha256', plaintext, 'hex')

/**
 * Puts a checksum of eight digits at the end of a secret: so a secret scanner can tell it from a
 * look-alike.
 */
export const withChecksum = (secret: string): string =>
  secret + Bun.hash.crc32(secret).toString(16).padStart(8, '0')

/** Shows of a secret what may be shown, to know it again. */
export const masked = (plaintext: string) => `${plaintext.slice(0, 9)}...${plaintext.slice(-3)}`
