import { computeFirstDay, type Period } from '../../base/clock.ts'
import { unavailable } from '../../base/errors.ts'
import { type LeaseRequest, type LeaseStore, type Lent, listMeters } from '../../limits/leases.ts'
import type { Account, Charge, DaySpend, Meter } from '../../limits/ledger.ts'
import type { EntryRows } from '../sql/generations/rows.ts'
import { parseRow, type RawRow } from '../sql/ledger.ts'
import { prepare } from '../sql/write.ts'
import { replaceAmount } from './amounts.ts'
import { answerWithin, explainFaults, PATIENCE, type Runner, run, transact } from './connection.ts'
import type { Pool } from './pool.ts'
import { SNAPSHOT } from './reader.ts'

/** A process of a node. */
interface Process {
  id: string
  incarnation: string
}

/**
 * Creates the store of what a node has on lease. What moves money takes turns, also with the records
 * of calls: whoever has locked the row of their numbers sees all that was spent and lent before.
 */
export const createLeaseStore = (
  pool: Pool,
  { id, incarnation }: Process,
): Omit<LeaseStore, 'confirm'> => ({
  // Not given up on: what is not heard in time is done all the same.
  exchange: (number, requests) =>
    explainFaults(() =>
      transact(pool, connection => exchange(connection, { id, incarnation }, number, requests)),
    ),
  async findAnswer(number) {
    // Waits for a transaction that still ends.
    const [row] = await answerWithin(PATIENCE.lease, () =>
      run<{ lent: string | null }>(pool, 'select lent from nodes where id = ? for update', [id]),
    )
    const answer = parseAnswer(row?.lent ?? null)
    return answer?.number === number ? answer.lent : null
  },
  async noteRunning(calls) {
    const running = calls.length === 0 ? null : JSON.stringify(calls, replaceAmount)
    await answerWithin(PATIENCE.lease, () =>
      run(pool, 'update nodes set running = ? where id = ? and incarnation = ?', [
        ...[running, id, incarnation],
      ]),
    )
  },
  async listWanted() {
    const rows = await answerWithin(PATIENCE.lease, () =>
      run<{ meter: Meter }>(pool, LIST_WANTED, [id]),
    )
    return rows.map(({ meter }) => meter)
  },
  async takeBackAll() {
    await answerWithin(PATIENCE.write, () => transact(pool, connection => takeBack(connection, id)))
  },
  readSpending: since =>
    answerWithin(PATIENCE.read, () =>
      pool.begin(SNAPSHOT, async connection => {
        const [[head], totals, days] = await Promise.all([
          run<{ last: number }>(connection, LAST_ROW),
          run<RawRow & RawSpend>(connection, SUM_SPEND),
          run<RawRow & RawSpend & { day: number }>(connection, LIST_DAYS, [since]),
        ])
        return { totals: totals.map(parseRow), days: days.map(parseRow), last: head?.last ?? 0 }
      }),
    ),
  async listOthers(after) {
    const rows = await answerWithin(PATIENCE.lease, () =>
      run<RawRow & Omit<Charge, 'byok' | 'nanos'> & { head: number; seq: number | null }>(
        pool,
        LIST_OTHERS,
        [after, id],
      ),
    )
    await run(pool, 'delete from charged where node = ? and last_row <= ?', [id, after]).catch(
      () => undefined,
    )
    const charges = rows.flatMap(({ head: _, seq, ...row }) => (seq === null ? [] : parseRow(row)))
    const last = rows.length < MOST_OTHERS ? rows[0]?.head : rows.at(-1)?.seq
    return { charges, last: last ?? after }
  },
})

/** Takes back all that a node has on lease: it has ended, and its calls are settled. */
export async function takeBack(connection: Runner, id: string): Promise<void> {
  await Promise.all([lockLedger(connection), run(connection, TAKE_BACK, [id])])
}

type RawSpend = Omit<DaySpend, 'byok' | 'nanos' | 'day'>

/** As many charges of others are read at once. */
const MOST_OTHERS = 5_000

const LAST_ROW = 'select coalesce(max(seq), 0) as last from ledger'

const SUM_SPEND = `select key_hash, user_id, workspace_id, byok, sum(nanos)::text as nanos
  from spend group by key_hash, user_id, workspace_id, byok`

const LIST_DAYS = `select key_hash, user_id, workspace_id, day, byok, nanos::text as nanos
  from spend where day >= ?`

const LIST_OTHERS = `with head as (${LAST_ROW})
  select head.last as head, seq, key_hash, user_id, workspace_id, byok, nanos::text as nanos,
    floor(extract(epoch from settled_at::timestamptz) / 86400)::integer as day
  from head left join ledger l on seq > ?1 and source <> 'opening' and not exists
    (select 1 from charged c where c.node = ?2 and l.seq between c.first_row and c.last_row)
  order by seq limit ${MOST_OTHERS}`

/** Is taken by whatever moves money, first: who comes after knows that something was moved. */
export const LOCK_LEDGER = prepare(
  'update numbers set moves = moves + 1 where name = ? returning moves, last',
  'generations',
)

export const lockLedger = (connection: Runner): Promise<{ moves: number; last: number }[]> =>
  run(connection, LOCK_LEDGER.sql, LOCK_LEDGER.parameters)

const LIST_WANTED = 'select meter from leases where node = ? and wanted_at is not null'

const TAKE_BACK = `with gone as (delete from leases where node = ? returning meter, amount)
  update accounts a set used = used - gone.amount from gone where a.meter = gone.meter`

/** What the database has of one meter. */
interface MeterBooks {
  own: bigint
  /** What others owe: they have spent more than they were lent. */
  owed: bigint
  isElsewhere: boolean
  used: Map<Period | '', { first: number; used: bigint }>
}

async function exchange(
  connection: Runner,
  { id, incarnation }: Process,
  number: number,
  requests: LeaseRequest[],
): Promise<Lent[]> {
  const meters = JSON.stringify(requests.map(({ meter }) => meter))
  // Sent together, as others wait meanwhile. Seen as it is since the lock was taken: each statement has
  // a moment of its own.
  const [, [now], used, leases] = await Promise.all([
    lockLedger(connection),
    run<{ time: number; nodes: number }>(connection, READ_NOW, [id, incarnation]),
    run<AccountRow>(connection, LIST_ACCOUNTS, [meters]),
    run<LeaseRow>(connection, LIST_LEASES, [meters]),
  ])
  if (!now) throw unavailable('This node has left the others')
  const moment = new Date(now.time)
  const accounts = groupAccounts(id, used, leases)
  const changes: Changes = { lent: [], leases: [], accounts: [], windows: [], wanted: [] }
  for (const request of requests) {
    const account = accounts.get(request.meter) ?? createAccount()
    const added = await openWindows(connection, request, account, moment)
    lend(request, account, now.nodes, changes)
    changes.windows.push(...added)
  }
  await Promise.all([
    writeChanges(connection, id, changes),
    run(connection, NOTE_ANSWER, [renderAnswer(number, changes.lent), id]),
  ])
  return changes.lent
}

interface AccountRow {
  meter: Meter
  period: Period | ''
  first_day: number
  used: string
}

interface LeaseRow {
  meter: Meter
  node: string
  amount: string
  is_there: boolean
}

/** What an exchange writes: rows as lists of JSON. */
interface Changes {
  lent: Lent[]
  leases: [meter: Meter, amount: string][]
  accounts: [meter: Meter, amount: string][]
  windows: [meter: Meter, period: string, first: number, used: string][]
  wanted: Meter[]
}

const READ_NOW = `select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as time,
    (select count(*) from nodes where left_at is null
      and seen_at > clock_timestamp() - interval '90 seconds') as nodes
  from nodes where id = ? and incarnation = ? and left_at is null`

const LIST_ACCOUNTS = `select meter, period, first_day, used::text as used from accounts
  where meter in (select value from json_each(?))`

// Who is silent gives nothing back, and who has just given has no more.
const LIST_LEASES = `select meter, node, amount::text as amount,
    coalesce(seen_at > clock_timestamp() - interval '5 seconds' and left_at is null, false)
      and coalesce(answered_at < clock_timestamp() - interval '1 second', true) as is_there
  from leases left join nodes on id = node where meter in (select value from json_each(?))`

const createAccount = (): MeterBooks => ({
  ...{ own: 0n, owed: 0n, isElsewhere: false, used: new Map() },
})

function groupAccounts(id: string, used: AccountRow[], leases: LeaseRow[]): Map<Meter, MeterBooks> {
  const accounts = new Map<Meter, MeterBooks>()
  const find = (meter: Meter): MeterBooks => {
    const account = accounts.get(meter) ?? createAccount()
    accounts.set(meter, account)
    return account
  }
  for (const row of used)
    find(row.meter).used.set(row.period, { first: row.first_day, used: BigInt(row.used) })
  for (const row of leases) {
    const account = find(row.meter)
    const amount = BigInt(row.amount)
    if (row.node === id) account.own += amount
    else if (amount < 0n) account.owed -= amount
    else if (amount > 0n && row.is_there) account.isElsewhere = true
  }
  return accounts
}

/** Sums what was used of windows that have begun, or of which nothing is known. */
async function openWindows(
  connection: Runner,
  { meter, limits }: LeaseRequest,
  { used }: MeterBooks,
  moment: Date,
): Promise<Changes['windows']> {
  const added: Changes['windows'] = []
  for (const period of limits.keys()) {
    const first = period === '' ? ALL_TIME : computeFirstDay(period, moment)
    if ((used.get(period)?.first ?? Number.NEGATIVE_INFINITY) >= first) continue
    const { text, values } = sumMeter(meter, first)
    const [sum] = await run<{ used: string }>(connection, text, [...values, meter])
    const amount = sum?.used ?? '0'
    used.set(period, { first, used: BigInt(amount) })
    added.push([meter, period, first, amount])
  }
  return added
}

const ALL_TIME = -1

const COLUMNS: Record<string, string> = {
  key: 'key_hash',
  member: 'user_id',
  workspace: 'workspace_id',
}

/** Sums what was spent of a meter since a day, with what is on lease; that meter is the last value. */
function sumMeter(meter: Meter, first: number): { text: string; values: unknown[] } {
  const [way, ...rest] = meter.split(' ')
  const [kind = '', ...names] = rest
  const ways = way === 'any' ? '' : 'and byok = 0'
  const onLease = '(select coalesce(sum(amount), 0) from leases where meter = ?)'
  const [table, condition, values] =
    kind === 'all'
      ? ['spend', '', []]
      : COLUMNS[kind]
        ? ['spend', `and ${COLUMNS[kind]} = ?`, [names.join(' ')]]
        : ['call_spend', 'and account = ?', [rest.join(' ')]]
  return {
    text: `select ((select coalesce(sum(nanos), 0) from ${table} where day >= ? ${ways} ${condition})
      + ${onLease})::text as used`,
    values: [first, ...values],
  }
}

/** Takes back what is returned, and lends: all that is free to who needs it, else some of it. */
function lend(
  { meter, limits, returned, least, wanted }: LeaseRequest,
  { own, owed, isElsewhere, used }: MeterBooks,
  nodes: number,
  { lent, leases, accounts, windows: _, wanted: recalled }: Changes,
): void {
  const owing = own - returned < 0n ? returned - own : 0n
  let left: bigint | null = null
  for (const [period, limit] of limits) {
    const free = limit - (used.get(period)?.used ?? 0n) + returned - owed - owing
    if (left === null || free < left) left = free
  }
  let amount = 0n
  if (least > 0n && left !== null && left > 0n) {
    const share = left / BigInt(2 * Math.max(1, nodes))
    const most = least > smaller(wanted, share) ? least : smaller(wanted, share)
    amount = smaller(left, most)
  }
  const change = amount - returned
  leases.push([meter, String(change)])
  if (change !== 0n) accounts.push([meter, String(change)])
  if (amount < least && isElsewhere) recalled.push(meter)
  lent.push({ meter, amount, left: (left ?? 0n) - amount, isElsewhere })
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)

async function writeChanges(connection: Runner, id: string, changes: Changes): Promise<void> {
  const { leases, accounts, windows, wanted } = changes
  const steps: Promise<unknown>[] = []
  const send = (text: string, ...values: unknown[]) => steps.push(run(connection, text, values))
  if (windows.length > 0) send(OPEN_WINDOWS, JSON.stringify(windows))
  if (accounts.length > 0) send(COUNT_LENT, JSON.stringify(accounts))
  send(KEEP_LEASES, JSON.stringify(leases), id)
  if (wanted.length > 0) send(WANT, JSON.stringify(wanted), id)
  await Promise.all(steps)
}

const OPEN_WINDOWS = `insert into accounts (meter, period, first_day, used)
  select one->>0, one->>1, (one->>2)::bigint, (one->>3)::numeric
  from jsonb_array_elements(?::text::jsonb) as listed (one)
  on conflict (meter, period) do update set first_day = excluded.first_day, used = excluded.used`

const COUNT_LENT = `update accounts a set used = used + (one->>1)::numeric
  from jsonb_array_elements(?::text::jsonb) as listed (one) where a.meter = one->>0`

const KEEP_LEASES = `insert into leases (meter, node, amount)
  select one->>0, ?2, (one->>1)::numeric from jsonb_array_elements(?1::text::jsonb) as listed (one)
  on conflict (meter, node) do update set amount = leases.amount + excluded.amount,
    answered_at = case when leases.wanted_at is null then leases.answered_at
      else clock_timestamp() end,
    wanted_at = null`

const WANT = `update leases set wanted_at = coalesce(wanted_at, clock_timestamp())
  where meter in (select value from json_each(?1)) and node <> ?2 and amount > 0`

const NOTE_ANSWER = 'update nodes set lent = ? where id = ?'

const renderAnswer = (number: number, lent: Lent[]): string =>
  JSON.stringify({ number, lent }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )

function parseAnswer(text: string | null): { number: number; lent: Lent[] } | null {
  if (text === null) return null
  const { number, lent } = JSON.parse(text) as { number: number; lent: LentText[] }
  return {
    number,
    lent: lent.map(one => ({ ...one, amount: BigInt(one.amount), left: BigInt(one.left) })),
  }
}

type LentText = Omit<Lent, 'amount' | 'left'> & { amount: string; left: string }

/**
 * Lists what cannot be of what limits have used: another sum than was spent and lent, and leases of
 * nodes that never were. A window may have counted a charge of the last moments before it.
 */
export async function inspectLeases(pool: Pool): Promise<string[]> {
  const [sums, strangers] = await Promise.all([
    run<{ meter: string; used: string; expected: string }>(pool, LIST_WRONG),
    run<{ node: string; meter: string }>(pool, LIST_STRANGERS),
  ])
  return [
    ...sums.map(
      ({ meter, used, expected }) =>
        `the limits of ${meter} count ${used} nano-dollars, and ${expected} were spent and lent`,
    ),
    ...strangers.map(({ node, meter }) => `${node} has ${meter} on lease, and is no node`),
  ]
}

const sumSpend = (condition: string, table = 'spend') =>
  `(select sum(nanos) from ${table} where day >= first_day and (meter like 'any %' or byok = 0)
    and ${condition})`

const LIST_WRONG = `select meter, used::text as used, expected::text as expected
  from accounts a cross join lateral (select regexp_replace(meter, '^\\w+ \\w+( |$)', '') as name) n
  cross join lateral (select coalesce((select sum(amount) from leases l where l.meter = a.meter), 0)
    + coalesce(case split_part(meter, ' ', 2) when 'all' then ${sumSpend('true')}
      when 'key' then ${sumSpend('key_hash = name')}
      when 'member' then ${sumSpend('user_id = name')}
      when 'workspace' then ${sumSpend('workspace_id = name')}
      else ${sumSpend('account = substr(meter, 5)', 'call_spend')} end, 0) as expected) e
  where case period when '' then used <> expected else used < expected end
  order by meter limit 10`

const LIST_STRANGERS = `select node, meter from leases
  where node not in (select id from nodes) order by node, meter limit 10`

/** Sums charges per meter, with '1' where they come from what this node has taken from its lease. */
export function sumMeters(entries: EntryRows[]): [meter: string, nanos: string, leased: string][] {
  const sums = new Map<string, bigint>()
  for (const { charge } of entries) {
    if (!charge || charge.nanos === 0n) continue
    const { leased = [], byok, nanos } = charge
    for (const meter of listMeters(listAccounts(charge), byok)) {
      const name = `${leased.includes(meter) ? 1 : 0} ${meter}`
      sums.set(name, (sums.get(name) ?? 0n) + nanos)
    }
  }
  return Array.from(sums, ([name, nanos]) => [name.slice(2), String(nanos), name.slice(0, 1)])
}

const listAccounts = ({ key_hash, user_id, workspace_id, subaccounts = [] }: Charge): Account[] => [
  `key ${key_hash}`,
  `member ${user_id}`,
  `workspace ${workspace_id}`,
  'all',
  ...subaccounts,
]

/**
 * Counts charges in the limits of all nodes, as parts of a statement: they come from what a node has
 * on lease, as far as it has taken them from there, and else from what is left. One that was forgotten
 * has nothing on lease any more. `sums` is what `sumMeters` returns; `given` names a part of the
 * statement without whose row nothing is counted.
 */
export const countCharges = (given: string, sums: string, node: string): string => `spent as (
    select one->>0 as meter, (one->>1)::numeric as nanos, one->>2 = '1' as is_leased
    from ${given}, jsonb_array_elements(${sums}::text::jsonb) as listed (one)),
  paid as (update leases l set amount = l.amount - s.nanos from spent s
    where s.is_leased and l.meter = s.meter and l.node = ${node} returning l.meter),
  counted as (update accounts a set used = a.used + s.nanos
    from (select meter, sum(nanos) as nanos from spent
      where not is_leased or meter not in (select meter from paid) group by meter) s
    where a.meter = s.meter)`

/**
 * Removes what was counted of windows that are over for long, and what is left of leases of them: an
 * end user with a budget who came once. Whoever asks again sums it up again. So are the leases of
 * servers that have ended and given back all: each question of a meter reads all of its leases.
 */
export const SWEEP_LIMITS = [
  `delete from accounts where period <> ''
    and first_day < extract(epoch from clock_timestamp()) / 86400 - 40`,
  `delete from leases where amount = 0 and (meter not in (select meter from accounts)
    or node in (select id from nodes where left_at is not null))`,
]
