import { conflict } from '../../base/errors.ts'
import type { App } from '../../observability/rollups/apps.ts'
import {
  FEWEST_TURNS,
  type SessionCell,
  TURN_RANGES,
  type TurnRange,
} from '../../observability/rollups/sessions.ts'
import {
  AMOUNTS,
  type CallSums,
  COUNTS,
  type Comparison,
  type Condition,
  type FreshCalls,
  parseDay,
  type RollupStore,
  type SumDimension,
  type SumQuery,
  type SumRow,
} from '../../observability/rollups.ts'
import { listColumns } from './reading.ts'
import { createAdvance } from './rollups/advance.ts'
import { type CallRow, selectCalls, toFacts } from './rollups/calls.ts'
import { check, prepare, type Write } from './write.ts'

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
