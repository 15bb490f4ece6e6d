import type { Database } from 'bun:sqlite'
import { AMOUNTS, COUNTS, renderDay } from '../../../observability/rollups/calls.ts'

/** The endpoint that answered, in SQL. One garbled record keeps no other from being summed. */
export const ENDPOINT_ID = `iif(json_valid(provider_responses),
  coalesce(json_extract(provider_responses, '$[#-1].endpoint_id'), ''), '')`

const HOURS = 24

/** Money is read in two numbers, whole dollars and the rest: neither is rounded by a double. */
const DOLLAR = 1_000_000_000
const splitAmount = (amount: string): string => `${amount} / ${DOLLAR}, ${amount} % ${DOLLAR}`

const SUMS = [...COUNTS, ...AMOUNTS.map(splitAmount)].join(', ')
/** Where the sums of a row begin: behind its time and its group. */
const FIRST_SUM = 2
/** How many numbers the sums are. */
const WIDTH = COUNTS.length + 2 * AMOUNTS.length

const SELECT_HOURS = `select start, group_id, ${SUMS} from usage_hours
  where start >= ? and start < ? order by start, group_id`
const selectDay = (table: string) => `select start, group_id, ${SUMS} from ${table} where start = ?`

const SELECT_ROWS = `select min(first_row) as first, max(last_row) as last from usage_rows
  where start >= ? and start < ?`

/** Records as they are recounted: what they are summed by, then their sums. */
const SELECT_CALLS = `select rowid, cast(substr(settled_at, 12, 2) as integer),
  workspace_id, coalesce(key_hash, ''), user_id, model, coalesce(provider_name, ''),
  ${ENDPOINT_ID}, is_byok,
  api_type <> 'correction', is_byok and api_type <> 'correction',
  error_type is not null and not cancelled, cancelled, contentFilters <> '[]',
  native_tokens_prompt, native_tokens_completion, native_tokens_reasoning, native_tokens_cached,
  ${splitAmount('coalesce(total_cost, 0)')},
  ${splitAmount('iif(is_byok, coalesce(upstream_inference_cost, 0), 0)')},
  ${splitAmount('coalesce(upstream_inference_cost, 0)')}
  from generations where rowid > ? and rowid <= ? and settled_at >= ? and settled_at < ?
  order by rowid`
const FIRST_CALL_SUM = 9

/** How many records are in memory at once. */
const AT_ONCE = 5_000

/** What two ways to the same sums make differently: the models of these sums. */
interface Difference {
  what: string
  models: string[]
}

type Row = (number | string)[]

/** Sums by what they have in common. The name of each ends with its model and one more. */
class Sums extends Map<string, number[]> {
  /** Adds the numbers of a row from `first` on. */
  add(name: string, row: Row, first: number): void {
    const found = this.get(name)
    if (!found) this.set(name, (row as number[]).slice(first, first + WIDTH))
    else for (let i = 0; i < WIDTH; i++) found[i] = (found[i] ?? 0) + (row[first + i] as number)
  }
}

/** Names of what sums have in common. Apps are left out: records do not have their numbers. */
interface GroupNames {
  /** Null for a group that is not on record. */
  byCaller: string | null
  byEndpoint: string | null
}

/** The most groups that are kept in memory. */
const MOST_GROUPS = 100_000

/** Reads what the sums of days are made of. */
export class DayBooks {
  readonly db: Database
  readonly #groups = new Map<number, GroupNames>()
  readonly #findGroup

  constructor(db: Database) {
    this.db = db
    this.#findGroup = db.query(
      `select workspace_id, key_hash, user_id, model, provider_name, endpoint_id, is_byok
      from usage_groups where id = ?`,
    )
  }

  /** Returns the names of a group. */
  name(group: number): GroupNames {
    const known = this.#groups.get(group)
    if (known) return known
    if (this.#groups.size >= MOST_GROUPS) this.#groups.clear()
    const names = nameGroup(this.#findGroup.values(group)[0] as Row | undefined)
    this.#groups.set(group, names)
    return names
  }
}

function nameGroup(row: Row | undefined): GroupNames {
  if (!row) return { byCaller: null, byEndpoint: null }
  const [workspace, key, user, model, provider, endpoint, byok] = row
  return {
    byCaller: renderName([workspace, key, user, provider, endpoint, byok, model]),
    byEndpoint: renderName([workspace, provider, endpoint, byok, model]),
  }
}

/** No text of a record has this character: the parts of a name stay apart. */
const BETWEEN = '\u0000'
const renderName = (parts: (string | number | undefined)[]): string => parts.join(BETWEEN)
const readModel = (name: string): string => name.slice(name.lastIndexOf(BETWEEN) + 1)

/**
 * Compares the sums of a day in every way that they can be made, in the transaction that it is
 * called in. Those of hours are not compared with the records where some of these are gone.
 */
export function readDayBooks(books: DayBooks, day: number, isIncomplete: boolean): Difference[] {
  const { db } = books
  const hours = new Sums()
  const [days, expectedDays] = [new Sums(), new Sums()]
  const [endpoints, expectedEndpoints] = [new Sums(), new Sums()]
  for (const row of db.query(SELECT_HOURS).values(day * HOURS, (day + 1) * HOURS) as Row[]) {
    const { byCaller } = books.name(row[1] as number)
    if (byCaller === null) continue
    if (!isIncomplete) hours.add(`${row[0]}${BETWEEN}${byCaller}`, row, FIRST_SUM)
    expectedDays.add(byCaller, row, FIRST_SUM)
  }
  for (const row of db.query(selectDay('usage_days')).values(day) as Row[]) {
    const { byCaller, byEndpoint } = books.name(row[1] as number)
    if (byCaller === null || byEndpoint === null) continue
    days.add(byCaller, row, FIRST_SUM)
    expectedEndpoints.add(byEndpoint, row, FIRST_SUM)
  }
  for (const row of db.query(selectDay('usage_endpoint_days')).values(day) as Row[]) {
    const { byEndpoint } = books.name(row[1] as number)
    if (byEndpoint !== null) endpoints.add(byEndpoint, row, FIRST_SUM)
  }
  const byRecords = isIncomplete
    ? []
    : [{ what: 'by hour', models: listDifferent(hours, recountHours(db, day)) }]
  return [
    ...byRecords,
    { what: 'by day', models: listDifferent(days, expectedDays) },
    { what: 'by endpoint', models: listDifferent(endpoints, expectedEndpoints) },
  ]
}

/** Sums a day's records by the hour, as far as the roll-ups are. */
function recountHours(db: Database, day: number): Sums {
  const sums = new Sums()
  const { after, last } = findScope(db, day)
  const query = db.query(SELECT_CALLS)
  const [from, until] = [renderDay(day), renderDay(day + 1)]
  for (let row = after; row < last; row += AT_ONCE)
    for (const call of query.values(row, Math.min(row + AT_ONCE, last), from, until) as Row[]) {
      const [, hour, workspace, key, user, model, provider, endpoint, byok] = call
      const caller = [workspace, key, user, provider, endpoint, byok, model]
      sums.add(renderName([day * HOURS + Number(hour), ...caller]), call, FIRST_CALL_SUM)
    }
  return sums
}

/** Finds the records that those of a day are among, up to the cursor of the roll-ups. */
function findScope(db: Database, day: number): { after: number; last: number } {
  const cursor = db.query<{ last_row: number }, []>('select last_row from rollup_cursor').get()
  const rows = db
    .query<{ first: number | null; last: number | null }, [number, number]>(SELECT_ROWS)
    .get(day * HOURS, (day + 1) * HOURS)
  if (!cursor || rows?.first == null || rows.last === null) return { after: 0, last: 0 }
  return { after: rows.first - 1, last: Math.min(rows.last, cursor.last_row) }
}

/** Lists the models whose sums are in one of the two and not in the other. */
function listDifferent(made: Sums, expected: Sums): string[] {
  const models = new Set<string>()
  for (const [name, sums] of made) {
    const others = expected.get(name)
    if (!others || !isSame(sums, others)) models.add(readModel(name))
  }
  for (const name of expected.keys()) if (!made.has(name)) models.add(readModel(name))
  return [...models].sort()
}

function isSame(one: number[], other: number[]): boolean {
  for (let i = 0; i < COUNTS.length; i++) if (one[i] !== other[i]) return false
  for (let i = COUNTS.length; i < WIDTH; i += 2)
    if (one[i] !== other[i] || one[i + 1] !== other[i + 1])
      if (readAmount(one, i) !== readAmount(other, i)) return false
  return true
}

/** Puts money together again: the rests of many sums are more than a dollar. */
const readAmount = (sums: number[], place: number): bigint =>
  BigInt(sums[place] ?? 0) * BigInt(DOLLAR) + BigInt(sums[place + 1] ?? 0)
