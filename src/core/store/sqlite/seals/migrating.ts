import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../kernel/mac.ts'
import { compareRows } from './compare.ts'
import { SealLog } from './log.ts'
import { listSealedTables } from './tables.ts'

/**
 * Runs migrations and seals again each row that they change, add or remove, whatever their
 * statements are, so that none can forget it. A row that was not as its seal says before stays so.
 * Tables that had no seals yet are sealed as they stand.
 */
export function moveSeals(
  db: Database,
  mac: Mac,
  applied: number,
  runMigrations: () => void,
): void {
  const log = new SealLog(db, mac)
  const foreign = new Set<string>()
  for (const noun of listSealedTables(applied))
    for (const { id, state } of compareRows(db, log, noun))
      if (state !== 'genuine') foreign.add(buildName(noun, id))
  runMigrations()
  log.move(db, (noun, id) => foreign.has(buildName(noun, id)))
}

const buildName = (noun: string, id: string) => `${noun}\0${id}`
