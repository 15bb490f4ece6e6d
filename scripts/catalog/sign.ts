import { createHash, createPrivateKey, sign } from 'node:crypto'
import { buildSignedText, type CatalogSeal } from '../../src/resources/models/built-in.ts'

/**
 * Signs the data of a catalogue with an ed25519 key in PEM, and returns the file that
 * `gateway models update` installs.
 */
export function signCatalog(text: string, privateKey: string): string {
  const sha256 = createHash('sha256').update(text).digest('hex')
  const signature = sign(null, buildSignedText(sha256), createPrivateKey(privateKey))
  const seal: CatalogSeal = { catalog: 1, sha256, signature: signature.toString('base64') }
  return `${JSON.stringify(seal)}\n${text}`
}
