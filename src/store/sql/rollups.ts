import type { Compilable } from 'kysely'
import { conflict } from '../../base/errors.ts'
import { type App, identifyApp } from '../../observability/rollups/apps.ts'
import {
  FEWEST_TURNS,
  type SessionCell,
  TURN_RANGES,
  type TurnRange,
} from '../../observability/rollups/sessions.ts'
import {
  AMOUNTS,
  addSums,
  type CallFacts,
  type CallGroup,
  type CallSums,
  COUNTS,
  type Comparison,
  type Condition,
  createSums,
  type FreshCalls,
  type HourSums,
  parseDay,
  type RollupStore,
  Slice,
  type SumDimension,
  type SummedCall,
  type SumQuery,
  type SumRow,
  toDay,
} from '../../observability/rollups.ts'
import { listColumns } from './reading.ts'
import { check, follow, prepare, type Statement, type Write } from './write.ts'

/** Reads rows by a statement that may be seldom the same. */
export type Read = <Row>(text: string, values: (string | number | null)[]) => Promise<Row[]>

/** The dimensions that the table by endpoint has. */
const OF_ENDPOINTS: ReadonlySet<SumDimension> = new Set<SumDimension>([
  'workspace_id',
  'model',
  'variant',
  'provider_name',
  'endpoint_id',
  'is_byok',
])

const VARIANT =
  "case when instr(g.model, ':') > 0 then substr(g.model, instr(g.model, ':') + 1) " +
  "else 'standard' end"

const render = (dimension: SumDimension): string =>
  dimension === 'variant' ? VARIANT : `cast(g.${dimension} as text)`

const SCALARS: Partial<Record<Comparison, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
}

/** Creates the reader of sums. */
const createSumReader =
  (read: Read) =>
  async (query: SumQuery): Promise<SumRow[]> => {
    const { sql, values } = buildQuery(query)
    const rows = await read<Record<string, string | number | null>>(sql, values)
    return rows.map(row => toSumRow(Object.values(row), query))
  }

function buildQuery({ grain, from, until, by, isByTime, conditions }: SumQuery) {
  const names = by.map(render)
  const groups = [...(isByTime ? ['s.start'] : []), ...names]
  const sums = [
    ...COUNTS.map(name => `sum(s.${name})`),
    ...AMOUNTS.map(name => `cast(sum(s.${name}) as text)`),
  ]
  const rendered = conditions.map(renderCondition)
  // A cross join keeps the order: the sums of these times first, then the group of each.
  const sql =
    `select ${listColumns([isByTime ? 's.start' : 'null', ...names, ...sums])} ` +
    `from ${chooseTable(grain, by, conditions)} s cross join usage_groups g ` +
    `where ${['g.id = s.group_id', 's.start >= ?', 's.start < ?', ...rendered].join(' and ')}` +
    (groups.length > 0 ? ` group by ${groups.join(', ')}` : ' having count(*) > 0')
  return { sql, values: [from, until, ...conditions.flatMap(({ values }) => values)] }
}

function chooseTable(
  grain: SumQuery['grain'],
  by: SumDimension[],
  conditions: Condition[],
): string {
  if (grain === 'hour') return 'usage_hours'
  const used = [...by, ...conditions.map(({ dimension }) => dimension)]
  return used.every(name => OF_ENDPOINTS.has(name)) ? 'usage_endpoint_days' : 'usage_days'
}

function renderCondition({ dimension, comparison, values }: Condition): string {
  const operator = SCALARS[comparison]
  if (operator) return `${render(dimension)} ${operator} ?`
  // Not every engine has an empty list.
  if (values.length === 0) return comparison === 'in' ? '1 = 0' : '1 = 1'
  const list = values.map(() => '?').join(', ')
  return `${render(dimension)} ${comparison === 'in' ? 'in' : 'not in'} (${list})`
}

function toSumRow(row: (string | number | null)[], { by, isByTime }: SumQuery): SumRow {
  const values = row.slice(1, 1 + by.length).map(String)
  const sums = row.slice(1 + by.length)
  const counts = COUNTS.map((name, i) => [name, Number(sums[i])])
  const amounts = AMOUNTS.map((name, i) => [name, BigInt(sums[COUNTS.length + i] ?? 0)])
  return {
    start: isByTime ? Number(row[0]) : null,
    values,
    sums: Object.fromEntries([...counts, ...amounts]) as CallSums,
  }
}

/** What is forgotten when the roll-ups are computed again. Groups and apps keep their ids. */
const MADE_TABLES = [
  'usage_hours',
  'usage_days',
  'usage_endpoint_days',
  'usage_rows',
  'usage_sessions',
  'rollup_cursor',
]

/** What the store of roll-ups works with. */
interface RollupParts {
  write: Write
  read: Read
  /** Calls that were recorded lately, which the store of records notes. */
  fresh: FreshCalls
  /** The endpoint that answered a call, in the engine's SQL. */
  endpointId: string
}

/** Creates the store of roll-ups in SQL. */
export function createRollupStore({
  write,
  read,
  fresh,
  endpointId,
}: RollupParts): Omit<RollupStore, 'verify'> {
  const calls = selectCalls(endpointId)
  const readFirst = async <Row>(text: string, ...values: (string | number)[]) =>
    (await read<Row>(text, values))[0]
  return {
    advance: createAdvance(write, calls, fresh),
    reset: () =>
      write(
        check(prepare<Ends>(ENDS), ([ends]) => {
          if (ends && hasLostRows(ends))
            throw conflict('Older calls are no longer on record: their sums stay')
        }),
        ...MADE_TABLES.map(table => prepare(`delete from ${table}`)),
      ),
    sum: createSumReader(read),
    async findHours() {
      const { first = null, last = null } = (await readFirst<Hours>(HOURS_OF_ROWS)) ?? {}
      return first === null || last === null ? null : { first, last }
    },
    async findComplete() {
      const row = await readFirst<{ day: string | null }>(LAST_EVICTED)
      const day = row?.day ? parseDay(row.day) : null
      return day === null ? 0 : (day + 1) * HOURS
    },
    async findRows(from, until) {
      const { first = null, last = null } =
        (await readFirst<Hours>(ROWS_OF_HOURS, from, until)) ?? {}
      return first === null || last === null ? null : { first, last }
    },
    listCalls: async (after, last, limit) =>
      (await read<CallRow>(calls, [after, last, limit])).map(toFacts),
    listApps: () => read<App>('select id, identity, name, slug from apps order by id', []),
    async listSessionCells(week, { sessions, workspaces, workspace_id }) {
      const values = [week, workspace_id, workspace_id, sessions, workspaces]
      return (await read<Row>(CELLS, values)).map(toCell)
    },
  }
}

interface Ends {
  counted: number | null
  present: number | null
}

const ENDS = `select (select min(first_row) from usage_rows) as counted,
  (select min(rowid) from generations) as present`

const hasLostRows = ({ counted, present }: Ends): boolean =>
  counted !== null && (present === null || present > counted)

/** The first and the last, where there is any. */
interface Hours {
  first: number | null
  last: number | null
}

// Two queries, as each alone reads one end of the index.
const HOURS_OF_ROWS = `select (select min(start) from usage_rows) as first,
  (select max(start) from usage_rows) as last`

// Retention removes whole days, and corrections of older ones may outlive them.
const LAST_EVICTED = 'select max(day) as day from evicted_days'

const ROWS_OF_HOURS = `select min(first_row) as first, max(last_row) as last from usage_rows
  where start >= ? and start < ?`

const HOURS = 24

interface Row {
  id: number
  identity: string
  name: string
  slug: string
  model: string
  turn_range: number
  sessions: number
  median: number
}

// The largest range whose fewest turns a session has, as a place in the list.
const RANGE = `case ${FEWEST_TURNS.map((fewest, i) => `when turns >= ${fewest} then ${i}`)
  .toReversed()
  .join(' ')} end`

// By app, so that each has its own medians and none waits for the others' sessions. A session is of
// the workspace of its key; those of keys that are deleted count for no workspace.
const CELLS = `select apps.id, apps.identity, apps.name, apps.slug, model, ${RANGE} as turn_range,
  count(*) as sessions, median(cost) as median
  from usage_sessions join apps on apps.id = usage_sessions.app_id
  left join keys on keys.hash = usage_sessions.key_hash
  where week = ? and turns > 0 and unpriced_calls = 0
  and (cast(? as text) is null or keys.workspace_id = ?)
  group by apps.id, apps.identity, apps.name, apps.slug, model, turn_range
  having count(*) >= ? and count(distinct keys.workspace_id) >= ?
  order by apps.slug, model, turn_range`

const toCell = ({ model, turn_range, sessions, median, ...app }: Row): SessionCell => ({
  app,
  model,
  turn_range: TURN_RANGES[turn_range] as TurnRange,
  sessions,
  median,
})

/** Sums of one hour or day and one group. */
interface TimedSums {
  start: number
  group: number
  sums: CallSums
}

const SUM_COLUMNS = [...COUNTS, ...AMOUNTS]

/**
 * Creates the function that adds the next calls to the roll-ups and moves the cursor behind them,
 * in one transaction. Returns how many there were. The `fresh` calls among them are not read.
 */
function createAdvance(
  write: Write,
  selectCalls: string,
  fresh: FreshCalls,
): (limit: number) => Promise<number> {
  const known = new KnownNames()

  /** Reads what comes after the cursor: the fresh calls are there as they are. */
  function followNext(
    cursor: number,
    limit: number,
    then: (slices: Slice[]) => Statement[],
  ): Statement {
    const { slice } = fresh
    const read = (after: number, last: number, use: (slice: Slice) => Statement[]) =>
      follow<CallRow>(prepare(selectCalls, after, last, limit), rows => use(sumUp(rows)))
    if (slice.first <= cursor) return read(cursor, Number.MAX_SAFE_INTEGER, one => then([one]))
    return read(cursor, slice.first - 1, before =>
      before.count === limit
        ? then([before])
        : [read(slice.last, Number.MAX_SAFE_INTEGER, after => then([before, slice, after]))],
    )
  }

  return async limit => {
    let [slices, names]: [Slice[], Names] = [[], new Names(known)]
    await write(
      follow<{ last_row: number }>(prepare(CURSOR), ([row]) => [
        followNext(row?.last_row ?? 0, limit, next => {
          slices = next.filter(({ count }) => count > 0)
          names = new Names(known)
          return writeSlices(slices, names)
        }),
      ]),
    )
    known.add(names)
    // Another process may have added some of them.
    if ((slices.at(-1)?.last ?? 0) >= fresh.slice.first) fresh.clear()
    return slices.reduce((sum, { count }) => sum + count, 0)
  }
}

const CURSOR = 'select last_row from rollup_cursor'

function sumUp(rows: CallRow[]): Slice {
  const slice = new Slice()
  for (const row of rows) {
    const call = toFacts(row)
    slice.add(call, call)
  }
  return slice
}

const MOVE_CURSOR = `insert into rollup_cursor (id, last_row) values (1, ?)
  on conflict (id) do update set last_row = excluded.last_row`

function writeSlices(slices: Slice[], names: Names): Statement[] {
  const last = slices.at(-1)
  if (!last) return []
  return [
    ...slices.flatMap(slice => names.find(slice)),
    { later: () => slices.flatMap(slice => writeSlice(slice, names)) },
    prepare(MOVE_CURSOR, last.last),
  ]
}

function writeSlice(slice: Slice, names: Names): Statement[] {
  const [hours, days, endpointDays] = [new Sums(), new Sums(), new Sums()]
  for (const shared of slice.hours.values()) {
    const { hour, sums } = shared
    const group = names.getGroup(shared)
    hours.add(hour, group, sums)
    days.add(toDay(hour), group, sums)
    endpointDays.add(toDay(hour), names.getEndpointGroup(shared), sums)
  }
  return [
    ...writeSums('usage_hours', hours),
    ...writeSums('usage_days', days),
    ...writeSums('usage_endpoint_days', endpointDays),
    ...writeRows(slice),
    ...writeSessions(slice, names),
  ]
}

/** Sums by their time and group. */
class Sums extends Map<string, TimedSums> {
  add(start: number, group: number, more: CallSums): void {
    const name = `${start} ${group}`
    const found = this.get(name) ?? { start, group, sums: createSums() }
    this.set(name, found)
    addSums(found.sums, more)
  }
}

const ADD_ROWS = `insert into usage_rows (start, first_row, last_row) values (?, ?, ?)
  on conflict (start) do update set last_row = excluded.last_row`

const writeRows = ({ rows }: Slice): Statement[] =>
  [...rows].map(([hour, { first, last }]) => prepare(ADD_ROWS, hour, first, last))

const ADD_SESSION = `insert into usage_sessions
  (week, app_id, model, key_hash, session_id, turns, cost, unpriced_calls)
  values (?, ?, ?, ?, ?, ?, ?, ?)
  on conflict (week, app_id, model, key_hash, session_id) do update set
  turns = usage_sessions.turns + excluded.turns, cost = usage_sessions.cost + excluded.cost,
  unpriced_calls = usage_sessions.unpriced_calls + excluded.unpriced_calls`

const writeSessions = ({ sessions }: Slice, names: Names): Statement[] =>
  [...sessions.values()].flatMap(({ week, call, turns, cost, unpriced_calls }) => {
    const { model, key_hash, session_id } = call
    const app = names.getApp(call)
    const values = [key_hash ?? '', session_id, turns, cost, unpriced_calls]
    return app === 0 ? [] : [prepare(ADD_SESSION, week, app, model, ...values)]
  })

const renderAddition = (
  table: string,
) => `insert into ${table} (start, group_id, ${SUM_COLUMNS.join(', ')})
  values (?, ?, ${SUM_COLUMNS.map(() => '?').join(', ')})
  on conflict (start, group_id) do update set
  ${SUM_COLUMNS.map(name => `${name} = ${table}.${name} + excluded.${name}`).join(', ')}`

const ADD = {
  usage_hours: renderAddition('usage_hours'),
  usage_days: renderAddition('usage_days'),
  usage_endpoint_days: renderAddition('usage_endpoint_days'),
}

const writeSums = (table: keyof typeof ADD, rows: Sums): Statement[] =>
  [...rows.values()].map(({ start, group, sums }) =>
    prepare(ADD[table], start, group, ...SUM_COLUMNS.map(name => sums[name])),
  )

/** The most names that are kept in memory. */
const MOST_KNOWN = 20_000

/** Ids of groups and apps that are on record. They never change, and none is ever removed. */
class KnownNames {
  readonly groups = new Map<string, number>()
  readonly apps = new Map<string, number>()

  /** Adds what a transaction has found or made, once that is on record. */
  add({ groups, apps }: Pick<Names, 'groups' | 'apps'>): void {
    if (this.groups.size > MOST_KNOWN) this.groups.clear()
    if (this.apps.size > MOST_KNOWN) this.apps.clear()
    for (const [name, id] of groups) this.groups.set(name, id)
    for (const [name, id] of apps) this.apps.set(name, id)
  }
}

const FIND_APP = 'select id from apps where identity = ?'

const ADD_APP = `insert into apps (id, identity, name, slug)
  values ((select coalesce(max(id), 0) + 1 from apps), ?, ?, ?) returning id`

const FIND_GROUP = `select id from usage_groups where workspace_id = ? and key_hash = ?
  and user_id = ? and model = ? and provider_name = ? and endpoint_id = ? and app_id = ?
  and is_byok = ?`

const ADD_GROUP = `insert into usage_groups (id, workspace_id, key_hash, user_id, model,
  provider_name, endpoint_id, app_id, is_byok)
  values ((select coalesce(max(id), 0) + 1 from usage_groups), ?, ?, ?, ?, ?, ?, ?, ?) returning id`

/** Finds the ids of groups and apps, and makes those that are new. For one transaction. */
class Names {
  readonly #known: KnownNames
  readonly groups = new Map<string, number>()
  readonly apps = new Map<string, number>()

  constructor(known: KnownNames) {
    this.#known = known
  }

  /** Finds or makes what the sums of a slice are of. */
  find({ hours, sessions }: Slice): Statement[] {
    const shared = [...hours.values()]
    return [
      ...[...shared, ...sessions.values()].map(({ call }) => this.#findApp(call)),
      ...shared.flatMap(one => [
        this.#findGroup(() => this.#listValues(one)),
        this.#findGroup(() => listEndpointValues(one)),
      ]),
    ]
  }

  getGroup(shared: HourSums): number {
    return this.#get('groups', nameGroup(this.#listValues(shared)))
  }

  getEndpointGroup(shared: HourSums): number {
    return this.#get('groups', nameGroup(listEndpointValues(shared)))
  }

  /** Returns 0 for a call that names no app. */
  getApp(call: SummedCall): number {
    return this.#get('apps', nameApp(call))
  }

  #listValues(shared: HourSums): (string | number)[] {
    const { key_hash, user_id } = shared.call
    const app_id = this.getApp(shared.call)
    return listValues(shared, { key_hash: key_hash ?? '', user_id, app_id })
  }

  #get(kind: 'groups' | 'apps', name: string): number {
    return this.#known[kind].get(name) ?? this[kind].get(name) ?? 0
  }

  #has(kind: 'groups' | 'apps', name: string): boolean {
    return this.#known[kind].has(name) || this[kind].has(name)
  }

  #findGroup(list: () => (string | number)[]): Statement {
    return {
      later: () => {
        const values = list()
        const name = nameGroup(values)
        if (this.#has('groups', name)) return []
        return this.#findOrAdd('groups', name, prepare(FIND_GROUP, ...values), () => [
          this.#note('groups', name, prepare(ADD_GROUP, ...values)),
        ])
      },
    }
  }

  #findApp(call: SummedCall): Statement {
    return {
      later: () => {
        const name = nameApp(call)
        if (this.#has('apps', name)) return []
        const app = identifyApp(call)
        if (app === null) {
          this.apps.set(name, 0)
          return []
        }
        return this.#findOrAdd('apps', name, prepare(FIND_APP, app.identity), () =>
          chooseSlug(app.slug, slug => [
            this.#note('apps', name, prepare(ADD_APP, app.identity, app.name, slug)),
          ]),
        )
      },
    }
  }

  #findOrAdd(
    kind: 'groups' | 'apps',
    name: string,
    find: Compilable<Identified>,
    add: () => Statement[],
  ): Statement[] {
    return [
      follow(find, ([found]) => {
        if (!found) return add()
        this[kind].set(name, found.id)
        return []
      }),
    ]
  }

  #note(kind: 'groups' | 'apps', name: string, add: Compilable<Identified>): Statement {
    return follow(add, ([added]) => {
      this[kind].set(name, added?.id ?? 0)
      return []
    })
  }
}

interface Identified {
  id: number
}

const nameApp = ({ http_referer, title }: SummedCall): string =>
  JSON.stringify([http_referer, title])

const nameGroup = (values: (string | number)[]): string => JSON.stringify(values)

const listEndpointValues = (shared: HourSums) =>
  listValues(shared, { key_hash: '', user_id: '', app_id: 0 })

function listValues(
  { call, endpoint_id }: HourSums,
  { key_hash, user_id, app_id }: Pick<CallGroup, 'key_hash' | 'user_id' | 'app_id'>,
): (string | number)[] {
  const { workspace_id, model, provider_name, is_byok } = call
  return [
    ...[workspace_id, key_hash, user_id, model, provider_name ?? ''],
    ...[endpoint_id, app_id, Number(is_byok)],
  ]
}

/** Two apps never share a slug: the second gets a number that no other one has. */
const chooseSlug = (slug: string, then: (slug: string) => Statement[], number = 1): Statement[] => {
  const candidate = number === 1 ? slug : `${slug}-${number}`
  return [
    follow(prepare('select 1 from apps where slug = ?', candidate), ([taken]) =>
      taken ? chooseSlug(slug, then, number + 1) : then(candidate),
    ),
  ]
}

/** A record as the roll-ups read it. Money is text: a double would round it. */
type CallRow = Omit<
  CallFacts,
  'total_cost' | 'upstream_inference_cost' | 'streamed' | 'cancelled' | 'is_byok' | 'isFiltered'
> & {
  total_cost: string | null
  upstream_inference_cost: string | null
  streamed: number
  cancelled: number
  is_byok: number
  isFiltered: number
}

/**
 * Writes the query of calls after a row and up to another, so many at most. `endpointId` is the
 * endpoint that answered, as the engine reads it from `provider_responses`: empty where none did.
 */
const selectCalls = (endpointId: string) =>
  `select rowid as row, id, settled_at, workspace_id, coalesce(key_hash, '') as key_hash,
  user_id, api_type, model, coalesce(provider_name, '') as provider_name,
  ${endpointId} as endpoint_id,
  streamed, cancelled, finish_reason, latency, generation_time, native_tokens_prompt,
  native_tokens_completion, native_tokens_reasoning, native_tokens_cached,
  cast(total_cost as text) as total_cost,
  cast(upstream_inference_cost as text) as upstream_inference_cost,
  is_byok, session_id, external_user, http_referer, title, error_type, data_region,
  case when "contentFilters" = '[]' then 0 else 1 end as "isFiltered"
  from generations where rowid > ? and rowid <= ? order by rowid limit ?`

// The row is not copied: millions are read.
function toFacts(row: CallRow): CallFacts {
  return Object.assign(row as unknown as CallFacts, {
    total_cost: row.total_cost === null ? null : BigInt(row.total_cost),
    upstream_inference_cost:
      row.upstream_inference_cost === null ? null : BigInt(row.upstream_inference_cost),
    streamed: row.streamed === 1,
    cancelled: row.cancelled === 1,
    is_byok: row.is_byok === 1,
    isFiltered: row.isFiltered === 1,
  })
}
