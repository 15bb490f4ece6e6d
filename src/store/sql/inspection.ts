import { yieldToEventLoop } from '../../base/clock.ts'
import type { Mac } from '../../base/mac.ts'
import type { LedgerRow } from '../../limits/chain.ts'
import type { DaySpend, InspectionOptions, LedgerBooks } from '../../limits/ledger.ts'
import { findMatches, UNMATCHED } from './inspection/matches.ts'
import { sumParts } from './inspection/parts.ts'
import { inspectRecords } from './inspection/records.ts'
import { readAround, renderUnreadable, type Unreadable } from './inspection/slices.ts'
import { parseMoney, parseRow, type RawRow, selectLedger } from './ledger.ts'
import { type Inspected, list, type Reader, type Reading } from './reading.ts'

/** How many rows one read takes: a moment, in which no log has to wait. */
const AT_ONCE = 5_000

/**
 * Creates the inspection of everything that money depends on. It reads in slices, each at a moment
 * of its own, so that a server beside it writes and uses its log again as ever.
 */
export const createInspector =
  (inspected: Inspected, ownMac: Mac) =>
  async (
    onRow: (row: LedgerRow) => void,
    { mac = ownMac, parts = [], onProgress = () => undefined }: InspectionOptions = {},
  ): Promise<LedgerBooks> => {
    const ends = await inspected.readAtOnce(readEnds())
    const total = ends.seq + ends.row - ends.evicted
    let done = 0
    const onRead = (rows: number) => {
      done += rows
      onProgress(Math.min(done, total), total)
    }
    onRead(0)
    const [integrity, books] = await Promise.all([
      inspected.checkStructure(),
      readBooks({ inspected, mac, ends, parts, onRow, onRead }),
    ])
    return { ...books, integrity: [...integrity, ...books.integrity] }
  }

/** The ends of what is read, at one moment. */
interface Ends {
  seq: number
  row: number
  evicted: number
}

/** Reads the ledger, then the records, and matches them. */
async function readBooks(books: Books): Promise<LedgerBooks> {
  const { inspected, mac, ends, onRow, onRead } = books
  await inspected.prepare()
  const { spend, damaged } = await readChain(inspected, onRow, onRead)
  const chainedAt = await inspected.readAtOnce(findChainedAt())
  const scope = { lastRow: ends.row, chainedAt }
  const { charged, ...records } = await inspectRecords(inspected, mac, scope, onRead)
  const matches = await matchCalls(inspected, { ...ends, chainedAt, charged })
  const { unmatched } = matches
  const { parts, damaged: unread } = await sumParts(inspected, books.parts)
  const integrity = [...damaged, ...matches.damaged, ...unread]
  return { integrity, spend, parts, unmatched, records }
}

/** What the books are read with. */
interface Books {
  inspected: Inspected
  mac: Mac
  ends: Ends
  parts: string[]
  onRow: (row: LedgerRow) => void
  onRead: (rows: number) => void
}

/** Matches charges with calls. Where the file is damaged, that is not known. */
async function matchCalls(
  reader: Reader,
  scope: Parameters<typeof findMatches>[1],
): Promise<{ unmatched: LedgerBooks['unmatched']; damaged: string[] }> {
  try {
    const isMatched = await findMatches(reader, scope)
    return { unmatched: isMatched ? [] : await reader.readAtOnce(listUnmatched()), damaged: [] }
  } catch (thrown) {
    const reason = reader.readDamage(thrown)
    if (reason === null) throw thrown
    return { unmatched: [], damaged: [`calls cannot be matched with charges (${reason})`] }
  }
}

const ENDS = `select (select coalesce(max(seq), 0) from ledger) as seq,
  (select coalesce(max(rowid), 0) from generations) as row,
  (select coalesce(sum(calls), 0) from evicted_days) as evicted`

function* readEnds(): Reading<Ends> {
  const [ends] = yield* list<Ends>(ENDS)
  return ends as Ends
}

const CHAINED_AT =
  "select min(settled_at) as at from ledger where hash is not null and source <> 'opening'"

function* findChainedAt(): Reading<string | null> {
  const [row] = yield* list<{ at: string | null }>(CHAINED_AT)
  return row?.at ?? null
}

/** Passes every row to `onRow`. The counters are read at the moment of the last rows. */
async function readChain(
  inspected: Inspected,
  onRow: (row: LedgerRow) => void,
  onRead: (rows: number) => void,
): Promise<{ spend: DaySpend[]; damaged: string[] }> {
  const unreadable: Unreadable[] = []
  let after = 0
  function* readSlice() {
    const { seq } = yield* readEnds()
    const last = Math.min(after + AT_ONCE, seq)
    const rows = yield* readAround(inspected, readRows, [after, last], unreadable)
    return { rows, last, spend: last === seq ? yield* readSpend() : null }
  }
  for (;;) {
    await yieldToEventLoop()
    const { rows, last, spend } = await inspected.readAtOnce(readSlice())
    for (const row of rows) onRow(parseRow(row))
    onRead(rows.length)
    after = last
    if (spend) {
      const { name } = inspected
      return { spend, damaged: unreadable.map(one => renderUnreadable(name, 'ledger', one)) }
    }
  }
}

const ROWS = selectLedger('where seq > ? and seq <= ?')
const readRows = (after: number, last: number) =>
  list<RawRow & Omit<LedgerRow, 'byok' | 'nanos'>>(ROWS, after, last)

const SPEND = `select key_hash, user_id, workspace_id, day, byok, cast(nanos as text) as nanos
  from spend`

function* readSpend(): Reading<DaySpend[]> {
  const rows = yield* list<RawRow & Omit<DaySpend, 'byok' | 'nanos'>>(SPEND)
  return rows.map(parseRow)
}

/** Names what does not match, at one moment. */
function* listUnmatched(): Reading<LedgerBooks['unmatched']> {
  const rows = yield* list<{ id: string; charged: string | null; recorded: string | null }>(
    UNMATCHED,
  )
  return rows.map(({ id, charged, recorded }) => ({
    id,
    charged: parseMoney(charged),
    recorded: parseMoney(recorded),
  }))
}
