import { generateKeyPairSync } from 'node:crypto'
import { signCatalog } from '../../scripts/catalog/sign.ts'

/** Creates a signer of catalogues: the public key as a config has it, and what signs a text. */
export function createSigner() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  return {
    key: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    sign: (text: string) => signCatalog(text, pem),
  }
}
