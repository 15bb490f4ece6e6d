import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../base/clock.ts'
import type { Mac } from '../../base/mac.ts'
import type { LedgerRow } from '../../limits/chain.ts'
import type { DaySpend, InspectionOptions, LedgerBooks } from '../../limits/ledger.ts'
import { runCheck } from './inspection/apart.ts'
import { findMatches, UNMATCHED } from './inspection/matches.ts'
import { sumParts } from './inspection/parts.ts'
import { readAhead } from './inspection/read-ahead.ts'
import { inspectRecords } from './inspection/records.ts'
import { isLarge } from './inspection/size.ts'
import { readAround, readDamage, renderUnreadable, type Unreadable } from './inspection/slices.ts'
import { parseMoney, parseRow, type RawRow, selectLedger } from './ledger/rows.ts'

/** How many rows one read takes: a moment, in which no log has to wait. */
const AT_ONCE = 5_000

/**
 * Creates the inspection of everything that money depends on. It reads in slices, each at a moment
 * of its own, so that a server beside it writes and uses its log again as ever.
 */
export const createInspector =
  (db: Database, ownMac: Mac) =>
  async (
    onRow: (row: LedgerRow) => void,
    { mac = ownMac, parts = [], onProgress = () => undefined }: InspectionOptions = {},
  ): Promise<LedgerBooks> => {
    const ends = readEnds(db)
    const total = ends.seq + ends.row - ends.evicted
    let done = 0
    const onRead = (rows: number) => {
      done += rows
      onProgress(Math.min(done, total), total)
    }
    onRead(0)
    const [integrity, books] = await Promise.all([
      runCheck(db, 'structure'),
      readBooks({ db, mac, ends, parts, onRow, onRead }),
    ])
    return { ...books, integrity: [...integrity, ...books.integrity] }
  }

type Ends = ReturnType<typeof readEnds>

/** Reads the ledger, then the records, and matches them. */
async function readBooks({
  db,
  mac,
  ends,
  parts: asked,
  onRow,
  onRead,
}: Reading): Promise<LedgerBooks> {
  if (isLarge(db)) await readAhead(db.filename)
  const { spend, damaged } = await readChain(db, onRow, onRead)
  const chainedAt = findChainedAt(db)
  const countEvicted = () => readEnds(db).evicted
  const scope = { lastRow: ends.row, chainedAt, countEvicted }
  const { charged, ...records } = await inspectRecords(db, mac, scope, onRead)
  const matches = await matchCalls(db, { ...ends, chainedAt, charged })
  const { unmatched } = matches
  const { parts, damaged: unread } = await sumParts(db, asked)
  const integrity = [...damaged, ...matches.damaged, ...unread]
  return { integrity, spend, parts, unmatched, records }
}

/** What the books are read with. */
interface Reading {
  db: Database
  mac: Mac
  ends: Ends
  parts: string[]
  onRow: (row: LedgerRow) => void
  onRead: (rows: number) => void
}

/** Matches charges with calls. Where the file is damaged, that is not known. */
async function matchCalls(
  db: Database,
  scope: Parameters<typeof findMatches>[1],
): Promise<{ unmatched: LedgerBooks['unmatched']; damaged: string[] }> {
  try {
    const isMatched = await findMatches(db, scope)
    return { unmatched: isMatched ? [] : listUnmatched(db), damaged: [] }
  } catch (thrown) {
    const reason = readDamage(thrown)
    if (reason === null) throw thrown
    return { unmatched: [], damaged: [`calls cannot be matched with charges (${reason})`] }
  }
}

/** The ends of what is read, at one moment. */
function readEnds(db: Database): { seq: number; row: number; evicted: number } {
  return db
    .query(
      `select (select coalesce(max(seq), 0) from ledger) as seq,
      (select coalesce(max(rowid), 0) from generations) as row,
      (select coalesce(sum(calls), 0) from evicted_days) as evicted`,
    )
    .get() as { seq: number; row: number; evicted: number }
}

function findChainedAt(db: Database): string | null {
  const row = db
    .query<{ at: string | null }, []>(
      "select min(settled_at) as at from ledger where hash is not null and source <> 'opening'",
    )
    .get()
  return row?.at ?? null
}

/** Passes every row to `onRow`. The counters are read at the moment of the last rows. */
async function readChain(
  db: Database,
  onRow: (row: LedgerRow) => void,
  onRead: (rows: number) => void,
): Promise<{ spend: DaySpend[]; damaged: string[] }> {
  const query = db.query<RawRow & Omit<LedgerRow, 'byok' | 'nanos'>, [number, number]>(
    `${selectLedger('where seq > ? and seq <= ?')}`,
  )
  const unreadable: Unreadable[] = []
  let after = 0
  const readSlice = db.transaction(() => {
    const { seq } = readEnds(db)
    const last = Math.min(after + AT_ONCE, seq)
    const rows = readAround((from, to) => query.all(from, to), after, last, unreadable)
    return { rows, last, spend: last === seq ? readSpend(db) : null }
  })
  for (;;) {
    await yieldToEventLoop()
    const { rows, last, spend } = readSlice.deferred()
    for (const row of rows) onRow(parseRow(row))
    onRead(rows.length)
    after = last
    if (spend) return { spend, damaged: unreadable.map(one => renderUnreadable(db, 'ledger', one)) }
  }
}

const readSpend = (db: Database): DaySpend[] =>
  (
    db.query('select *, cast(nanos as text) as nanos from spend').all() as (Omit<
      DaySpend,
      'byok' | 'nanos'
    > &
      RawRow)[]
  ).map(parseRow)

/** Names what does not match, at one moment. */
const listUnmatched = (db: Database): LedgerBooks['unmatched'] =>
  (
    db.query(UNMATCHED).all() as { id: string; charged: string | null; recorded: string | null }[]
  ).map(({ id, charged, recorded }) => ({
    id,
    charged: parseMoney(charged),
    recorded: parseMoney(recorded),
  }))
