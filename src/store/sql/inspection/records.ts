import { yieldToEventLoop } from '../../../base/clock.ts'
import type { Mac } from '../../../base/mac.ts'
import type { RecordReport } from '../../../limits/ledger.ts'
import {
  RECORD_COLUMNS,
  type RecordSeal,
  renderAnchor,
  renderRecord,
  renderRecords,
  type SealedValue,
} from '../generations/rows.ts'
import { type Inspected, list, listColumns, type Reading } from '../reading.ts'
import { readAround, renderUnreadable, type Unreadable } from './slices.ts'

/** A record as it is read: the number of its row, then the values of its columns. */
type RecordRow = [row: number, ...values: SealedValue[]]

const MONEY = ['total_cost', 'upstream_inference_cost']
const COLUMNS = RECORD_COLUMNS.map(name =>
  MONEY.includes(name) ? `cast(${name} as text)` : `"${name}"`,
)
const select = (columns: string[]): string =>
  `select ${listColumns(['rowid', ...columns])} from generations ` +
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
const [SELECT, SELECT_FEW] = [select(COLUMNS), select(FEW_COLUMNS)]
const FIND_FIRST = 'select rowid as row from generations where rowid > ? order by rowid limit 1'
const LIST_SEALS = 'select * from record_seals where n > ? and first_row <= ? order by n limit ?'
const COUNT_CHARGES = `select id, count(*) as count from ledger
  where id in (select value from json_each(?)) and source not in ('none', 'opening') group by id`
const COUNT_EVICTED = 'select coalesce(sum(calls), 0) as calls from evicted_days'

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
}

/**
 * Reads every record once, in slices, and compares those of each seal with it. What cannot be read,
 * was changed or has a garbled list is named, and the others are read all the same. Calls `onRead`
 * with how many rows were read after each slice.
 */
export async function inspectRecords(
  inspected: Inspected,
  mac: Mac,
  scope: RecordScope,
  onRead: (rows: number) => void,
): Promise<RecordReport & { charged: number }> {
  const { readAtOnce } = inspected
  const evictedBefore = await readAtOnce(countEvicted())
  const inspection = new RecordInspection(inspected, mac, scope)
  await readAtOnce(inspection.readAnchor())
  for (let more = true; more; ) {
    await yieldToEventLoop()
    const before = inspection.count
    more = await readAtOnce(inspection.readNext())
    onRead(inspection.count - before)
  }
  return inspection.finish(evictedBefore, await readAtOnce(countEvicted()))
}

/** Counts the records that have been removed by their age. */
function* countEvicted(): Reading<number> {
  const [row] = yield* list<{ calls: number }>(COUNT_EVICTED)
  return row?.calls ?? 0
}

class RecordInspection {
  count = 0
  readonly #inspected: Inspected
  readonly #mac: Mac
  readonly #scope: RecordScope
  readonly #unreadable: Unreadable[] = []
  readonly #problems: string[] = []
  /** Sealed together, and some are no longer there. */
  readonly #incomplete: string[] = []
  readonly #unpaid: RecordReport['unpaid'] = []
  #unsealed = 0
  #charged = 0
  /** The last row that was read, the last one whose seal cannot be checked, and the newest seal. */
  #row = 0
  #opening = 0
  #n = 0

  constructor(inspected: Inspected, mac: Mac, scope: RecordScope) {
    this.#inspected = inspected
    this.#mac = mac
    this.#scope = scope
  }

  *readAnchor(): Reading<void> {
    const [anchor] = yield* list<RecordSeal>(LIST_SEALS, 0, 0, 1)
    if (anchor?.columns === 0) {
      this.#n = anchor.n
      this.#opening = anchor.last_row
    }
    if (anchor?.columns !== 0 || anchor.seal !== this.#mac(renderAnchor(anchor.last_row)))
      this.#problems.push('the first seal of records is missing, or of another secret')
  }

  /** Reads the next rows. Returns whether there are more. */
  *readNext(): Reading<boolean> {
    const { lastRow } = this.#scope
    if (this.#row >= lastRow) return false
    if (this.#row < this.#opening) yield* this.#readUnsealed(Math.min(this.#opening, lastRow))
    else if (!(yield* this.#readSealed())) yield* this.#readStray(lastRow)
    return this.#row < lastRow
  }

  // Large numbers of removed records before the first one are passed over at once.
  *#readUnsealed(last: number): Reading<void> {
    const [found] = yield* list<{ row: number }>(FIND_FIRST, this.#row)
    const end = Math.min(last, Math.max(found?.row ?? last, this.#row + 1) + AT_ONCE)
    for (const row of yield* this.#readRows(end, SELECT_FEW)) {
      this.#unsealed += 1
      this.#checkLists(row)
    }
  }

  /** Compares the records of the next seals. Returns false after the last one. */
  *#readSealed(): Reading<boolean> {
    const seals = yield* this.#takeSeals()
    const last = seals.at(-1)
    if (!last) return false
    if (isTooLarge(last)) {
      this.#passOver(last)
      return true
    }
    const damaged = this.#unreadable.length
    const rows = yield* this.#readRows(last.last_row)
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
  *#takeSeals(): Reading<RecordSeal[]> {
    const { lastRow } = this.#scope
    const found = yield* list<RecordSeal>(LIST_SEALS, this.#n, lastRow, AT_ONCE)
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

  *#readStray(last: number): Reading<void> {
    const rows = yield* this.#readRows(Math.min(last, this.#row + AT_ONCE))
    for (const [row, ...values] of rows)
      this.#problems.push(`record row ${row} (${values[ID - 1]}) was added by another program`)
  }

  *#readRows(last: number, select = SELECT): Reading<RecordRow[]> {
    const read = (after: number, end: number) => list<object>(select, after, end)
    const range: [number, number] = [this.#row, last]
    const found = yield* readAround(this.#inspected, read, range, this.#unreadable)
    const rows = found.map(row => Object.values(row) as RecordRow)
    this.#row = last
    this.count += rows.length
    for (const row of rows) if (this.#isCharged(row)) this.#charged += 1
    yield* this.#checkPaid(rows)
    return rows
  }

  // Each prompt that a provider has taken is a charge of its own. The last one of a call has no row
  // if it comes to nothing.
  *#checkPaid(rows: RecordRow[]): Reading<void> {
    const taking = rows.flatMap(row => {
      const taken = row[KEY_HASH] === null ? 0 : String(row[RESPONSES]).split(TAKEN).length - 1
      const rowless = row[SOURCE] === 'none' ? 0 : 1
      return taken > 0 ? [{ id: String(row[ID]), taken, rowless }] : []
    })
    if (taking.length === 0) return
    const ids = JSON.stringify(taking.map(({ id }) => id))
    const counts = yield* list<{ id: string; count: number }>(COUNT_CHARGES, ids)
    const charges = new Map(counts.map(({ id, count }) => [id, count]))
    for (const { id, taken, rowless } of taking) {
      const charged = charges.get(id) ?? 0
      if (charged + rowless < taken) this.#unpaid.push({ id, taken, charged })
    }
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
        `record row ${row[0]} (${row[ID]}) of ${this.#inspected.name}: ${name} is garbled`,
      )
    return garbled.length > 0
  }

  finish(evictedBefore: number, evicted: number): RecordReport & { charged: number } {
    const missing = this.#scope.lastRow - this.count
    const isEvicted = missing >= evictedBefore && missing <= evicted
    const { name } = this.#inspected
    const damaged = this.#unreadable.map(one => renderUnreadable(name, 'record', one))
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
