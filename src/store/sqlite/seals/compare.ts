import type { Database } from 'bun:sqlite'
import type { SealLog } from './log.ts'
import { readRows, readSeals } from './tables.ts'

/** How a row stands to its seal, and the seal that it has. A removed row has left only its seal. */
interface ComparedRow {
  id: string
  state: 'genuine' | 'changed' | 'added' | 'removed'
  /** Empty for an added row. */
  seal: string
}

/** Compares every row of a table with its seal. */
export function* compareRows(db: Database, log: SealLog, noun: string): Generator<ComparedRow> {
  const seals = readSeals(db, noun)
  for (const row of readRows(db, noun)) {
    const seal = seals.get(row.id) ?? ''
    const isGenuine = seal === log.sealRow(row)
    seals.delete(row.id)
    yield { id: row.id, seal, state: isGenuine ? 'genuine' : seal === '' ? 'added' : 'changed' }
  }
  for (const [id, seal] of seals) yield { id, seal, state: 'removed' }
}
