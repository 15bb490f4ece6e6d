import { compareTexts } from '../base/sorting.ts'
import { runInTurns, sortInTurns } from '../base/turns.ts'
import { type Actor, canManageAll } from '../resources/actor.ts'
import type { ActivityWorld } from './activity.ts'
import { DIMENSIONS, type Dimension } from './analytics/dimensions.ts'
import { type ResultGroup, ResultGroups } from './analytics/groups.ts'
import type { Metric } from './analytics/metrics.ts'
import { METRICS } from './analytics/metrics.ts'
import {
  type AnalyticsQuery,
  type CheckedQuery,
  checkQuery,
  GRANULARITIES,
  OPERATORS,
} from './analytics/query.ts'
import { findReadableWorkspace } from './generations/find.ts'
import { identifyApp } from './rollups/apps.ts'
import { Reading, type ReadingWorld } from './rollups/reading.ts'
import {
  type CallFacts,
  type Comparison,
  type Condition,
  type SumDimension,
  toHour,
  toMoment,
} from './rollups.ts'

const LABELS = { minute: 'Minute', hour: 'Hour', day: 'Day', week: 'Week', month: 'Month' }

/** Shows what a query can ask for. */
export const getAnalyticsMeta = (_world: unknown, _actor: Actor) => ({
  data: {
    metrics: [...METRICS.values()].map(({ name, label, format, isRate }) => ({
      name,
      display_label: label,
      is_rate: isRate,
      display_format: format,
    })),
    dimensions: [...DIMENSIONS.values()].map(({ name, label }) => ({ name, display_label: label })),
    operators: Object.entries(OPERATORS).map(([name, value_type]) => ({ name, value_type })),
    granularities: GRANULARITIES.map(name => ({ name, display_label: LABELS[name] })),
  },
})

/**
 * Answers a query over all calls that the actor may see: from the roll-ups, from the records for
 * hours that it has parts of, and from the records alone for what the roll-ups do not have; what
 * retention has left out of these is in `warnings`. Money is exact to the nano-dollar. Throws 400 that names the field, and 408 for a query that takes
 * longer than the config allows.
 */
export async function queryAnalytics(world: ActivityWorld, actor: Actor, body: AnalyticsQuery) {
  const query = checkQuery(body, world.clock.now().getTime())
  const reading = new Reading(world)
  await reading.rollUp()
  const scoped = { ...query, conditions: [...query.conditions, ...listOwn(world, actor)] }
  const { groups, gaps } = await collectGroups(world, reading, scoped)
  const warnings = [...listWarnings(world, query.conditions), ...gaps]
  const sorted = await sortGroups(groups, query)
  const kept = limitGroups(sorted, query)
  const labels = await findLabels(world, actor, query.dimensions, kept)
  return {
    data: {
      data: kept.map(group => showGroup(group, query, labels)),
      metadata: {
        query_time_ms: Math.round(reading.elapsed * 1_000) / 1_000,
        row_count: kept.length,
        truncated: kept.length < sorted.length,
      },
      ...(warnings.length > 0 ? { warnings } : {}),
    },
  }
}

/**
 * Collects the groups of a query, in no order, and says in `gaps` what retention has left out of
 * them: records are complete since some moment, and before it an hour can only be told whole. Throws
 * 408.
 */
export async function collectGroups(
  world: ReadingWorld,
  reading: Reading,
  query: CheckedQuery,
): Promise<{ groups: ResultGroup[]; gaps: string[] }> {
  const groups = new ResultGroups(query)
  const complete = toMoment(await world.store.rollups.findComplete())
  if (query.needsCalls) {
    const from = Math.max(query.from, complete)
    await addCalls(reading, world, query, groups, from, query.until)
    return { groups: groups.list(), gaps: query.from < complete ? [missCalls(complete)] : [] }
  }
  const whole = widenHours(query, complete)
  await addSums(reading, world, whole, groups)
  const isWider = whole.from !== query.from || whole.until !== query.until
  return { groups: groups.list(), gaps: isWider ? [tellWhole(whole, complete)] : [] }
}

const renderMoment = (moment: number) => new Date(moment).toISOString()

const missCalls = (complete: number): string =>
  `time_range: calls before ${renderMoment(complete)} are no longer on record, and only records ` +
  'have what is asked for: they are left out'

const tellWhole = ({ from, until }: CheckedQuery, complete: number): string =>
  `time_range: calls before ${renderMoment(complete)} are no longer on record, so hours before it ` +
  `are told whole: from ${renderMoment(from)} to ${renderMoment(until)}`

/** Takes the whole of an hour that the range has a part of and whose records are gone. */
function widenHours(query: CheckedQuery, complete: number): CheckedQuery {
  const [first, last] = [toMoment(toHour(query.from)), toMoment(toHour(query.until - 1) + 1)]
  return {
    ...query,
    from: first < complete ? first : query.from,
    until: query.until <= complete ? last : query.until,
  }
}

/** An actor of one workspace sums its calls only, and a member their own. */
function listOwn(world: ActivityWorld, actor: Actor): Condition<string>[] {
  if (actor.kind === 'member')
    return [{ dimension: 'user', comparison: 'eq', values: [actor.user_id] }]
  const workspace = findReadableWorkspace(world, actor)
  return workspace === null
    ? []
    : [{ dimension: 'workspace', comparison: 'eq', values: [workspace] }]
}

const HASH = /^[0-9a-f]{64}$/

/** Warns of keys that are not known: either they never were, or they are deleted. */
function listWarnings(
  { memory: { keys } }: ActivityWorld,
  conditions: Condition<string>[],
): string[] {
  const named = conditions
    .filter(({ dimension }) => dimension === 'api_key_id')
    .flatMap(({ values }) => values)
  return [...new Set(named)]
    .filter(value => value !== '' && !keys.get(value))
    .map(value =>
      HASH.test(value)
        ? `api_key_id: no key has the hash ${value} now`
        : 'api_key_id: expected the hash of a key',
    )
}

const HOURS = 24

/** Adds whole days and hours from the roll-ups, and what is left at both ends from the records. */
async function addSums(
  reading: Reading,
  world: ReadingWorld,
  query: CheckedQuery,
  groups: ResultGroups,
): Promise<void> {
  const first = toHour(query.from - 1) + 1
  const end = toHour(query.until)
  if (first >= end) return addCalls(reading, world, query, groups, query.from, query.until)
  await addCalls(reading, world, query, groups, query.from, toMoment(first))
  const firstDay = Math.ceil(first / HOURS)
  const endDay = Math.floor(end / HOURS)
  if (query.granularity === 'hour' || firstDay >= endDay)
    await addPieces(reading, query, groups, { grain: 'hour', from: first, until: end })
  else {
    await addPieces(reading, query, groups, { grain: 'hour', from: first, until: firstDay * HOURS })
    await addPieces(reading, query, groups, { grain: 'day', from: firstDay, until: endDay })
    await addPieces(reading, query, groups, { grain: 'hour', from: endDay * HOURS, until: end })
  }
  await addCalls(reading, world, query, groups, toMoment(end), query.until)
}

async function addPieces(
  reading: Reading,
  { dimensions, conditions, granularity }: CheckedQuery,
  groups: ResultGroups,
  piece: { grain: 'hour' | 'day'; from: number; until: number },
): Promise<void> {
  const rows = reading.readSums({
    ...piece,
    by: dimensions.map(toSumDimension),
    isByTime: granularity !== null,
    conditions: conditions.map(condition => ({
      ...condition,
      dimension: toSumDimension(DIMENSIONS.get(condition.dimension)),
    })),
  })
  const hours = piece.grain === 'day' ? HOURS : 1
  for await (const { start, values, sums } of rows)
    groups.addSums(toMoment((start ?? piece.from) * hours), values, sums)
}

const toSumDimension = (dimension: Dimension | undefined): SumDimension => dimension?.sum ?? 'model'

/** Adds the calls that were settled from a moment on and before another, in milliseconds. */
async function addCalls(
  reading: Reading,
  world: ReadingWorld,
  query: CheckedQuery,
  groups: ResultGroups,
  from: number,
  until: number,
): Promise<void> {
  if (from >= until) return
  const findApp = await createAppFinder(world, query)
  const read = (name: string, call: CallFacts) => DIMENSIONS.get(name)?.read(call, findApp) ?? ''
  // Millions of calls are compared with up to 20,000 values.
  const judges = query.conditions.map(({ dimension, comparison, values }) => {
    const [judge, known] = [JUDGES[comparison], new Set(values)]
    return (call: CallFacts) => judge(read(dimension, call), known)
  })
  for await (const calls of reading.readCalls(toHour(from), toHour(until - 1) + 1))
    for (const call of calls) {
      const moment = Date.parse(call.settled_at)
      if (moment < from || moment >= until) continue
      if (!judges.every(judge => judge(call))) continue
      const values = query.dimensions.map(({ name }) => read(name, call))
      groups.addCall(moment, values, call)
    }
}

/** Creates the function that finds the id of a call's app, where the query needs it. */
async function createAppFinder(
  { store }: ReadingWorld,
  { dimensions, conditions }: CheckedQuery,
): Promise<(call: CallFacts) => string> {
  const isAsked =
    dimensions.some(({ name }) => name === 'app') ||
    conditions.some(({ dimension }) => dimension === 'app')
  const ids = new Map(
    isAsked ? (await store.rollups.listApps()).map(({ id, identity }) => [identity, id]) : [],
  )
  return call => String(ids.get(identifyApp(call)?.identity ?? '') ?? 0)
}

/** Sorts in turns: a query has up to 50,000 groups. */
async function sortGroups(groups: ResultGroup[], query: CheckedQuery): Promise<ResultGroup[]> {
  const { field, direction } = query.order
  const read = createOrderReader(field, query)
  const keyed = groups.map(group => ({
    ...{ group, key: read(group), date: group.date ?? '' },
    name: JSON.stringify(group.values),
  }))
  type Keyed = (typeof keyed)[number]
  const compare = (a: Keyed, b: Keyed) =>
    direction * compareKeys(a.key, b.key) ||
    compareTexts(b.date, a.date) ||
    compareTexts(a.name, b.name)
  const sorted = await runInTurns(sortInTurns(keyed, compare))
  return sorted.map(({ group }) => group)
}

type OrderKey = string | number | null

function createOrderReader(
  field: string,
  { dimensions }: CheckedQuery,
): (group: ResultGroup) => OrderKey {
  if (field === 'date') return ({ date }) => date
  const place = dimensions.findIndex(({ name }) => name === field)
  if (place !== -1) return ({ values }) => values[place] ?? ''
  const metric = METRICS.get(field)
  return group => (metric ? computeMetric(metric, group) : null)
}

/** What has no value is the least. */
function compareKeys(a: OrderKey, b: OrderKey): number {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null)
  return a < b ? -1 : Number(a > b)
}

function limitGroups(sorted: ResultGroup[], { limit, groupLimit }: CheckedQuery): ResultGroup[] {
  if (groupLimit === Number.POSITIVE_INFINITY) return sorted.slice(0, limit)
  const counts = new Map<string, number>()
  const kept = sorted.filter(({ values }) => {
    const name = JSON.stringify(values)
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    return count <= groupLimit
  })
  return kept.slice(0, limit)
}

function showGroup(
  group: ResultGroup,
  { granularity, dimensions, metrics }: CheckedQuery,
  labels: Awaited<ReturnType<typeof findLabels>>,
): Record<string, string | number | null> {
  const shown = dimensions.map(({ name }, i) => {
    const value = group.values[i] ?? ''
    return [name, labels[i]?.(value) ?? value]
  })
  return Object.fromEntries([
    ...(granularity ? [[`date__${granularity}`, group.date]] : []),
    ...shown,
    ...metrics.map(metric => [metric.name, computeMetric(metric, group)]),
  ])
}

type Judge = (text: string, values: ReadonlySet<string>) => boolean

/** Compares with the only value. */
const compare =
  (accepts: (order: number) => boolean): Judge =>
  (text, [value = '']) =>
    accepts(compareTexts(text, value))

/** Whether the text of a dimension meets a condition: as the store's own comparison. */
const JUDGES: Record<Comparison, Judge> = {
  eq: (text, values) => values.has(text),
  neq: (text, values) => !values.has(text),
  in: (text, values) => values.has(text),
  not_in: (text, values) => !values.has(text),
  gt: compare(order => order > 0),
  gte: compare(order => order >= 0),
  lt: compare(order => order < 0),
  lte: compare(order => order <= 0),
}

/** Returns what people call a value; undefined if they call it as it is. */
type FindLabel = (value: string) => string | undefined

type MakeLabels = (world: ActivityWorld, actor: Actor, ids: string[]) => Promise<FindLabel>

/**
 * How the values of some dimensions are shown: keys, members, workspaces and apps by their names.
 * The addresses of members are the organization's.
 */
const FIELD_LABELS: Record<string, MakeLabels> = {
  async api_key_id({ memory: { keys } }) {
    return hash => (hash === '' ? 'No key' : keys.get(hash)?.name || keys.get(hash)?.label)
  },
  async workspace({ memory: { workspaces } }) {
    return id => workspaces.get(id)?.name
  },
  async user(world, actor, ids) {
    const members = canManageAll(world, actor) ? await world.store.members.byIds(ids) : []
    const emails = new Map(members.map(({ id, email }) => [id, email]))
    return id => emails.get(id)
  },
  async app({ store }) {
    const apps = await store.rollups.listApps()
    const names = new Map(apps.map(({ id, name }) => [String(id), name]))
    return id => (id === '0' ? 'Unknown' : names.get(id))
  },
}

/** Finds how the values of dimensions in some groups are shown, in the order of the dimensions. */
const findLabels = (
  world: ActivityWorld,
  actor: Actor,
  dimensions: Dimension[],
  groups: ResultGroup[],
): Promise<(FindLabel | undefined)[]> =>
  Promise.all(
    dimensions.map(async ({ name }, i) => {
      const ids = new Set(groups.map(({ values }) => values[i] ?? ''))
      return FIELD_LABELS[name]?.(world, actor, [...ids])
    }),
  )

/** Computes a metric of a group. */
function computeMetric(metric: Metric, { sums, measured }: ResultGroup): number | null {
  if ('compute' in metric) return metric.compute(sums)
  return metric.reduce(measured.get(metric.measure) ?? [])
}
