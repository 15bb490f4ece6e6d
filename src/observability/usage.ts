import { type Static, Type } from '@sinclair/typebox'
import type { Clock } from '../base/clock.ts'
import { invalid } from '../base/errors.ts'
import { toUsd } from '../base/money.ts'
import { oneOf, SomeName, UtcTime } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import { DIMENSIONS } from './analytics/dimensions.ts'
import type { ResultGroup } from './analytics/groups.ts'
import type { CheckedQuery, Granularity } from './analytics/query.ts'
import { collectGroups } from './analytics.ts'
import { Reading } from './rollups/reading.ts'
import {
  addSums,
  type CallSums,
  type Condition,
  createSums,
  type RollupReader,
  toMoment,
} from './rollups.ts'

/** What usage is summed by: one part of time, and what calls have in common. */
const TIMES = ['hour', 'day', 'week', 'month'] as const
const COMMON = {
  key: 'api_key_id',
  model: 'model',
  provider: 'provider',
  user: 'user',
  workspace: 'workspace',
  app: 'app',
} as const
export const USAGE_GROUPS = [...TIMES, ...(Object.keys(COMMON) as (keyof typeof COMMON)[])] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

/** The query of `usage`. */
export const UsageQuery = Type.Object({
  by: Type.Optional(
    Type.Array(oneOf(...USAGE_GROUPS), { minItems: 1, maxItems: USAGE_GROUPS.length }),
  ),
  /** When the cost was counted, from this time on and before that one. */
  since: Type.Optional(UtcTime),
  until: Type.Optional(UtcTime),
  key_hash: Type.Optional(SomeName),
  model: Type.Optional(SomeName),
  provider: Type.Optional(SomeName),
})
export type UsageQuery = Static<typeof UsageQuery>

/** What usage needs from the gateway. */
interface UsageWorld extends RollupReader {
  clock: Clock
  config: { timeouts: { query_seconds: number } }
}

/** What some calls came to, in USD. Calls with own provider keys are paid there, with `byok_cost`. */
export interface UsageSum {
  calls: number
  input_tokens: number
  output_tokens: number
  cost: number
  byok_cost: number
}

/** What the calls of a row have in common, by the name of the group; null for none. */
export type UsageRow = Partial<Record<UsageGroup, string | null>> & UsageSum

/**
 * Sums what calls cost and took, by day unless the query says otherwise. `total` is all of it.
 * Costs in USD, exact to the nano-dollar. Throws 400 for two parts of time at once, and for a time
 * that begins after its end.
 */
export async function summarizeUsage(world: UsageWorld, query: UsageQuery) {
  const { by = ['day'] } = query
  checkGroups(by)
  const reading = new Reading(world, Number.POSITIVE_INFINITY)
  await reading.rollUp()
  const range = await resolveRange(world, query)
  const checked = { ...buildQuery(by, range), conditions: await buildConditions(reading, query) }
  const { groups, gaps } =
    range.from < range.until
      ? await collectGroups(world, reading, checked)
      : { groups: [], gaps: [] }
  const total = createSums()
  for (const { sums } of groups) addSums(total, sums)
  const rows = groups.map(group => showGroup(group, by, checked))
  return {
    data: rows.sort((a, b) => compareRows(a, b, by)),
    total: showSums(total),
    ...(gaps.length > 0 ? { warnings: gaps } : {}),
  }
}

const isTime = (group: UsageGroup): group is (typeof TIMES)[number] =>
  (TIMES as readonly string[]).includes(group)

function checkGroups(by: UsageGroup[]): void {
  if (by.filter(isTime).length > 1) throw invalid(`by: expected one of ${TIMES.join(', ')}`, 'by')
  if (new Set(by).size < by.length) throw invalid('by: expected each group once', 'by')
}

async function resolveRange({ store }: UsageWorld, { since, until }: UsageQuery) {
  const [from, end] = [since, until].map(time => (time === undefined ? null : Date.parse(time)))
  if (typeof from === 'number' && typeof end === 'number' && from >= end)
    throw invalid('until: expected a time after since', 'until')
  const hours = await store.rollups.findHours()
  if (!hours) return { from: 0, until: 0 }
  const [first, last] = [toMoment(hours.first), toMoment(hours.last + 1)]
  return { from: Math.max(from ?? first, first), until: Math.min(end ?? last, last) }
}

function buildQuery(by: UsageGroup[], range: { from: number; until: number }): CheckedQuery {
  const names = by.flatMap(group => (isTime(group) ? [] : COMMON[group]))
  return {
    ...range,
    metrics: [],
    dimensions: names.flatMap(name => DIMENSIONS.get(name) ?? []),
    conditions: [],
    granularity: by.find((group): group is Granularity & UsageGroup => isTime(group)) ?? null,
    order: { field: 'date', direction: 1 },
    limit: Number.POSITIVE_INFINITY,
    groupLimit: Number.POSITIVE_INFINITY,
    needsCalls: false,
  }
}

async function buildConditions(
  reading: Reading,
  { key_hash, model, provider }: UsageQuery,
): Promise<Condition<string>[]> {
  const named: Record<string, string[] | undefined> = {
    api_key_id: key_hash === undefined ? undefined : [key_hash],
    model: model === undefined ? undefined : [model],
    provider: provider === undefined ? undefined : await findProviders(reading, provider),
  }
  return Object.entries(named).flatMap(([dimension, values]) =>
    values ? { dimension, comparison: 'in', values } : [],
  )
}

/** Finds how a provider is written on record, in whatever case it is asked for. */
async function findProviders(reading: Reading, provider: string): Promise<string[]> {
  const all = await reading.readAll(['provider_name'])
  return all
    .flatMap(({ values }) => values)
    .filter(name => name.toLowerCase() === provider.toLowerCase())
}

function showGroup(
  { date, values, sums }: ResultGroup,
  by: UsageGroup[],
  { dimensions }: CheckedQuery,
): UsageRow {
  const common = by.map(group => {
    if (isTime(group)) return [group, date]
    const place = dimensions.findIndex(({ name }) => name === COMMON[group])
    const value = values[place] ?? ''
    return [group, value === '' || value === dimensions[place]?.unset ? null : value]
  })
  return { ...Object.fromEntries(common), ...showSums(sums) }
}

const compareRows = (a: UsageRow, b: UsageRow, by: UsageGroup[]): number =>
  by.map(group => compareTexts(a[group] ?? '', b[group] ?? '')).find(order => order !== 0) ?? 0

const showSums = (sums: CallSums): UsageSum => ({
  calls: sums.calls,
  input_tokens: sums.prompt_tokens,
  output_tokens: sums.completion_tokens,
  cost: toUsd(sums.cost),
  byok_cost: toUsd(sums.byok_cost),
})
