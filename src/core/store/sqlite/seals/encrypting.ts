import type { Database } from 'bun:sqlite'
import type { Seal } from '../../../kernel/seal.ts'
import type { RecordSecrets } from '../../../ledger/seals.ts'
import type { Spool } from '../../spool.ts'
import { BlockReader } from '../outbox/blocks.ts'
import type { BundleRow } from '../outbox/bundles.ts'
import { moveIntoRow, renderPayload } from '../outbox/messages.ts'
import { resealVersions } from '../presets/sealing.ts'

/**
 * Encrypts with the current secret what the previous one has encrypted: provider keys, credentials
 * in presets, and what destinations are configured with and told. What neither opens stays as it
 * is. It belongs in a transaction.
 */
export function encryptAgain(
  db: Database,
  current: RecordSecrets,
  previous: RecordSecrets,
  spool: Spool | null = null,
): void {
  const seals = [current.destinationSeal(), previous.destinationSeal()] as const
  encryptProviderKeys(db, current.seal(), previous.seal())
  resealVersions(db, current.presetSeal, previous.presetSeal)
  encryptDestinations(db, ...seals)
  encryptSpooled(db, ...seals, spool)
}

function encryptProviderKeys(db: Database, current: Seal, previous: Seal): void {
  encryptColumn(db, 'byok', current, previous)
}

function encryptDestinations(db: Database, current: Seal, previous: Seal): void {
  encryptColumn(db, 'destinations', current, previous)
  encryptMessages(db, current, previous)
}

/** Moves what the previous secret has encrypted in the spool into the database. */
function encryptSpooled(db: Database, current: Seal, previous: Seal, spool: Spool | null): void {
  const reader = new BlockReader(spool, () => previous)
  const next = db.query<BundleRow, [number]>(
    'select * from outbox where segment is not null and sequence > ? order by sequence limit 1',
  )
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const payload = renderPayload(row, reader, current)
    if (payload !== null) moveIntoRow(db, row.sequence, payload)
  }
}

/**
 * What is not sealed begins with a brace. A bundle has a line for each message. One row after the
 * other: there may be a million.
 */
function encryptMessages(db: Database, current: Seal, previous: Seal): void {
  const next = db.query<{ sequence: number; generation_id: string; payload: string }, [number]>(
    "select sequence, generation_id, payload from outbox where topic = 'trace' " +
      "and sequence > ? and segment is null and (calls > 1 or payload not like '{%') order by sequence limit 1",
  )
  const update = db.query('update outbox set payload = ? where sequence = ?')
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const ids = row.generation_id.split('\n')
    const lines = row.payload.split('\n')
    const payload = lines.map((line, i) => encryptMessage(line, ids[i] ?? '', current, previous))
    update.run(payload.join('\n'), row.sequence)
  }
}

function encryptMessage(line: string, id: string, current: Seal, previous: Seal): string {
  const text = line.startsWith('{') ? undefined : previous.open(line, id)
  return text === undefined ? line : current.seal(text, id, createNonce())
}

function encryptColumn(
  db: Database,
  table: 'byok' | 'destinations',
  current: Seal,
  previous: Seal,
): void {
  const rows = db
    .query<{ id: string; sealed: string }, []>(`select id, sealed from ${table} where sealed <> ''`)
    .all()
  const update = db.query(`update ${table} set sealed = ? where id = ?`)
  for (const { id, sealed } of rows) {
    const text = previous.open(sealed, id)
    if (text !== undefined) update.run(current.seal(text, id, createNonce()), id)
  }
}

const createNonce = () => crypto.getRandomValues(new Uint8Array(12))
