import { toDayNumber, yieldToEventLoop } from '../../base/clock.ts'
import type { Mac } from '../../base/mac.ts'
import { nameParts, parseAccount } from '../../limits/call-budgets.ts'
import { type ChargedRow, PartReader } from '../../limits/call-spend.ts'
import type { LedgerRow } from '../../limits/chain.ts'
import {
  DAYS_KEPT,
  type DaySpend,
  type InspectionOptions,
  type LedgerBooks,
  type PartSum,
  type Subaccount,
  type SubaccountSpend,
} from '../../limits/ledger.ts'
import { CORRECTION } from '../../observability/rollups.ts'
import { IS_CHARGED } from './generations/evicted.ts'
import { inspectRecords } from './inspection/records.ts'
import { readAround, renderUnreadable, type Unreadable } from './inspection/slices.ts'
import { parseMoney, parseRow, type RawRow, selectLedger } from './ledger.ts'
import { type Inspected, list, type Query, type Reader, type Reading } from './reading.ts'

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

/** How many rows of the ledger one read matches. */
const MATCHED_AT_ONCE = 20_000

/** What a comparison of charges with calls starts from. */
interface Scope {
  /** The last row of the ledger, and the last record. */
  seq: number
  row: number
  /** When the first row of the chain was settled; null if there is none. */
  chainedAt: string | null
  /** How many records have a charge in the chain. */
  charged: number
}

/** The condition for a call to be charged, as `IS_CHARGED`, without looking for the chain's start. */
const CHARGED = 'g.key_hash is not null and g.upstream_inference_cost <> 0 and g.settled_at >= ?'

/** Charges of one-step calls that have their call, among some rows, and all others. */
const COUNT_MATCHED = `select count(*) as count from ledger as l join generations as g
  on g.id = l.id and g.rowid <= ? and ${CHARGED} and g.upstream_inference_cost = l.nanos
  where l.seq > ? and l.seq <= ? and l.several = 0 and l.source <> 'opening'`
const COUNT_ROWS = `select count(*) as count from ledger
  where seq > ? and seq <= ? and several = 0 and source <> 'opening' and nanos <> 0`
const COUNT_STEPS = `select count(*) as count from ledger where several = 1`

/**
 * Whether every charge has its call and every call its charge, found in slices by counting. It is
 * exact where it says yes. Elsewhere `UNMATCHED` names what is wrong, if anything is: calls of
 * several steps and removed records are not counted here.
 */
async function findMatches({ readAtOnce }: Reader, scope: Scope): Promise<boolean> {
  const { seq, row, chainedAt: at, charged } = scope
  if (at === null || (await readAtOnce(count(COUNT_STEPS))) > 0) return false
  let matched = 0
  for (let after = 0; after < seq; after += MATCHED_AT_ONCE) {
    await yieldToEventLoop()
    const slice = [after, Math.min(after + MATCHED_AT_ONCE, seq)]
    const found = await readAtOnce(count(COUNT_MATCHED, row, at, ...slice))
    if (found !== (await readAtOnce(count(COUNT_ROWS, ...slice)))) return false
    matched += found
  }
  return matched === charged
}

function* count(text: string, ...values: Query['values']): Reading<number> {
  const [row] = yield* list<{ count: number }>(text, ...values)
  return row?.count ?? 0
}

/**
 * Matches every charge with its call, and every call with its charge. Two joins, each by an index:
 * SQLite compares all rows with all others for a full join. Charges of calls whose records are no
 * longer kept are compared with the sums of these.
 */
export const UNMATCHED = `
  with charged as materialized (
    select id, sum(nanos) as nanos, substr(max(settled_at), 1, 10) as day
    from ledger where source <> 'opening'
    group by id having sum(nanos) <> 0
  ),
  removed as materialized (
    select c.id, c.nanos from charged as c
    where c.day <= (select max(day) from evicted_days)
      and not exists (select 1 from generations as kept where kept.id = c.id)
  ),
  sums as (
    select (select coalesce(sum(nanos), 0) from removed) as charged,
      (select coalesce(sum(charged), 0) from evicted_days) as recorded
  )
  select l.id, cast(l.nanos as text) as charged,
    cast(g.upstream_inference_cost as text) as recorded
  from charged as l left join generations as g on g.id = l.id and ${IS_CHARGED}
  where l.nanos is distinct from g.upstream_inference_cost
    and l.id not in (select id from removed)
  union all
  select g.id, null, cast(g.upstream_inference_cost as text)
  from generations as g left join charged as l on l.id = g.id
  where l.id is null and ${IS_CHARGED}
  union all
  select 'calls that are no longer kept', cast(charged as text), cast(recorded as text)
  from sums where charged <> recorded`

const DAY = 86_400_000

/**
 * Sums what the parts of accounts may have counted, from the rows of the ledger and their records, in
 * slices: of the parts that are counted, and of those that are asked for. What is counted is read at
 * the moment of the last rows. Where the file is damaged, that is not known.
 */
async function sumParts(
  reader: Reader,
  asked: string[],
): Promise<{ parts: PartSum[]; damaged: string[] }> {
  try {
    return { parts: await readParts(reader, asked), damaged: [] }
  } catch (thrown) {
    const reason = reader.readDamage(thrown)
    if (reason === null) throw thrown
    return { parts: [], damaged: [`budgets cannot be compared with calls (${reason})`] }
  }
}

async function readParts(reader: Reader, asked: string[]): Promise<PartSum[]> {
  const names = new Set([...asked, ...(await reader.readAtOnce(listCounted()))])
  if (names.size === 0) return []
  const since = await reader.readAtOnce(findFirstMoment())
  const parts = new PartReader(names)
  let after = 0
  function* readSlice() {
    const [ends] = yield* list<{ seq: number }>(LAST)
    const seq = ends?.seq ?? 0
    const last = Math.min(after + AT_ONCE, seq)
    const rows = yield* list<RawCharge>(SELECT, after, last, since)
    return { rows, last, counted: last === seq ? yield* readCounted() : null }
  }
  for (;;) {
    await yieldToEventLoop()
    const { rows, last, counted } = await reader.readAtOnce(readSlice())
    for (const row of rows) parts.read(toChargedRow(row))
    after = last
    if (counted) return parts.compare(counted)
  }
}

const LAST = 'select coalesce(max(seq), 0) as seq from ledger'

/** Finds the first moment that may be counted still. */
function* findFirstMoment(): Reading<string> {
  const [first] = yield* list<{ day: number | null }>('select min(day) as day from call_spend')
  const [newest] = yield* list<{ at: string }>(
    'select settled_at as at from ledger order by seq desc limit 1',
  )
  const kept = toDayNumber(new Date(newest?.at ?? 0)) - DAYS_KEPT
  return new Date(Math.max(0, Math.min(first?.day ?? kept, kept)) * DAY).toISOString()
}

const SELECT = `select l.key_hash, l.user_id, l.workspace_id, l.byok, cast(l.nanos as text) as nanos,
  l.settled_at, l.source, l.several, g.model, g.external_user, g.api_type
  from ledger as l left join generations as g on g.id = l.id
  where l.seq > ? and l.seq <= ? and l.settled_at >= ?`

interface RawCharge
  extends RawRow,
    Omit<ChargedRow, 'byok' | 'nanos' | 'isOfSeveral' | 'isCorrection'> {
  several: number
  api_type: string | null
}

const toChargedRow = ({ several, api_type, ...row }: RawCharge): ChargedRow => ({
  ...row,
  byok: row.byok === 1,
  nanos: BigInt(row.nanos),
  isOfSeveral: several !== 0,
  isCorrection: api_type === CORRECTION,
})

function* listCounted(): Reading<string[]> {
  const rows = yield* list<{ account: Subaccount }>('select distinct account from call_spend')
  return rows.map(({ account }) => {
    const { by, owner } = parseAccount(account)
    return nameParts(by, owner)
  })
}

const COUNTED = 'select account, day, byok, cast(nanos as text) as nanos from call_spend'

function* readCounted(): Reading<SubaccountSpend[]> {
  const rows = yield* list<RawRow & Omit<SubaccountSpend, 'byok' | 'nanos'>>(COUNTED)
  return rows.map(parseRow)
}
