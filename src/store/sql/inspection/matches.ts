import { yieldToEventLoop } from '../../../base/clock.ts'
import { IS_CHARGED } from '../generations/evicted.ts'
import { list, type Query, type Reader, type Reading } from '../reading.ts'

/** How many rows of the ledger one read matches. */
const AT_ONCE = 20_000

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
export async function findMatches({ readAtOnce }: Reader, scope: Scope): Promise<boolean> {
  const { seq, row, chainedAt: at, charged } = scope
  if (at === null || (await readAtOnce(count(COUNT_STEPS))) > 0) return false
  let matched = 0
  for (let after = 0; after < seq; after += AT_ONCE) {
    await yieldToEventLoop()
    const slice = [after, Math.min(after + AT_ONCE, seq)]
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
