/** Hashes a secret: lowercase hex SHA-256. */
export const hashSecret = (plaintext: string): string =>
  Bun.CryptoHasher.hash('sha256', plaintext, 'hex')

/**
 * Appends a checksum of eight digits to a secret, so that a secret scanner can tell it from a
 * look-alike.
 */
export const addChecksum = (secret: string): string =>
  secret + Bun.hash.crc32(secret).toString(16).padStart(8, '0')

/** Masks a secret to a label by which it can be recognized. */
export const maskSecret = (plaintext: string) => `${plaintext.slice(0, 9)}...${plaintext.slice(-3)}`
