import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../base/mac.ts'
import type { SealedData } from '../../own-secret.ts'
import { renderAnchor } from '../../sql/generations/rows.ts'
import { SealLog } from './log.ts'

/** Tells what a database has that was sealed. Data from before the seals keeps the secret that it has. */
export const readSealedData = (db: Database): SealedData => ({
  isNew: !hasTable(db, 'meta'),
  isSealed: isSealed(db),
  isOf: mac => isOpeningGenuine(db, mac) || isAnchorGenuine(db, mac),
})

const hasTable = (db: Database, name: string): boolean =>
  db.query('select 1 from sqlite_schema where name = ?').get(name) !== null

const isSealed = (db: Database): boolean =>
  hasTable(db, 'seal_log') &&
  db.query('select 1 from seal_log where opening is not null').get() !== null

const isOpeningGenuine = (db: Database, mac: Mac): boolean =>
  new SealLog(db, mac).readOpening() !== null

/** Records have a seal of their own that says where they begin. */
function isAnchorGenuine(db: Database, mac: Mac): boolean {
  if (!hasTable(db, 'record_seals')) return false
  const anchor = db
    .query<{ last_row: number; seal: string }, []>(
      'select last_row, seal from record_seals where columns = 0 order by n limit 1',
    )
    .get()
  return anchor !== null && anchor.seal === mac(renderAnchor(anchor.last_row))
}
