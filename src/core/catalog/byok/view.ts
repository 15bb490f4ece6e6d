import { defineAudit, identifyById } from '../../identity/audit/entry.ts'
import type { CatalogWorld } from '../world.ts'
import { decryptText } from './decrypted-keys.ts'
import type { ByokKey } from './store.ts'

/** Returns a provider key as the wire shows it, without the sealed credential. */
export const showByokKey = ({ sealed: _, ...shown }: ByokKey) => shown

/** Makes the audit entry of a change of a provider key. */
export const auditByokKey = defineAudit<ByokKey, CatalogWorld>('byok', {
  identify: identifyById,
  show: showByokKeyForAudit,
})

// Of the key itself only a fingerprint, which tells whether it is the same again. Null where it
// cannot be decrypted.
function showByokKeyForAudit(key: ByokKey, world: CatalogWorld): object {
  const text = decryptText(world, key)
  return { ...showByokKey(key), key: text === undefined ? null : world.secrets.fingerprint(text) }
}
