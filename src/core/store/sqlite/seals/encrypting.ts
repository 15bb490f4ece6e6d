import type { Database } from 'bun:sqlite'
import type { Seal } from '../../../kernel/seal.ts'
import type { RecordSecrets } from '../../../ledger/seals.ts'
import { resealVersions } from '../presets/sealing.ts'

/**
 * Encrypts with the current secret what the previous one has encrypted: provider keys, and
 * credentials in presets. What neither opens stays as it is. It belongs in a transaction.
 */
export function encryptAgain(db: Database, current: RecordSecrets, previous: RecordSecrets): void {
  encryptProviderKeys(db, current.seal(), previous.seal())
  resealVersions(db, current.presetSeal, previous.presetSeal)
}

function encryptProviderKeys(db: Database, current: Seal, previous: Seal): void {
  const rows = db
    .query<{ id: string; sealed: string }, []>("select id, sealed from byok where sealed <> ''")
    .all()
  const update = db.query('update byok set sealed = ? where id = ?')
  for (const { id, sealed } of rows) {
    const text = previous.open(sealed, id)
    if (text !== undefined)
      update.run(current.seal(text, id, crypto.getRandomValues(new Uint8Array(12))), id)
  }
}
