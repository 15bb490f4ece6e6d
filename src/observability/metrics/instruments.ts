import type { Model } from '../../resources/models/catalog.ts'
import type { Generation } from '../generations/store.ts'
import { getCallStatus } from '../generations.ts'
import type { TelemetryWorld } from '../world.ts'

/** What is measured: counters, gauges and histograms, apart from how they are told. */

export type Labels = Readonly<Record<string, string>>

/** What a metric is called and means. */
interface MetricName {
  /** The name in Prometheus, with its unit. */
  name: string
  help: string
  /** The name and the unit (UCUM) in OpenTelemetry, where its conventions have the metric. */
  convention?: { name: string; unit: string }
}

/** A metric at one moment. */
export type MetricReading = MetricName &
  (
    | { type: 'counter' | 'gauge'; points: { labels: Labels; value: number }[] }
    | { type: 'histogram'; bounds: readonly number[]; points: HistogramPoint[] }
  )

export interface HistogramPoint {
  labels: Labels
  /** How many values each bucket has: one more than there are bounds. */
  counts: readonly number[]
  sum: number
}

/** A sum to which is added. */
interface Sum {
  value: number
}

interface Series<T> {
  labels: Labels
  value: T
}

/** Finds the series of labels, and opens it at first use. */
class SeriesByLabels<T> {
  readonly #create: () => T
  readonly #known = new Map<string, Series<T>>()

  constructor(create: () => T) {
    this.#create = create
  }

  open(labels: Labels): T {
    const key = Object.values(labels).join('\0')
    const known = this.#known.get(key)
    if (known) return known.value
    const value = this.#create()
    this.#known.set(key, { labels, value })
    return value
  }

  list(): Series<T>[] {
    return [...this.#known.values()]
  }
}

const NO_LABELS: Labels = {}

/**
 * Only grows. All of its series have the same names of labels. It is told in units of so many parts,
 * and counts these: a sum of whole numbers does not drift, as one of fractions does.
 */
export class Counter {
  readonly #name: MetricName
  readonly #parts: number
  readonly #series = new SeriesByLabels<Sum>(() => ({ value: 0 }))

  constructor(name: MetricName, parts = 1) {
    this.#name = name
    this.#parts = parts
  }

  add(amount: number, labels: Labels = NO_LABELS): void {
    this.open(labels).value += amount
  }

  /** Returns the sum of these labels, to be added to. */
  open(labels: Labels = NO_LABELS): Sum {
    return this.#series.open(labels)
  }

  read(): MetricReading {
    const points = this.#series
      .list()
      .map(({ labels, value: { value } }) => ({ labels, value: value / this.#parts }))
    return { ...this.#name, type: 'counter', points }
  }
}

/** The values of one series of a histogram. */
class Distribution {
  readonly #bounds: readonly number[]
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let at = 0
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? 0)) at++
    this.counts[at] = (this.counts[at] ?? 0) + 1
    this.sum += value
  }
}

/** Counts values by the buckets that they fall into. */
export class Histogram {
  readonly #name: MetricName
  readonly #bounds: readonly number[]
  readonly #series: SeriesByLabels<Distribution>

  constructor(name: MetricName, bounds: readonly number[]) {
    this.#name = name
    this.#bounds = bounds
    this.#series = new SeriesByLabels(() => new Distribution(bounds))
  }

  /** Returns the distribution of these labels, to be added to. */
  open(labels: Labels = NO_LABELS): Distribution {
    return this.#series.open(labels)
  }

  read(): MetricReading {
    const points = this.#series
      .list()
      .map(({ labels, value: { counts, sum } }) => ({ labels, counts: [...counts], sum }))
    return { ...this.#name, type: 'histogram', bounds: this.#bounds, points }
  }
}

/** Returns a metric of one value. */
export const readValue = (
  name: string,
  help: string,
  value: number,
  { type = 'gauge', labels = NO_LABELS }: { type?: 'counter' | 'gauge'; labels?: Labels } = {},
): MetricReading => ({ name, help, type, points: [{ labels, value }] })

/** The most pairs of provider and model that have labels of their own. */
const MAX_PAIRS = 500

/** What the calls of one pair of provider and model have come to. */
interface ModelSums {
  labels: Labels
  /** The labels of the histograms. */
  conventions: Labels
  ends: Map<string | null, EndSums>
  input: Sum
  output: Sum
  cost: Sum
  inputTokens: Distribution
  outputTokens: Distribution
  firstParts: Distribution
}

/** What the calls of a pair have come to that ended in the same way. */
interface EndSums {
  calls: Sum
  durations: Distribution
}

/**
 * Counts calls by provider and model. Beyond the bound, and for unknown models, both are `other`.
 * The sums of a pair are looked up once for each call, as this is on every call's path. Histograms
 * are those of OpenTelemetry's conventions for generative AI, with the bounds that they advise.
 */
export class ModelMetrics {
  readonly #world: TelemetryWorld
  readonly #calls = new Counter({
    name: 'gateway_calls_total',
    help: 'Finished calls by provider, model and status',
  })
  readonly #tokens = new Counter({
    name: 'gateway_model_tokens_total',
    help: 'Tokens by provider and model',
  })
  // Counted in nano-dollars.
  readonly #cost = new Counter(
    { name: 'gateway_model_cost_usd_total', help: 'Cost by provider and model' },
    1e9,
  )
  readonly #usage = new Histogram(
    {
      name: 'gen_ai_client_token_usage',
      help: 'Tokens of calls',
      convention: { name: 'gen_ai.client.token.usage', unit: '{token}' },
    },
    Array.from({ length: 14 }, (_, i) => 4 ** i),
  )
  readonly #durations = new Histogram(
    {
      name: 'gen_ai_client_operation_duration_seconds',
      help: 'Time from the request to the end of the answer',
      convention: { name: 'gen_ai.client.operation.duration', unit: 's' },
    },
    Array.from({ length: 14 }, (_, i) => 2 ** i / 100),
  )
  readonly #firstParts = new Histogram(
    {
      name: 'gen_ai_client_operation_time_to_first_chunk_seconds',
      help: 'Time from the request to the first part of the answer',
      convention: { name: 'gen_ai.client.operation.time_to_first_chunk', unit: 's' },
    },
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24],
  )
  readonly #known = new Map<string, ModelSums>()
  #other: ModelSums | undefined
  readonly metrics = [
    ...[this.#calls, this.#tokens, this.#cost],
    ...[this.#usage, this.#durations, this.#firstParts],
  ]

  constructor(world: TelemetryWorld) {
    this.#world = world
  }

  count(generation: Generation): void {
    const sums = this.#find(generation)
    const { native_tokens_prompt, native_tokens_completion } = generation
    const { cancelled, error_type, generation_time, latency } = generation
    const end = cancelled ? `cancelled ${error_type}` : error_type
    const { calls, durations } = sums.ends.get(end) ?? this.#openEnd(sums, end, generation)
    calls.value += 1
    durations.observe((generation_time ?? 0) / 1000)
    sums.input.value += native_tokens_prompt
    sums.output.value += native_tokens_completion
    sums.cost.value += Number(generation.total_cost ?? 0n)
    sums.inputTokens.observe(native_tokens_prompt)
    sums.outputTokens.observe(native_tokens_completion)
    if (latency !== null) sums.firstParts.observe(latency / 1000)
  }

  #openEnd(
    { ends, labels, conventions }: ModelSums,
    end: string | null,
    generation: Generation,
  ): EndSums {
    const error_type = generation.error_type ?? ''
    const opened = {
      calls: this.#calls.open({ ...labels, status: String(getCallStatus(generation)) }),
      durations: this.#durations.open({ ...conventions, error_type }),
    }
    ends.set(end, opened)
    return opened
  }

  #find(generation: Generation): ModelSums {
    const { provider_name, model } = generation
    const name = `${provider_name}\0${model}`
    const known = this.#known.get(name)
    if (known !== undefined) return known
    // A call that was blocked has the model that its caller named.
    const found = this.#world.catalog.models.get(model)
    // Callers may make up a name that is not listed, but no answer to it.
    const isMadeUp = found?.unlisted !== undefined && getCallStatus(generation) !== 200
    if (!found || isMadeUp || this.#known.size >= MAX_PAIRS) return this.#findOther()
    const sums = this.#open({ provider: provider_name ?? 'none', model }, nameOperation(found))
    this.#known.set(name, sums)
    return sums
  }

  #findOther(): ModelSums {
    this.#other ??= this.#open({ provider: 'other', model: 'other' }, 'chat')
    return this.#other
  }

  #open(labels: Labels, operation: string): ModelSums {
    const conventions = toConventions(labels, operation)
    return {
      labels,
      conventions,
      ends: new Map(),
      input: this.#tokens.open({ ...labels, direction: 'input' }),
      output: this.#tokens.open({ ...labels, direction: 'output' }),
      cost: this.#cost.open(labels),
      inputTokens: this.#usage.open({ ...conventions, gen_ai_token_type: 'input' }),
      outputTokens: this.#usage.open({ ...conventions, gen_ai_token_type: 'output' }),
      firstParts: this.#firstParts.open(conventions),
    }
  }
}

/** The labels under the names that OpenTelemetry's conventions have for attributes. */
const toConventions = ({ provider = '', model = '' }: Labels, operation: string): Labels => ({
  gen_ai_operation_name: operation,
  gen_ai_provider_name: provider,
  gen_ai_request_model: model,
})

/** Names what a model does in the words of the conventions. */
function nameOperation({ output_modalities }: Pick<Model, 'output_modalities'>): string {
  if (output_modalities.includes('rerank')) return 'rerank'
  if (output_modalities.includes('embeddings')) return 'embeddings'
  return output_modalities.includes('text') ? 'chat' : 'generate_content'
}
