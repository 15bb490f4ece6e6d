import { toDayNumber, yieldToEventLoop } from '../../../base/clock.ts'
import { nameParts, parseAccount } from '../../../limits/call-budgets.ts'
import { type ChargedRow, PartReader } from '../../../limits/call-spend.ts'
import {
  DAYS_KEPT,
  type PartSum,
  type Subaccount,
  type SubaccountSpend,
} from '../../../limits/ledger.ts'
import { CORRECTION } from '../../../observability/rollups.ts'
import { parseRow, type RawRow } from '../ledger.ts'
import { list, type Reader, type Reading } from '../reading.ts'

/** How many rows of the ledger one read takes. */
const AT_ONCE = 5_000

const DAY = 86_400_000

/**
 * Sums what the parts of accounts may have counted, from the rows of the ledger and their records, in
 * slices: of the parts that are counted, and of those that are asked for. What is counted is read at
 * the moment of the last rows. Where the file is damaged, that is not known.
 */
export async function sumParts(
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
