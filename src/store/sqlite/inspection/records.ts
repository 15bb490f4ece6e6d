import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../../base/clock.ts'
import type { Mac } from '../../../base/mac.ts'
import type { RecordReport } from '../../../limits/ledger.ts'
import {
  RECORD_COLUMNS,
  renderRecord,
  renderRecords,
  type SealedValue,
} from '../../sql/generations/rows.ts'
import { type RecordSeal, renderAnchor } from '../generations/sealing.ts'
import { readAround, renderUnreadable, type Unreadable } from './slices.ts'

/** A record as it is read: the number of its row, then the values of its columns. */
type RecordRow = [row: number, ...values: SealedValue[]]

const MONEY = ['total_cost', 'upstream_inference_cost']
const COLUMNS = RECORD_COLUMNS.map(name => (MONEY.includes(name) ? `cast(${name} as text)` : name))
const select = (columns: string[]): string =>
  `select rowid, ${columns.join(', ')} from generations ` +
  'where rowid > ? and rowid <= ? order by rowid'

const findPlace = (name: (typeof RECORD_COLUMNS)[number]): number =>
  RECORD_COLUMNS.indexOf(name) + 1
const ID = findPlace('id')
const SETTLED_AT = findPlace('settled_at')
const KEY_HASH = findPlace('key_hash')
const COST = findPlace('upstream_inference_cost')
const RESPONSES = findPlace('provider_responses')
const SOURCE = findPlace('usageSource')
const LISTS = ['provider_responses', 'contentFilters', 'steps'] as const

/** What is read of a record without a seal; all else is null. */
const READ_UNSEALED = ['id', 'settled_at', 'key_hash', 'upstream_inference_cost', ...LISTS]
const FEW_COLUMNS = COLUMNS.map((column, i) =>
  READ_UNSEALED.includes(RECORD_COLUMNS[i] ?? '') ? column : 'null',
)

/** As a record has that a provider has taken the prompt: texts of others have their quotes escaped. */
const TAKEN = '"taken":true'

/** How many rows one read takes, and how many seals. */
const AT_ONCE = 2_000

/** More than any transaction writes: a seal of more is none of ours. */
const MOST_SEALED = 10_000

/** What an inspection of records starts from. */
interface RecordScope {
  /** The last record that belongs to it. */
  lastRow: number
  /** When the first row of the ledger's chain was settled; null if there is none. */
  chainedAt: string | null
  /** Returns how many records have been removed by their age. */
  countEvicted(): number
}

/**
 * Reads every record once, in slices, and compares those of each seal with it. What cannot be read,
 * was changed or has a garbled list is named, and the others are read all the same. Calls `onRead`
 * with how many rows were read after each slice.
 */
export async function inspectRecords(
  db: Database,
  mac: Mac,
  scope: RecordScope,
  onRead: (rows: number) => void,
): Promise<RecordReport & { charged: number }> {
  const evictedBefore = scope.countEvicted()
  const inspection = new RecordInspection(db, mac, scope)
  for (let more = true; more; ) {
    await yieldToEventLoop()
    const before = inspection.count
    more = inspection.readNext()
    onRead(inspection.count - before)
  }
  return inspection.finish(evictedBefore)
}

class RecordInspection {
  count = 0
  readonly #db: Database
  readonly #mac: Mac
  readonly #scope: RecordScope
  readonly #read
  readonly #readFew
  readonly #listSeals
  readonly #unreadable: Unreadable[] = []
  readonly #problems: string[] = []
  /** Sealed together, and some are no longer there. */
  readonly #incomplete: string[] = []
  readonly #unpaid: RecordReport['unpaid'] = []
  readonly #countCharges
  #unsealed = 0
  #charged = 0
  /** The last row that was read, the last one whose seal cannot be checked, and the newest seal. */
  #row = 0
  #opening = 0
  #n = 0

  constructor(db: Database, mac: Mac, scope: RecordScope) {
    this.#db = db
    this.#mac = mac
    this.#scope = scope
    this.#read = db.query(select(COLUMNS))
    this.#readFew = db.query(select(FEW_COLUMNS))
    this.#listSeals = db.query<RecordSeal, [number, number, number]>(
      'select * from record_seals where n > ? and first_row <= ? order by n limit ?',
    )
    this.#countCharges = db.query<{ count: number }, [string]>(
      "select count(*) as count from ledger where id = ? and source not in ('none', 'opening')",
    )
    this.#readAnchor()
  }

  #readAnchor(): void {
    const [anchor] = this.#listSeals.all(0, 0, 1)
    if (anchor?.columns === 0) {
      this.#n = anchor.n
      this.#opening = anchor.last_row
    }
    if (anchor?.columns !== 0 || anchor.seal !== this.#mac(renderAnchor(anchor.last_row)))
      this.#problems.push('the first seal of records is missing, or of another secret')
  }

  /** Reads the next rows. Returns whether there are more. */
  readNext(): boolean {
    const { lastRow } = this.#scope
    if (this.#row >= lastRow) return false
    if (this.#row < this.#opening) this.#readUnsealed(Math.min(this.#opening, lastRow))
    else if (!this.#readSealed()) this.#readStray(lastRow)
    return this.#row < lastRow
  }

  // Large numbers of removed records before the first one are passed over at once.
  #readUnsealed(last: number): void {
    const first = this.#findFirst() ?? last
    const end = Math.min(last, Math.max(first, this.#row + 1) + AT_ONCE)
    for (const row of this.#readRows(end, this.#readFew)) {
      this.#unsealed += 1
      this.#checkLists(row)
    }
  }

  #findFirst(): number | undefined {
    return this.#db
      .query<{ row: number }, [number]>(
        'select rowid as row from generations where rowid > ? order by rowid limit 1',
      )
      .get(this.#row)?.row
  }

  /** Compares the records of the next seals. Returns false after the last one. */
  #readSealed(): boolean {
    const seals = this.#takeSeals()
    const last = seals.at(-1)
    if (!last) return false
    if (isTooLarge(last)) {
      this.#passOver(last)
      return true
    }
    const damaged = this.#unreadable.length
    const rows = this.#readRows(last.last_row)
    const isDamaged = this.#unreadable.length > damaged
    let place = 0
    for (const seal of seals) {
      const start = place
      while (place < rows.length && (rows[place]?.[0] ?? 0) <= seal.last_row) place += 1
      this.#verify(seal, rows.slice(start, place), isDamaged)
    }
    return true
  }

  // Read in slices as those without a seal: all of them at once may be more than the memory holds.
  #passOver({ first_row, last_row }: RecordSeal): void {
    const rows = renderRange('record', first_row, last_row)
    this.#problems.push(`${rows}: no transaction writes so many under one seal`)
    this.#opening = last_row
  }

  /** Takes the next seals, up to some number of rows. */
  #takeSeals(): RecordSeal[] {
    const found = this.#listSeals.all(this.#n, this.#scope.lastRow, AT_ONCE)
    const taken = found.filter(
      (seal, i) =>
        i === 0 || (!isTooLarge(found[0]) && seal.last_row <= (found[0]?.last_row ?? 0) + AT_ONCE),
    )
    for (const { n, first_row } of taken) {
      if (n !== this.#n + 1)
        this.#problems.push(`seals of records are missing before row ${first_row}`)
      this.#n = n
    }
    return taken
  }

  #verify(seal: RecordSeal, rows: RecordRow[], isDamaged: boolean): void {
    const { first_row, last_row, columns } = seal
    if (rows.length < last_row - first_row + 1) {
      this.#unsealed += rows.length
      if (!isDamaged) this.#incomplete.push(renderRange('record', first_row, last_row))
      return
    }
    const values = rows.map(row => row.slice(1, columns + 1))
    if (seal.seal === this.#mac(renderRecords(first_row, values.map(renderRecord)))) return
    const garbled = rows.filter(row => this.#checkLists(row))
    if (garbled.length > 0) return
    const ids = [...new Set([rows[0]?.[ID], rows.at(-1)?.[ID]])].join(' to ')
    const what = renderRange('record', first_row, last_row)
    this.#problems.push(`${what} (${ids}) ${rows.length > 1 ? 'are' : 'is'} not as written`)
  }

  #readStray(last: number): void {
    const rows = this.#readRows(Math.min(last, this.#row + AT_ONCE))
    for (const [row, ...values] of rows)
      this.#problems.push(`record row ${row} (${values[ID - 1]}) was added by another program`)
  }

  #readRows(last: number, query = this.#read): RecordRow[] {
    const read = (after: number, end: number) => query.values(after, end) as RecordRow[]
    const rows = readAround(read, this.#row, last, this.#unreadable)
    this.#row = last
    this.count += rows.length
    for (const row of rows) {
      if (this.#isCharged(row)) this.#charged += 1
      this.#checkPaid(row)
    }
    return rows
  }

  // Each prompt that a provider has taken is a charge of its own. The last one of a call has no row
  // if it comes to nothing.
  #checkPaid(row: RecordRow): void {
    if (row[KEY_HASH] === null) return
    const taken = String(row[RESPONSES]).split(TAKEN).length - 1
    if (taken === 0) return
    const id = String(row[ID])
    const charged = this.#countCharges.get(id)?.count ?? 0
    const rowless = row[SOURCE] === 'none' ? 0 : 1
    if (charged + rowless < taken) this.#unpaid.push({ id, taken, charged })
  }

  #isCharged(row: RecordRow): boolean {
    const { chainedAt } = this.#scope
    const cost = row[COST]
    return (
      chainedAt !== null &&
      row[KEY_HASH] !== null &&
      cost !== null &&
      cost !== '0' &&
      String(row[SETTLED_AT]) >= chainedAt
    )
  }

  /** Notes garbled lists of a record. Returns whether there are any. */
  #checkLists(row: RecordRow): boolean {
    const garbled = LISTS.filter(name => !isJson(row[findPlace(name)]))
    for (const name of garbled)
      this.#problems.push(
        `record row ${row[0]} (${row[ID]}) of ${this.#db.filename}: ${name} is garbled`,
      )
    return garbled.length > 0
  }

  finish(evictedBefore: number): RecordReport & { charged: number } {
    const { lastRow, countEvicted } = this.#scope
    const missing = lastRow - this.count
    const isEvicted = missing >= evictedBefore && missing <= countEvicted()
    const damaged = this.#unreadable.map(one => renderUnreadable(this.#db, 'record', one))
    const incomplete = this.#incomplete.map(rows => `${rows}: some are missing`)
    const problems = [...damaged, ...this.#problems, ...(isEvicted ? [] : incomplete)]
    const found = { problems, unpaid: this.#unpaid, charged: this.#charged }
    return { count: this.count, unsealed: this.#unsealed, ...found }
  }
}

const isTooLarge = (seal: RecordSeal | undefined): boolean =>
  seal !== undefined && seal.last_row - seal.first_row >= MOST_SEALED

const renderRange = (what: string, first: number, last: number): string =>
  first === last ? `${what} row ${first}` : `${what} rows ${first} to ${last}`

function isJson(text: SealedValue | undefined): boolean {
  if (text === '[]') return true
  try {
    return Array.isArray(JSON.parse(String(text)))
  } catch {
    return false
  }
}
