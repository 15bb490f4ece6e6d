import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { closed, Name, oneOf, SomeName, UtcTime, Uuid } from '../../base/schema-builders.ts'
import type { Comparison, Condition } from '../rollups.ts'
import { DIMENSIONS, type Dimension } from './dimensions.ts'
import { METRICS, type Metric } from './metrics.ts'

const Scalar = Type.Union([Name, Type.Number()])
const Value = Type.Union([Scalar, Type.Array(Scalar, { maxItems: 1_000 })])

const Filter = Type.Object(
  {
    field: SomeName,
    operator: SomeName,
    value: Value,
    include_unset: Type.Optional(Type.Boolean()),
  },
  closed,
)
type Filter = Static<typeof Filter>

const ClassifierFilter = Type.Object({ field: SomeName, operator: SomeName, value: Value }, closed)

/** The body of `POST /analytics/query` (wire reference, B.2). */
export const AnalyticsQuery = Type.Object(
  {
    metrics: Type.Array(SomeName, { minItems: 1, maxItems: 50 }),
    dimensions: Type.Optional(Type.Array(SomeName, { maxItems: 2 })),
    filters: Type.Optional(Type.Array(Filter, { maxItems: 20 })),
    granularity: Type.Optional(SomeName),
    time_range: Type.Optional(Type.Object({ start: UtcTime, end: UtcTime }, closed)),
    order_by: Type.Optional(
      Type.Object({ field: SomeName, direction: oneOf('asc', 'desc') }, closed),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    group_limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    classifier_dimensions: Type.Optional(
      Type.Object(
        {
          classifier_id: Uuid,
          dimension_names: Type.Optional(Type.Array(SomeName, { maxItems: 2 })),
          include_nulls: Type.Optional(Type.Boolean()),
        },
        closed,
      ),
    ),
    classifier_filters: Type.Optional(
      Type.Object(
        {
          classifier_id: Uuid,
          filters: Type.Array(ClassifierFilter, { minItems: 1, maxItems: 10 }),
        },
        closed,
      ),
    ),
  },
  closed,
)
export type AnalyticsQuery = Static<typeof AnalyticsQuery>

/** How long the parts of time are that have rows of their own. */
export const GRANULARITIES = ['minute', 'hour', 'day', 'week', 'month'] as const
export type Granularity = (typeof GRANULARITIES)[number]

/** The operators of filters, and whether their value is a list. */
export const OPERATORS = {
  eq: 'scalar',
  neq: 'scalar',
  in: 'array',
  not_in: 'array',
  gt: 'scalar',
  gte: 'scalar',
  lt: 'scalar',
  lte: 'scalar',
} as const satisfies Record<Comparison, 'scalar' | 'array'>

/** A query whose every name is known. Times in milliseconds; `until` is excluded. */
export interface CheckedQuery {
  metrics: Metric[]
  dimensions: Dimension[]
  conditions: Condition<string>[]
  granularity: Granularity | null
  from: number
  until: number
  order: { field: string; direction: 1 | -1 }
  limit: number
  groupLimit: number
  /** Whether it needs the records, as the roll-ups do not have what it asks for. */
  needsCalls: boolean
}

const DAY = 86_400_000
const USUAL_RANGE = 7 * DAY
/** The most days of sums, and of records or of short parts of time. */
const MOST_DAYS = 367
const MOST_DAYS_OF_CALLS = 31
const USUAL_ROWS = 1_000
const MOST_ROWS = 10_000

/** Checks a query as of `now`. Throws 400 that names the field. */
export function checkQuery(query: AnalyticsQuery, now: number): CheckedQuery {
  refuseClassifiers(query)
  const metrics = query.metrics.map(name => find(METRICS, name, 'metrics', 'metric'))
  const dimensions = checkDimensions(query.dimensions ?? [])
  const conditions = (query.filters ?? []).map(checkFilter)
  const granularity = checkGranularity(query.granularity)
  const needsCalls =
    granularity === 'minute' ||
    metrics.some(metric => 'measure' in metric) ||
    [...dimensions, ...conditions.map(({ dimension }) => DIMENSIONS.get(dimension))].some(
      dimension => dimension?.sum === null,
    )
  const hasSeries = granularity !== null && dimensions.length > 0
  const isRaised = hasSeries && query.limit === undefined && query.group_limit === undefined
  return {
    metrics,
    dimensions,
    conditions,
    granularity,
    ...checkRange(query.time_range, now, needsCalls || granularity === 'hour'),
    order: checkOrder(query, granularity),
    limit: query.limit ?? (isRaised ? MOST_ROWS : USUAL_ROWS),
    groupLimit: (dimensions.length > 0 && query.group_limit) || Number.POSITIVE_INFINITY,
    needsCalls,
  }
}

function refuseClassifiers(query: AnalyticsQuery): void {
  for (const name of ['classifier_dimensions', 'classifier_filters'] as const)
    if (query[name] !== undefined)
      throw invalid(`${name}.classifier_id: expected a classifier, and there are none here`, name)
}

function find<Found>(
  all: ReadonlyMap<string, Found>,
  name: string,
  field: string,
  noun: string,
): Found {
  const found = all.get(name)
  if (!found) throw invalid(`${field}: expected a ${noun} of GET /analytics/meta`, field)
  return found
}

function checkDimensions(names: string[]): Dimension[] {
  if (new Set(names).size < names.length)
    throw invalid('dimensions: expected each dimension once', 'dimensions')
  return names.map(name => find(DIMENSIONS, name, 'dimensions', 'dimension'))
}

function checkFilter({ field, operator, value, include_unset }: Filter): Condition<string> {
  const { unset } = find(DIMENSIONS, field, 'filters.field', 'dimension')
  const kind = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator as Comparison] : undefined
  if (kind === undefined)
    throw invalid(`filters.operator: expected ${Object.keys(OPERATORS).join(', ')}`, 'filters')
  if (Array.isArray(value) !== (kind === 'array'))
    throw invalid(`filters.value: expected ${kind === 'array' ? 'a list' : 'no list'}`, 'filters')
  const values = [value].flat().map(String)
  const comparison = operator as Comparison
  if (include_unset && (kind === 'scalar' || unset === undefined))
    throw invalid('filters.include_unset: expected in or not_in, and a dimension that can be unset')
  if (kind === 'scalar' || unset === undefined) return { dimension: field, comparison, values }
  return {
    dimension: field,
    comparison,
    values: addUnset(comparison, values, unset, include_unset),
  }
}

/** Calls without the dimension match neither `in` nor `not_in`, unless they are asked for. */
const addUnset = (
  comparison: Comparison,
  values: string[],
  unset: string,
  isIncluded = false,
): string[] => ((comparison === 'in') === isIncluded ? [...values, unset] : values)

function checkGranularity(name: string | undefined): Granularity | null {
  if (name === undefined) return null
  const found = GRANULARITIES.find(granularity => granularity === name)
  if (!found) throw invalid(`granularity: expected ${GRANULARITIES.join(', ')}`, 'granularity')
  return found
}

function checkRange(
  range: AnalyticsQuery['time_range'],
  now: number,
  isShort: boolean,
): { from: number; until: number } {
  const until = range ? Date.parse(range.end) : now
  const from = range ? Date.parse(range.start) : now - USUAL_RANGE
  if (from >= until) throw invalid('time_range: expected a start before the end', 'time_range')
  const most = isShort ? MOST_DAYS_OF_CALLS : MOST_DAYS
  if (until - from > most * DAY)
    throw invalid(`time_range: expected ${most} days at most for this query`, 'time_range')
  return { from, until }
}

function checkOrder(
  { order_by, metrics, dimensions = [] }: AnalyticsQuery,
  granularity: Granularity | null,
): CheckedQuery['order'] {
  if (!order_by) return { field: granularity ? 'date' : (metrics[0] ?? ''), direction: -1 }
  const { field, direction } = order_by
  const known = [...metrics, 'request_count', ...dimensions, ...(granularity ? ['date'] : [])]
  if (!known.includes(field))
    throw invalid(`order_by.field: expected one of ${known.join(', ')}`, 'order_by')
  return { field, direction: direction === 'asc' ? 1 : -1 }
}
