import { type Static, Type } from '@sinclair/typebox'
import { toUsd } from '../kernel/money.ts'
import { oneOf, SomeName, UtcTime } from '../kernel/schema-builders.ts'

/** What usage is summed by. */
export const USAGE_GROUPS = ['day', 'key', 'model', 'provider'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

/** The query of `usage`. */
export const UsageQuery = Type.Object({
  by: Type.Optional(oneOf(...USAGE_GROUPS)),
  /** When the cost was counted, from this time on and before that one. */
  since: Type.Optional(UtcTime),
  until: Type.Optional(UtcTime),
  key_hash: Type.Optional(SomeName),
  model: Type.Optional(SomeName),
  provider: Type.Optional(SomeName),
})
export type UsageQuery = Static<typeof UsageQuery>

/** What some calls came to. Money in nano-dollars. */
export interface UsageSum {
  /** The day in UTC, or the key's hash, model or provider; null for calls without one. */
  group: string | null
  calls: number
  input_tokens: number
  output_tokens: number
  cost: bigint
  /** What calls with own provider keys cost there, which is not part of `cost`. */
  byok_cost: bigint
}

/** Sums the calls on record, and those whose records are no longer kept. */
export interface UsageStore {
  /** Sums those that match, in the order of their groups. Times are as the records have them. */
  sum(by: UsageGroup, query: UsageQuery): Promise<UsageSum[]>
}

/**
 * Sums what calls cost and took, by day unless the query says otherwise: from the records that the
 * ledger is checked against. `total` is all of it. Costs in USD, exact to the nano-dollar.
 */
export async function summarizeUsage(
  { store }: { store: { generations: UsageStore } },
  { by = 'day', since, until, ...query }: UsageQuery,
) {
  const sums = await store.generations.sum(by, {
    ...query,
    ...(since === undefined ? {} : { since: new Date(since).toISOString() }),
    ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
  })
  return { data: sums.map(showSum), total: showSum(sums.reduce(addSums, NOTHING)) }
}

const NOTHING: UsageSum = {
  group: null,
  calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost: 0n,
  byok_cost: 0n,
}

const addSums = (a: UsageSum, b: UsageSum): UsageSum => ({
  group: null,
  calls: a.calls + b.calls,
  input_tokens: a.input_tokens + b.input_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cost: a.cost + b.cost,
  byok_cost: a.byok_cost + b.byok_cost,
})

/** Adds up the sums of each group, in the order of the groups. */
export const addUsageSums = (sums: UsageSum[]): UsageSum[] =>
  [...Map.groupBy(sums, ({ group }) => group)]
    .sort(([a], [b]) => ((a ?? '') < (b ?? '') ? -1 : 1))
    .map(([group, parts]) => ({ ...parts.reduce(addSums, NOTHING), group }))

const showSum = ({ cost, byok_cost, ...sum }: UsageSum) => ({
  ...sum,
  cost: toUsd(cost),
  byok_cost: toUsd(byok_cost),
})
