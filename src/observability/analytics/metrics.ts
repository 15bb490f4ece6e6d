import { toUsd } from '../../base/money.ts'
import type { CallFacts, CallSums } from '../rollups.ts'

/** How a metric is shown, in the words of the public API. */
type Format = 'number' | 'currency' | 'percent' | 'latency' | 'throughput'

/** What a metric is of: sums of calls, or a value of each call that has one. */
type Source =
  | { compute(sums: CallSums): number | null }
  | { measure(call: CallFacts): number | null; reduce(sorted: number[]): number | null }

/** Something that a query can ask for. */
export type Metric = { name: string; label: string; format: Format; isRate: boolean } & Source

const count = (name: string, label: string, read: (sums: CallSums) => number): Metric => ({
  ...{ name, label, format: 'number', isRate: false },
  compute: read,
})

const money = (name: string, label: string, read: (sums: CallSums) => bigint): Metric => ({
  ...{ name, label, format: 'currency', isRate: false },
  compute: sums => toUsd(read(sums)),
})

const ratio = (
  name: string,
  label: string,
  read: (sums: CallSums) => [part: number, whole: number],
): Metric => ({
  ...{ name, label, format: 'percent', isRate: true },
  compute(sums) {
    const [part, whole] = read(sums)
    return whole === 0 ? null : part / whole
  },
})

const SUMMED: Metric[] = [
  count('request_count', 'Requests', sums => sums.calls),
  count('tokens_total', 'Tokens', sums => sums.prompt_tokens + sums.completion_tokens),
  count('tokens_prompt', 'Prompt tokens', sums => sums.prompt_tokens),
  count('tokens_completion', 'Completion tokens', sums => sums.completion_tokens),
  count('reasoning_tokens', 'Reasoning tokens', sums => sums.reasoning_tokens),
  count('cached_tokens', 'Cached tokens', sums => sums.cached_tokens),
  count('byok_request_count', 'Requests with own provider keys', sums => sums.byok_calls),
  count('guardrail_invoked_count', 'Requests with findings', sums => sums.filtered_calls),
  count('error_count', 'Failed requests', sums => sums.failed_calls),
  count('cancelled_count', 'Cancelled requests', sums => sums.cancelled_calls),
  money('total_usage', 'Total spend', sums => sums.cost + sums.byok_cost),
  money('credits_usage', 'Charged spend', sums => sums.cost),
  money('byok_usage', 'Spend with own provider keys', sums => sums.byok_cost),
  money('usage_upstream', 'Cost at providers', sums => sums.upstream_cost),
  {
    ...{ name: 'blended_cost_per_million_tokens', label: 'Cost per million tokens' },
    ...{ format: 'currency', isRate: true },
    compute({ cost, byok_cost, prompt_tokens, completion_tokens }) {
      const tokens = prompt_tokens + completion_tokens
      return tokens === 0 ? null : (toUsd(cost + byok_cost) / tokens) * 1e6
    },
  },
  ratio('cache_hit_rate', 'Cache hit rate', sums => [sums.cached_tokens, sums.prompt_tokens]),
  ratio('guardrail_invoked_rate', 'Share with findings', sums => [sums.filtered_calls, sums.calls]),
  ratio('error_rate', 'Share that failed', sums => [sums.failed_calls, sums.calls]),
]

/** What is measured of each call, in milliseconds or tokens per second. */
const MEASURES = [
  {
    name: 'latency',
    label: 'time to first token',
    format: 'latency' as const,
    measure: ({ latency, generation_time }: CallFacts) => latency ?? generation_time,
  },
  {
    name: 'generation_time',
    label: 'generation time',
    format: 'latency' as const,
    measure: ({ generation_time }: CallFacts) => generation_time,
  },
  {
    name: 'inter_token_latency',
    label: 'time between tokens',
    format: 'latency' as const,
    measure: measureTokenGap,
  },
  {
    name: 'throughput',
    label: 'tokens per second',
    format: 'throughput' as const,
    measure: measureThroughput,
  },
]

function measureTokenGap(call: CallFacts): number | null {
  const { streamed, latency, generation_time, native_tokens_completion: tokens } = call
  if (!streamed || latency === null || generation_time === null || tokens < 2) return null
  return Math.max(0, generation_time - latency) / (tokens - 1)
}

function measureThroughput({ generation_time, native_tokens_completion }: CallFacts) {
  if (!generation_time || native_tokens_completion === 0) return null
  return native_tokens_completion / (generation_time / 1_000)
}

const average = (values: number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

/** Returns the value below which this share of the values is, between the two that are nearest. */
export function findQuantile(share: number, sorted: number[]): number | null {
  const place = share * (sorted.length - 1)
  const below = sorted[Math.floor(place)]
  const above = sorted[Math.ceil(place)]
  if (below === undefined || above === undefined) return null
  return below + (above - below) * (place - Math.floor(place))
}

const REDUCTIONS = [
  { prefix: 'avg', label: 'Average', reduce: average },
  ...[50, 90, 95, 99].map(percent => ({
    prefix: `p${percent}`,
    label: `${percent}th percentile of`,
    reduce: (sorted: number[]) => findQuantile(percent / 100, sorted),
  })),
]

const MEASURED: Metric[] = MEASURES.flatMap(({ name, label, format, measure }) =>
  REDUCTIONS.map(({ prefix, label: kind, reduce }) => ({
    name: `${prefix}_${name}`,
    label: `${kind} ${label}`,
    format,
    isRate: true,
    measure,
    reduce,
  })),
)

/** Every metric, by its name in queries. */
export const METRICS: ReadonlyMap<string, Metric> = new Map(
  [...SUMMED, ...MEASURED].map(metric => [metric.name, metric]),
)
