import type { Database } from 'bun:sqlite'
import { conflict, invalid } from '../../../base/errors.ts'
import type { Mac } from '../../../base/mac.ts'
import { renderAnchor } from '../../sql/generations/rows.ts'
import { SealLog } from './log.ts'

/** The secret that a gateway was given, before it seals anything. */
export interface GivenSecret {
  /** Tells where it comes from; null where there is none yet, and one would be made. */
  findSource(): 'GATEWAY_SECRET' | 'secret.key' | null
  /** In characters, where the operator chose it. */
  length: number | null
  /** Returns null where it cannot be read: that must not prevent the disabling of a key. */
  readMac(): Mac | null
}

/** In characters: nobody guesses as many. */
const SHORTEST = 32

/**
 * Throws 409 for a database that was sealed with another secret, before anything is written: what
 * this one sealed could not be told from a forgery. One seal that is altered is for `doctor` to tell.
 * Throws 400 for a secret that is too short for a new database.
 */
export function requireOwnSecret(db: Database, { findSource, length, readMac }: GivenSecret): void {
  if (!isSealed(db)) {
    if (isNew(db)) refuseShortSecret({ length })
    return
  }
  const source = findSource()
  if (source === null) throw wrongSecret(`The secret of this data is missing: ${REMEDY}`)
  const mac = readMac()
  if (mac === null || isOpeningGenuine(db, mac) || isAnchorGenuine(db, mac)) return
  throw wrongSecret(`This data was sealed with another secret than ${source}: ${REMEDY}`)
}

/** Nothing that needs the secret can be said, which is what `doctor` then finds. */
const wrongSecret = (message: string) => conflict(message).with({ metadata: { check: 'secret' } })

/** Throws 400 for a secret that is too short for new data. */
export function refuseShortSecret({ length }: Pick<GivenSecret, 'length'>): void {
  if (length !== null && length < SHORTEST)
    throw invalid(`GATEWAY_SECRET: expected at least ${SHORTEST} characters, found ${length}`)
}

const REMEDY =
  'set GATEWAY_SECRET, or bring back secret.key, as it was when the data was made; ' +
  'gateway doctor --reseal replaces a secret'

const hasTable = (db: Database, name: string): boolean =>
  db.query('select 1 from sqlite_schema where name = ?').get(name) !== null

// Data from before the seals keeps the secret that it has.
const isNew = (db: Database): boolean => !hasTable(db, 'meta')

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
