import type { Database } from 'bun:sqlite'
import { parseObject } from '../../../base/json.ts'
import type { Mac } from '../../../base/mac.ts'
import type { SealHead, SealOpening } from '../../../limits/seals.ts'
import {
  add,
  continueLog,
  isGenuine,
  type LogEntry,
  replaceSeal,
  SEALED_TABLES,
  type SealedRow,
  sealRow,
  toNumber,
  writeEntry,
} from '../../sql/seals.ts'
import type { Statement } from '../../sql/write.ts'
import { createRunner } from '../write.ts'
import { readRows, readSeals } from './tables.ts'

/** Whether a row is not what the owner of the secret has sealed. */
type IsForeign = (noun: string, id: string) => boolean

/** The seals of a database and their log, as `sql/seals.ts` writes them. */
export class SealLog {
  readonly #mac: Mac
  readonly #newest
  readonly #newestOpening
  readonly #entry
  readonly #run: (statement: Statement) => void
  readonly #writeSeal
  readonly #removeSeal

  constructor(db: Database, mac: Mac) {
    this.#mac = mac
    this.#newest = db.query<LogEntry, []>('select * from seal_log order by n desc limit 1')
    this.#newestOpening = db.query<LogEntry, []>(
      'select * from seal_log where opening is not null order by n desc limit 1',
    )
    this.#entry = db.query<LogEntry, [number]>('select * from seal_log where n = ?')
    this.#run = createRunner(db)
    this.#writeSeal = db.query('insert or replace into seals (noun, id, seal) values (?, ?, ?)')
    this.#removeSeal = db.query('delete from seals where noun = ? and id = ?')
  }

  /** Seals these rows as they stand, and writes an entry with an opening. There are no seals yet. */
  open(rows: Iterable<SealedRow>, opening: SealOpening): void {
    let sum = 0n
    for (const { noun, id, text } of rows)
      this.#run(
        replaceSeal(this.#mac, { noun, id, before: null, after: text }, moved => {
          sum = add(sum, moved)
        }),
      )
    const last = this.#newest.get() ?? { n: 0, seal: '' }
    this.#run(writeEntry(this.#mac, last, sum, JSON.stringify(opening)))
  }

  /** Makes the seals those of the rows as they stand, except where a row is foreign. */
  move(db: Database, isForeign: IsForeign): void {
    let sum = 0n
    let moved = 0
    for (const noun of SEALED_TABLES) {
      for (const change of this.#listMoves(db, noun, isForeign)) {
        sum = add(sum, change)
        moved += 1
      }
    }
    if (moved > 0) continueLog(this.#mac, sum).forEach(this.#run)
  }

  /** Computes the seal of a row. */
  sealRow(row: SealedRow): string {
    return sealRow(this.#mac, row)
  }

  /** Whether an entry was sealed by the owner of the secret, after the entry before it. */
  isGenuine(entry: LogEntry): boolean {
    const previous = this.#entry.get(entry.n - 1)?.seal ?? ''
    return isGenuine(this.#mac, previous, entry)
  }

  /** Reads the newest opening; null if it is missing or was made with another secret. */
  readOpening(): SealOpening | null {
    const entry = this.#newestOpening.get()
    if (!entry?.opening || !this.isGenuine(entry)) return null
    return (parseObject(entry.opening) as unknown as SealOpening | undefined) ?? null
  }

  readHead(): SealHead | null {
    const last = this.#newest.get()
    return last && { n: last.n, seal: last.seal }
  }

  has({ n, seal }: SealHead): boolean {
    return this.#entry.get(n)?.seal === seal
  }

  /** Seals the rows of a table that differ from their seals. Yields what each adds to the sum. */
  *#listMoves(db: Database, noun: string, isForeign: IsForeign): Generator<bigint> {
    const seals = readSeals(db, noun)
    for (const row of readRows(db, noun)) {
      const current = seals.get(row.id) ?? null
      seals.delete(row.id)
      const seal = isForeign(noun, row.id) ? current : this.sealRow(row)
      if (seal === null || seal === current) continue
      this.#writeSeal.run(noun, row.id, seal)
      yield toNumber(seal) - toNumber(current)
    }
    for (const [id, seal] of seals) {
      if (isForeign(noun, id)) continue
      this.#removeSeal.run(noun, id)
      yield -toNumber(seal)
    }
  }
}
