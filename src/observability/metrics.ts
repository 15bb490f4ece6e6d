import { VERSION } from '../base/version.ts'
import { countSpentKeys } from '../resources/keys.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import type { Generation } from './generations/store.ts'
import { getCallStatus } from './generations.ts'
import type { TelemetryWorld } from './world.ts'

/** Renders metrics in the text format of Prometheus (exposition format 0.0.4). */
export const renderMetrics = (readings: MetricReading[]): string =>
  readings.map(renderMetric).join('')

function renderMetric(reading: MetricReading): string {
  const { name, help, type } = reading
  const lines =
    reading.type === 'histogram'
      ? reading.points.map(point => renderHistogram(name, reading.bounds, point))
      : reading.points.map(({ labels, value }) => renderLine(name, renderLabels(labels), value))
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function renderHistogram(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum }: HistogramPoint,
): string {
  const own = renderLabels(labels)
  const before = own === '' ? '' : `${own},`
  let below = 0
  const buckets = counts.map((count, i) => {
    below += count
    return renderLine(`${name}_bucket`, `${before}le="${bounds[i] ?? '+Inf'}"`, below)
  })
  return [
    ...buckets,
    renderLine(`${name}_sum`, own, sum),
    renderLine(`${name}_count`, own, below),
  ].join('')
}

const renderLabels = (labels: Labels): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',')

// A config may give its providers any name.
const escapeLabel = (label: string) =>
  label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const renderLine = (name: string, labels: string, value: number) =>
  `${name}${labels && `{${labels}}`} ${value}\n`

/**
 * The gateway's metrics. Counting only adds to numbers; they are read on request. No label takes a
 * value that a caller can choose, and at most 500 pairs of provider and model have labels of their
 * own.
 */
export interface Metrics extends ToldMetrics {
  /** Returns all metrics as they are now. */
  read(): MetricReading[]
  renderText(): string
}

/** What a scraper is told. */
export interface ToldMetrics {
  contentType: string
  /** Renders metrics in the Prometheus text format. */
  renderText(): string | Promise<string>
}

/** Counts the gateway's events from now on. */
export function openMetrics(world: TelemetryWorld): Metrics {
  const counted = [...countAttempts(world), ...countCalls(world), ...countRest(world)]
  const read = () => [
    ...counted.map(metric => metric.read()),
    ...readGauges(world),
    ...readDestinations(world),
  ]
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    read,
    renderText: () => renderMetrics(read()),
  }
}

type Counted = Counter | Histogram

function countAttempts({ events }: TelemetryWorld): Counted[] {
  const failures = new Counter({
    name: 'gateway_attempts_failed_total',
    help: 'Attempts that failed',
  })
  const hedges = new Counter({
    name: 'gateway_hedges_total',
    help: 'Second endpoints tried beside a slow one',
  })
  const wins = new Counter({
    name: 'gateway_hedge_wins_total',
    help: 'Second endpoints that answered first',
  })
  const toolAnswers = new Counter({
    name: 'gateway_tool_answers_total',
    help: 'Answers by whether their tool calls match the offered tools',
  })
  const implausible = new Counter({
    name: 'gateway_implausible_usage_total',
    help: 'Answers whose provider reported counts that they cannot have',
  })
  const unknownEnds = new Counter({
    name: 'gateway_unknown_finish_reasons_total',
    help: 'Answers that ended for a reason that is not known, and that count as errors',
  })
  const troubles = new Counter({
    name: 'gateway_operator_needed_total',
    help: 'Attempts that failed for a reason that only the operator can mend at the provider',
  })
  events.on('finish.unknown', ({ endpoint }) => unknownEnds.add(1, labelProvider(endpoint)))
  events.on('operator.needed', ({ endpoint, trouble }) =>
    troubles.add(1, { ...labelProvider(endpoint), trouble }),
  )
  events.on('attempt.failed', ({ endpoint, error }) =>
    failures.add(1, { ...labelProvider(endpoint), error_type: error.type }),
  )
  events.on('hedge.started', ({ endpoint }) => hedges.add(1, labelProvider(endpoint)))
  events.on('hedge.won', ({ endpoint }) => wins.add(1, labelProvider(endpoint)))
  events.on('tools.judged', ({ endpoint, toolCallsValid: sound }) =>
    toolAnswers.add(1, {
      ...labelProvider(endpoint),
      model: endpoint.model,
      sound: String(sound),
    }),
  )
  events.on('usage.implausible', ({ endpoint }) => implausible.add(1, labelProvider(endpoint)))
  return [failures, hedges, wins, toolAnswers, implausible, unknownEnds, troubles]
}

const labelProvider = ({ provider }: Endpoint): Labels => ({ provider: provider.slug })

/** Counts finished calls. Series are looked up once, as this is on every call's path. */
function countCalls(world: TelemetryWorld): Counted[] {
  const calls = new OutcomeCounter()
  const models = new ModelMetrics(world)
  const tokens = new Counter({
    name: 'gateway_tokens_total',
    help: 'Tokens, as providers count them',
  })
  const cost = new Counter({ name: 'gateway_cost_usd_total', help: 'Cost of calls in USD' }, NANOS)
  const seconds = new Histogram(
    {
      name: 'gateway_generation_seconds',
      help: 'Time from the request to the end of the answer',
    },
    SECONDS,
  )
  const firstPart = new Histogram(
    {
      name: 'gateway_first_part_seconds',
      help: 'Time from the request to the first part of the answer',
    },
    SECONDS,
  )
  const [input, output] = [
    tokens.open({ direction: 'input' }),
    tokens.open({ direction: 'output' }),
  ]
  const [spent, durations, firstParts] = [cost.open(), seconds.open(), firstPart.open()]
  world.events.on('generation.finished', generation => {
    calls.count(generation)
    models.count(generation)
    input.value += generation.native_tokens_prompt
    output.value += generation.native_tokens_completion
    spent.value += Number(generation.total_cost ?? 0n)
    durations.observe((generation.generation_time ?? 0) / 1000)
    if (generation.latency !== null) firstParts.observe(generation.latency / 1000)
  })
  return [calls.counter, tokens, cost, ...models.metrics, seconds, firstPart]
}

/** Nano-dollars of a dollar. */
const NANOS = 1e9

const SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

function countRest({ events }: TelemetryWorld): Counted[] {
  const evicted = new Counter({
    name: 'gateway_rows_evicted_total',
    help: 'Rows removed by retention',
  })
  const commands = new Counter({
    name: 'gateway_container_commands_total',
    help: 'Commands of models in containers, by how they ended',
  })
  const shed = new Counter({
    name: 'gateway_calls_shed_total',
    help: 'Calls refused for the sake of those that run, by what was used up',
  })
  events.on('call.shed', ({ reason }) => shed.add(1, { reason }))
  events.on('rows.evicted', ({ kind, reason, rows }) => evicted.add(rows, { kind, reason }))
  events.on('container.command', ({ outcome }) => commands.add(1, { outcome }))
  return [evicted, commands, shed]
}

/** Counts calls by provider and outcome. */
class OutcomeCounter {
  readonly counter = new Counter({ name: 'gateway_generations_total', help: 'Finished calls' })
  readonly #known = new Map<string, Map<string, { value: number }>>()

  count({ provider_name, error_type }: Generation): void {
    const provider = provider_name ?? 'none'
    const outcome = error_type ?? 'ok'
    const sum = this.#known.get(provider)?.get(outcome) ?? this.#open(provider, outcome)
    sum.value += 1
  }

  #open(provider: string, outcome: string): { value: number } {
    const sums = this.#known.get(provider) ?? new Map<string, { value: number }>()
    this.#known.set(provider, sums)
    const sum = this.counter.open({ provider, outcome })
    sums.set(outcome, sum)
    return sum
  }
}

/** Reads the gauges, which are taken on request. */
function readGauges(world: TelemetryWorld): MetricReading[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  const { applied, rejected } = world.instance.configStatus
  return [
    readValue('gateway_build_info', 'The version that runs', 1, {
      labels: { version: VERSION, bun: Bun.version },
    }),
    readValue('gateway_running_calls', 'Calls that are running', world.traffic.calls.size),
    ...readAdmission(world),
    readValue('gateway_running_containers', 'Containers that run', world.warm.size),
    readValue(
      'gateway_ready_sandboxes',
      'Sandboxes that wait for a container',
      world.warm.pool.size,
    ),
    readLimits(world),
    readValue(
      'gateway_recorder_healthy',
      'Whether finished calls can be recorded',
      world.recorder.healthy ? 1 : 0,
    ),
    readValue(
      'gateway_log_bytes',
      'The size of the log of running calls and of records that wait',
      world.journal.holds.bytes,
    ),
    readValue(
      'gateway_write_log_bytes',
      'The size of the log that the store writes ahead of its file',
      world.writeLog.state.bytes,
    ),
    readValue(
      'gateway_write_log_held',
      'Whether another process keeps that log from being shortened',
      world.writeLog.state.isHeld ? 1 : 0,
    ),
    readValue(
      'gateway_config_rejected',
      'Whether a newer config was rejected, so that the previous one is in effect',
      rejected ? 1 : 0,
    ),
    readValue(
      'gateway_config_applied_timestamp_seconds',
      'When the config in effect was applied',
      applied.getTime() / 1000,
    ),
    ...readHot(world),
    readValue('process_resident_memory_bytes', 'Resident memory', rss),
    readValue('process_heap_bytes', 'JavaScript heap in use', heapUsed),
    readValue('process_cpu_seconds_total', 'CPU time used', (user + system) / 1e6, {
      type: 'counter',
    }),
    readValue('process_uptime_seconds', 'Seconds since the start', process.uptime()),
  ]
}

const readHot = ({ hot }: TelemetryWorld): MetricReading[] =>
  hot
    ? [
        readValue('gateway_valkey_up', 'Whether Valkey is asked', hot.state.isUp ? 1 : 0),
        readValue('gateway_valkey_requests_total', 'How often it was asked', hot.asked, {
          type: 'counter',
        }),
      ]
    : []

const readAdmission = ({ traffic: { admission } }: TelemetryWorld): MetricReading[] => [
  readValue('gateway_calls_in_flight', 'Calls that are admitted', admission.calls.used),
  readValue('gateway_calls_in_flight_limit', 'The most of them', admission.calls.limit),
  readValue(
    'gateway_bytes_in_flight',
    'Large bodies and answers of running calls, with their copies',
    admission.memory.used,
  ),
  readValue('gateway_bytes_in_flight_limit', 'The most of them', admission.memory.limit),
  readValue('gateway_calls_waiting', 'Admitted calls that wait for a turn', admission.turns.size),
]

function readLimits(world: TelemetryWorld): MetricReading {
  const points = Object.entries(countSpentKeys(world)).map(([state, value]) => ({
    labels: { state },
    value,
  }))
  const help = 'Keys that have spent nine tenths of their limit (near) or all of it (spent)'
  return { name: 'gateway_keys_at_limit', help, type: 'gauge', points }
}

/** The numbers of each destination, by the names of its counts. */
const DESTINATION_COUNTS = [
  ['waiting', 'gateway_destination_waiting', 'Calls that wait for a destination', 'gauge'],
  ['bytes', 'gateway_destination_waiting_bytes', 'What they take in the store', 'gauge'],
  ['failed', 'gateway_destination_failed', 'Calls that it refused and that are kept', 'gauge'],
  ['delivered', 'gateway_destination_delivered_total', 'Calls that it was told', 'counter'],
  ['skipped', 'gateway_destination_skipped_total', 'Calls that its rules left out', 'counter'],
  ['dropped', 'gateway_destination_dropped_total', 'Calls that were dropped', 'counter'],
] as const

/** The most destinations that have labels of their own. */
const MAX_DESTINATIONS = 500

function readDestinations({ deliveries }: TelemetryWorld): MetricReading[] {
  const counts = deliveries.list().slice(0, MAX_DESTINATIONS)
  return DESTINATION_COUNTS.map(([count, name, help, type]) => ({
    ...{ name, help, type },
    points: counts.map(one => ({
      labels: { destination: one.destination_id },
      value: one[count],
    })),
  }))
}

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
class ModelMetrics {
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
