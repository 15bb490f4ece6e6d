import type { Database } from 'bun:sqlite'
import { AMOUNTS, type CallSums, COUNTS } from '../../../telemetry/rollups/calls.ts'
import type {
  Comparison,
  Condition,
  SumDimension,
  SumQuery,
  SumRow,
} from '../../../telemetry/rollups.ts'

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
export const createSumReader =
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
