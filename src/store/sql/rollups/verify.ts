import { yieldToEventLoop } from '../../../base/clock.ts'
import { AMOUNTS, COUNTS, renderDay } from '../../../observability/rollups.ts'
import { list, listColumns, type Reader, type Reading } from '../reading.ts'

const HOURS = 24

/** Every day that any sum is of. */
const DAYS = `select start / ${HOURS} as day from usage_hours union select start from usage_days
  union select start from usage_endpoint_days order by 1`

/** What the sums of all hours have, and what the records have. */
const TOTALS = `select (select coalesce(sum(calls), 0) from usage_hours) as made,
  (select count(*) from generations
    where rowid <= (select last_row from rollup_cursor) and api_type <> 'correction')
  + (select coalesce(sum(calls - corrections), 0) from evicted_days) as expected`

/** The most differences that are described. */
const MOST = 30

/**
 * Creates the comparison of the sums with the records. Each day is compared at one moment, in a turn
 * of its own: it takes no more memory than a day does, and others may read and write between two.
 * `endpointId` is the endpoint that answered a call, in the engine's SQL.
 */
export function createVerifier(
  { readAtOnce, readDamage }: Reader,
  endpointId: string,
): () => Promise<string[]> {
  const findAtOnce = async (check: Reading<string[]>): Promise<string[]> => {
    try {
      return await readAtOnce(check)
    } catch (thrown) {
      const reason = readDamage(thrown)
      if (reason === null) throw thrown
      return [`they cannot be compared with the records (${reason})`]
    }
  }
  return async () => {
    const problems = await findAtOnce(checkTotals())
    const books = new DayBooks(endpointId)
    for (const { day } of await readAtOnce(list<{ day: number }>(DAYS))) {
      await yieldToEventLoop()
      problems.push(...(await findAtOnce(checkDay(books, day))))
      if (problems.length >= MOST) break
    }
    return problems
  }
}

function* checkTotals(): Reading<string[]> {
  const [totals] = yield* list<{ made: number; expected: number }>(TOTALS)
  if (!totals || totals.made === totals.expected) return []
  return [`they have ${totals.made} calls, and the records ${totals.expected}`]
}

/** Two ways to each sum of a day must agree. A day that has lost records cannot say its hours. */
function* checkDay(books: DayBooks, day: number): Reading<string[]> {
  const name = renderDay(day)
  const evicted = yield* list('select 1 from evicted_days where day = ?', name)
  const differences = yield* books.compare(day, evicted.length > 0)
  return differences.flatMap(({ what, models }) =>
    models
      .slice(0, MOST)
      .map(model => `${name} ${what}: the sums of ${model || 'no model'} differ`),
  )
}

/** Money is read in two numbers, whole dollars and the rest: neither is rounded by a double. */
const DOLLAR = 1_000_000_000
const splitAmount = (amount: string): string[] => [`${amount} / ${DOLLAR}`, `${amount} % ${DOLLAR}`]
/** Where the sums of a row begin: behind its time and its group. */
const FIRST_SUM = 2
/** How many numbers the sums are. */
const WIDTH = COUNTS.length + 2 * AMOUNTS.length

const SUMS = listColumns(['start', 'group_id', ...COUNTS, ...AMOUNTS.flatMap(splitAmount)])
const SELECT_HOURS = `select ${SUMS} from usage_hours
  where start >= ? and start < ? order by start, group_id`
const selectDay = (table: string) => `select ${SUMS} from ${table} where start = ?`
const [SELECT_DAY, SELECT_ENDPOINTS] = [selectDay('usage_days'), selectDay('usage_endpoint_days')]

const SELECT_CURSOR = 'select last_row from rollup_cursor'

const SELECT_ROWS = `select min(first_row) as first, max(last_row) as last from usage_rows
  where start >= ? and start < ?`

/** A condition as a number: no engine has the same booleans. */
const flag = (condition: string): string => `case when ${condition} then 1 else 0 end`

/** Records as they are recounted: what they are summed by, then their sums. */
const selectCalls = (endpointId: string): string => `select ${listColumns([
  ...['rowid', 'substr(settled_at, 12, 2)', 'workspace_id', "coalesce(key_hash, '')"],
  ...['user_id', 'model', "coalesce(provider_name, '')", endpointId, 'is_byok'],
  flag("api_type <> 'correction'"),
  flag("is_byok = 1 and api_type <> 'correction'"),
  flag('error_type is not null and cancelled = 0'),
  'cancelled',
  flag(`"contentFilters" <> '[]'`),
  ...['native_tokens_prompt', 'native_tokens_completion'],
  ...['native_tokens_reasoning', 'native_tokens_cached'],
  ...splitAmount('coalesce(total_cost, 0)'),
  ...splitAmount('case when is_byok = 1 then coalesce(upstream_inference_cost, 0) else 0 end'),
  ...splitAmount('coalesce(upstream_inference_cost, 0)'),
])} from generations where rowid > ? and rowid <= ? and settled_at >= ? and settled_at < ?
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

/** Asks for rows, each as a list of its values. */
function* listRows(text: string, ...values: (string | number)[]): Reading<Row[]> {
  const rows = yield* list<object>(text, ...values)
  return rows.map(row => Object.values(row) as Row)
}

const SELECT_GROUPS = `select ${listColumns([
  ...['id', 'workspace_id', 'key_hash', 'user_id', 'model', 'provider_name'],
  ...['endpoint_id', 'is_byok'],
])} from usage_groups where id in (select cast(value as bigint) from json_each(?))`

const OFF_RECORD: GroupNames = { byCaller: null, byEndpoint: null }

/** Reads what the sums of days are made of. */
class DayBooks {
  readonly #selectCalls: string
  readonly #groups = new Map<number, GroupNames>()

  constructor(endpointId: string) {
    this.#selectCalls = selectCalls(endpointId)
  }

  /**
   * Compares the sums of a day in every way that they can be made. Those of hours are not compared
   * with the records where some of these are gone.
   */
  *compare(day: number, isIncomplete: boolean): Reading<Difference[]> {
    const hours = new Sums()
    const [days, expectedDays] = [new Sums(), new Sums()]
    const [endpoints, expectedEndpoints] = [new Sums(), new Sums()]
    for (const [row, { byCaller }] of yield* this.#listNamed(
      SELECT_HOURS,
      day * HOURS,
      (day + 1) * HOURS,
    )) {
      if (byCaller === null) continue
      if (!isIncomplete) hours.add(`${row[0]}${BETWEEN}${byCaller}`, row, FIRST_SUM)
      expectedDays.add(byCaller, row, FIRST_SUM)
    }
    for (const [row, { byCaller, byEndpoint }] of yield* this.#listNamed(SELECT_DAY, day)) {
      if (byCaller === null || byEndpoint === null) continue
      days.add(byCaller, row, FIRST_SUM)
      expectedEndpoints.add(byEndpoint, row, FIRST_SUM)
    }
    for (const [row, { byEndpoint }] of yield* this.#listNamed(SELECT_ENDPOINTS, day))
      if (byEndpoint !== null) endpoints.add(byEndpoint, row, FIRST_SUM)
    const byRecords = isIncomplete
      ? []
      : [{ what: 'by hour', models: listDifferent(hours, yield* this.#recountHours(day)) }]
    return [
      ...byRecords,
      { what: 'by day', models: listDifferent(days, expectedDays) },
      { what: 'by endpoint', models: listDifferent(endpoints, expectedEndpoints) },
    ]
  }

  /** Lists sums, each with the names of its group. */
  *#listNamed(text: string, ...values: number[]): Reading<[Row, GroupNames][]> {
    const rows = yield* listRows(text, ...values)
    if (this.#groups.size >= MOST_GROUPS) this.#groups.clear()
    const groups = new Set(rows.map(row => row[1] as number))
    const unknown = [...groups].filter(group => !this.#groups.has(group))
    if (unknown.length > 0)
      for (const [id, ...names] of yield* listRows(SELECT_GROUPS, JSON.stringify(unknown)))
        this.#groups.set(id as number, nameGroup(names))
    return rows.map(row => [row, this.#groups.get(row[1] as number) ?? OFF_RECORD])
  }

  /** Sums a day's records by the hour, as far as the roll-ups are. */
  *#recountHours(day: number): Reading<Sums> {
    const sums = new Sums()
    const { after, last } = yield* findScope(day)
    const [from, until] = [renderDay(day), renderDay(day + 1)]
    for (let row = after; row < last; row += AT_ONCE) {
      const end = Math.min(row + AT_ONCE, last)
      for (const call of yield* listRows(this.#selectCalls, row, end, from, until)) {
        const [, hour, workspace, key, user, model, provider, endpoint, byok] = call
        const caller = [workspace, key, user, provider, endpoint, byok, model]
        sums.add(renderName([day * HOURS + Number(hour), ...caller]), call, FIRST_CALL_SUM)
      }
    }
    return sums
  }
}

function nameGroup([workspace, key, user, model, provider, endpoint, byok]: Row): GroupNames {
  return {
    byCaller: renderName([workspace, key, user, provider, endpoint, byok, model]),
    byEndpoint: renderName([workspace, provider, endpoint, byok, model]),
  }
}

/** No text of a record has this character: the parts of a name stay apart. */
const BETWEEN = '\u0000'
const renderName = (parts: (string | number | undefined)[]): string => parts.join(BETWEEN)
const readModel = (name: string): string => name.slice(name.lastIndexOf(BETWEEN) + 1)

/** Finds the records that those of a day are among, up to the cursor of the roll-ups. */
function* findScope(day: number): Reading<{ after: number; last: number }> {
  const [cursor] = yield* list<{ last_row: number }>(SELECT_CURSOR)
  const hours = [day * HOURS, (day + 1) * HOURS]
  const [rows] = yield* list<{ first: number | null; last: number | null }>(SELECT_ROWS, ...hours)
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
