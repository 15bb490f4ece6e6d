import type { Database } from 'bun:sqlite'
import { conflict } from '../../base/errors.ts'
import type { App } from '../../observability/rollups/apps.ts'
import { AMOUNTS, type CallSums, COUNTS, parseDay } from '../../observability/rollups/calls.ts'
import {
  type CellBounds,
  FEWEST_TURNS,
  type SessionCell,
  TURN_RANGES,
  type TurnRange,
} from '../../observability/rollups/sessions.ts'
import type { FreshCalls } from '../../observability/rollups/slice.ts'
import type {
  Comparison,
  Condition,
  RollupStore,
  SumDimension,
  SumQuery,
  SumRow,
} from '../../observability/rollups.ts'
import { runCheck } from './inspection/apart.ts'
import { createAdvance } from './rollups/advance.ts'
import { createCallReader } from './rollups/calls.ts'
import { retryWhileLocked } from './write.ts'

/** The dimensions that the table by endpoint has. */
const OF_ENDPOINTS: ReadonlySet<SumDimension> = new Set<SumDimension>([
  'workspace_id',
  'model',
  'variant',
  'provider_name',
  'endpoint_id',
  'is_byok',
])

const VARIANT = "iif(instr(g.model, ':') > 0, substr(g.model, instr(g.model, ':') + 1), 'standard')"

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
  (db: Database) =>
  (query: SumQuery): SumRow[] => {
    const { sql, values } = buildQuery(query)
    const statement = db.prepare<unknown[], (string | number)[]>(sql)
    try {
      return (statement.values(...values) as (string | number | null)[][]).map(row =>
        toSumRow(row, query),
      )
    } finally {
      statement.finalize()
    }
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
    `select ${[isByTime ? 's.start' : 'null', ...names, ...sums].join(', ')} ` +
    `from ${chooseTable(grain, by, conditions)} s cross join usage_groups g on g.id = s.group_id ` +
    `where ${['s.start >= ?', 's.start < ?', ...rendered].join(' and ')}` +
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

/** Creates the store of roll-ups in SQL over `fresh` calls, which the store of records notes. Its statements are prepared when they are first used. */
export function createRollupStore(db: Database, fresh: FreshCalls): RollupStore {
  const calls = createCallReader(db)
  const advance = createAdvance(db, calls, fresh)
  const sum = createSumReader(db)
  const listCells = createCellReader(db)
  const reset = db.transaction(() => {
    if (hasLostRows(db)) throw conflict('Older calls are no longer on record: their sums stay')
    for (const table of MADE_TABLES) db.run(`delete from ${table}`)
  })
  return {
    advance: limit => retryWhileLocked(() => advance(limit)),
    reset: () => retryWhileLocked(() => reset.immediate()),
    sum: async query => sum(query),
    findHours: async () => findHours(db),
    findComplete: async () => findComplete(db),
    findRows: async (from, until) => findRows(db, from, until),
    listCalls: async (after, last, limit) => calls(after, last, limit),
    listApps: async () =>
      db.query<App, []>('select id, identity, name, slug from apps order by id').all(),
    listSessionCells: async (week, bounds) => listCells(week, bounds),
    verify: () => runCheck(db, 'roll-ups'),
  }
}

function hasLostRows(db: Database): boolean {
  const counted = db.query<{ row: number | null }, []>(
    'select min(first_row) as row from usage_rows',
  )
  const present = db.query<{ row: number | null }, []>('select min(rowid) as row from generations')
  const first = counted.get()?.row ?? null
  const oldest = present.get()?.row ?? null
  return first !== null && (oldest === null || oldest > first)
}

function findHours(db: Database) {
  // Two statements, as each alone reads one end of the index.
  const first = db.query<{ hour: number | null }, []>('select min(start) as hour from usage_rows')
  const last = db.query<{ hour: number | null }, []>('select max(start) as hour from usage_rows')
  const hours = [first.get()?.hour ?? null, last.get()?.hour ?? null] as const
  return hours[0] === null || hours[1] === null ? null : { first: hours[0], last: hours[1] }
}

// Retention removes whole days, and corrections of older ones may outlive them.
function findComplete(db: Database): number {
  const row = db.query<{ day: string | null }, []>('select max(day) as day from evicted_days').get()
  const day = row?.day ? parseDay(row.day) : null
  return day === null ? 0 : (day + 1) * HOURS
}

const HOURS = 24

function findRows(db: Database, from: number, until: number) {
  const query = db.query<{ first: number | null; last: number | null }, [number, number]>(
    'select min(first_row) as first, max(last_row) as last from usage_rows ' +
      'where start >= ? and start < ?',
  )
  const { first = null, last = null } = query.get(from, until) ?? {}
  return first === null || last === null ? null : { first, last }
}

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
  where week = $week and turns > 0 and unpriced_calls = 0
  and ($workspace is null or keys.workspace_id = $workspace)
  group by apps.id, model, turn_range
  having count(*) >= $sessions and count(distinct keys.workspace_id) >= $workspaces
  order by apps.slug, model, turn_range`

/** Creates the reader of the cells of a week. */
const createCellReader =
  (db: Database) =>
  ($week: number, { sessions, workspaces, workspace_id }: CellBounds): SessionCell[] =>
    db
      .query<Row, [Record<string, string | number | null>]>(CELLS)
      .all({ $week, $sessions: sessions, $workspaces: workspaces, $workspace: workspace_id })
      .map(toCell)

const toCell = ({ model, turn_range, sessions, median, ...app }: Row): SessionCell => ({
  app,
  model,
  turn_range: TURN_RANGES[turn_range] as TurnRange,
  sessions,
  median,
})
