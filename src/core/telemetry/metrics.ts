import manifest from '../../../package.json' with { type: 'json' }
import type { Endpoint } from '../catalog/models.ts'
import { toUsd } from '../kernel/money.ts'
import { type Generation, getCallStatus } from './generations.ts'
import type { TelemetryWorld } from './world.ts'

/**
 * The gateway's metrics in the Prometheus text format (exposition format 0.0.4). Counting only adds
 * to numbers; the text is rendered on request. No label takes a value that a caller can choose, and
 * at most 500 pairs of provider and model have labels of their own.
 */
export interface Metrics {
  contentType: string
  renderText(): string
}

/** Counts the gateway's events from now on. */
export function openMetrics(world: TelemetryWorld): Metrics {
  const calls = new Counter('gateway_generations_total', 'Finished calls')
  const failures = new Counter('gateway_attempts_failed_total', 'Attempts that failed')
  const toolAnswers = new Counter(
    'gateway_tool_answers_total',
    'Answers by whether their tool calls match the offered tools',
  )
  const hedges = new Counter('gateway_hedges_total', 'Second endpoints tried beside a slow one')
  const wins = new Counter('gateway_hedge_wins_total', 'Second endpoints that answered first')
  const implausible = new Counter(
    'gateway_implausible_usage_total',
    'Answers whose provider reported counts that they cannot have',
  )
  const evicted = new Counter('gateway_rows_evicted_total', 'Rows removed by retention')
  const commands = new Counter(
    'gateway_container_commands_total',
    'Commands of models in containers, by how they ended',
  )
  const models = new ModelCounters(world)
  const outcomes = new OutcomeCounter(calls)
  const tokens = new Counter('gateway_tokens_total', 'Tokens, as providers count them')
  const cost = new Counter('gateway_cost_usd_total', 'Cost of calls in USD')
  const seconds = new Histogram(
    'gateway_generation_seconds',
    'Time from the request to the end of the answer',
  )
  const firstPart = new Histogram(
    'gateway_first_part_seconds',
    'Time from the request to the first part of the answer',
  )
  world.events.on('attempt.failed', ({ endpoint, error }) =>
    failures.add(`${renderProviderLabel(endpoint)},error_type="${error.type}"`, 1),
  )
  world.events.on('tools.judged', ({ endpoint, toolCallsValid }) =>
    toolAnswers.add(
      `${renderProviderLabel(endpoint)},model="${escapeLabel(endpoint.model)}",sound="${toolCallsValid}"`,
      1,
    ),
  )
  world.events.on('usage.implausible', ({ endpoint }) =>
    implausible.add(renderProviderLabel(endpoint), 1),
  )
  world.events.on('rows.evicted', ({ kind, reason, rows }) =>
    evicted.add(`kind="${kind}",reason="${reason}"`, rows),
  )
  world.events.on('container.command', ({ outcome }) => commands.add(`outcome="${outcome}"`, 1))
  world.events.on('hedge.started', ({ endpoint }) => hedges.add(renderProviderLabel(endpoint), 1))
  world.events.on('hedge.won', ({ endpoint }) => wins.add(renderProviderLabel(endpoint), 1))
  world.events.on('generation.finished', generation => {
    outcomes.count(generation)
    models.count(generation)
    tokens.add('direction="input"', generation.native_tokens_prompt)
    tokens.add('direction="output"', generation.native_tokens_completion)
    cost.add('', toUsd(generation.total_cost ?? 0n))
    seconds.observe((generation.generation_time ?? 0) / 1000)
    if (generation.latency !== null) firstPart.observe(generation.latency / 1000)
  })
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    renderText: () =>
      [
        calls,
        failures,
        hedges,
        wins,
        toolAnswers,
        implausible,
        evicted,
        commands,
        tokens,
        cost,
        ...models.counters,
        seconds,
        firstPart,
        ...readGauges(world),
        ...readDestinations(world),
      ]
        .map(metric => metric.renderText())
        .join(''),
  }
}

/** Counts calls by provider and outcome. Labels are rendered once, not for each call. */
class OutcomeCounter {
  readonly #calls: Counter
  readonly #known = new Map<string, Map<string, Sum>>()

  constructor(calls: Counter) {
    this.#calls = calls
  }

  count(generation: Generation): void {
    const provider = generation.provider_name ?? 'none'
    const outcome = getOutcome(generation)
    const sum = this.#known.get(provider)?.get(outcome) ?? this.#open(provider, outcome)
    sum.value += 1
  }

  #open(provider: string, outcome: string): Sum {
    const sums = this.#known.get(provider) ?? new Map<string, Sum>()
    this.#known.set(provider, sums)
    const sum = this.#calls.open(`provider="${escapeLabel(provider)}",outcome="${outcome}"`)
    sums.set(outcome, sum)
    return sum
  }
}

/** The most pairs of provider and model that have labels of their own. */
const MAX_PAIRS = 500

/** What the calls of one pair of provider and model have come to. */
interface ModelSums {
  labels: string
  calls: Map<number, Sum>
  input: Sum
  output: Sum
  cost: Sum
}

/**
 * Counts calls by provider and model. Beyond the bound, and for unknown models, both are other.
 * The sums of a pair are looked up once for each call, as this is on every call's path.
 */
class ModelCounters {
  readonly #world: TelemetryWorld
  readonly #calls = new Counter(
    'gateway_calls_total',
    'Finished calls by provider, model and status',
  )
  readonly #tokens = new Counter('gateway_model_tokens_total', 'Tokens by provider and model')
  readonly #cost = new Counter('gateway_model_cost_usd_total', 'Cost by provider and model')
  readonly #known = new Map<string, ModelSums>()
  #other: ModelSums | undefined
  readonly counters = [this.#calls, this.#tokens, this.#cost]

  constructor(world: TelemetryWorld) {
    this.#world = world
  }

  count(generation: Generation): void {
    const { labels, calls, input, output, cost } = this.#find(generation)
    const status = getCallStatus(generation)
    const known = calls.get(status)
    const sum = known ?? this.#calls.open(`${labels},status="${status}"`)
    if (!known) calls.set(status, sum)
    sum.value += 1
    input.value += generation.native_tokens_prompt
    output.value += generation.native_tokens_completion
    cost.value += toUsd(generation.total_cost ?? 0n)
  }

  #find({ provider_name, model }: Generation): ModelSums {
    const name = `${provider_name}\0${model}`
    const known = this.#known.get(name)
    if (known !== undefined) return known
    // A call that was blocked has the model that its caller named.
    const isKnown = this.#world.catalog.models.get(model) !== undefined
    if (!isKnown || this.#known.size >= MAX_PAIRS) return this.#findOther()
    const provider = escapeLabel(provider_name ?? 'none')
    const sums = this.#open(`provider="${provider}",model="${escapeLabel(model)}"`)
    this.#known.set(name, sums)
    return sums
  }

  #findOther(): ModelSums {
    this.#other ??= this.#open('provider="other",model="other"')
    return this.#other
  }

  #open(labels: string): ModelSums {
    return {
      labels,
      calls: new Map(),
      input: this.#tokens.open(`${labels},direction="input"`),
      output: this.#tokens.open(`${labels},direction="output"`),
      cost: this.#cost.open(labels),
    }
  }
}

const getOutcome = ({ cancelled, error_type }: Generation) =>
  cancelled ? 'cancelled' : (error_type ?? 'ok')

const renderProviderLabel = ({ provider }: Endpoint) => `provider="${escapeLabel(provider.slug)}"`

// A config may give its providers any name.
const escapeLabel = (label: string) =>
  label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

interface Sum {
  value: number
}

class Counter {
  readonly #name: string
  readonly #help: string
  readonly #sums = new Map<string, Sum>()

  constructor(name: string, help: string) {
    this.#name = name
    this.#help = help
  }

  add(labels: string, amount: number): void {
    this.open(labels).value += amount
  }

  /** Returns the sum of these labels, to be added to. */
  open(labels: string): Sum {
    const known = this.#sums.get(labels)
    if (known) return known
    const sum = { value: 0 }
    this.#sums.set(labels, sum)
    return sum
  }

  renderText(): string {
    const lines = [...this.#sums].map(([labels, { value }]) =>
      renderLine(this.#name, labels, value),
    )
    return renderHead(this.#name, this.#help, 'counter') + lines.join('')
  }
}

const BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

class Histogram {
  readonly #name: string
  readonly #help: string
  readonly #counts = BOUNDS.map(() => 0)
  #count = 0
  #sum = 0

  constructor(name: string, help: string) {
    this.#name = name
    this.#help = help
  }

  observe(value: number): void {
    this.#count += 1
    this.#sum += value
    const at = BOUNDS.findIndex(bound => value <= bound)
    if (at !== -1) this.#counts[at] = (this.#counts[at] ?? 0) + 1
  }

  renderText(): string {
    let below = 0
    const buckets = BOUNDS.map((bound, i) => {
      below += this.#counts[i] ?? 0
      return renderLine(`${this.#name}_bucket`, `le="${bound}"`, below)
    })
    const totals = [
      renderLine(`${this.#name}_bucket`, 'le="+Inf"', this.#count),
      renderLine(`${this.#name}_sum`, '', this.#sum),
      renderLine(`${this.#name}_count`, '', this.#count),
    ]
    return renderHead(this.#name, this.#help, 'histogram') + buckets.join('') + totals.join('')
  }
}

/** Reads the gauges, which are taken on request. */
function readGauges(world: TelemetryWorld): { renderText(): string }[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  const { applied, rejected } = world.instance.configStatus
  return [
    buildInfo,
    buildGauge('gateway_running_calls', 'Calls that are running', world.traffic.calls.size),
    buildGauge('gateway_running_containers', 'Containers that run', world.warm.size),
    buildGauge(
      'gateway_recorder_healthy',
      'Whether finished calls can be recorded',
      world.recorder.healthy ? 1 : 0,
    ),
    buildGauge(
      'gateway_config_rejected',
      'Whether a newer config was rejected, so that the previous one is in effect',
      rejected ? 1 : 0,
    ),
    buildGauge(
      'gateway_config_applied_timestamp_seconds',
      'When the config in effect was applied',
      applied.getTime() / 1000,
    ),
    buildGauge('process_resident_memory_bytes', 'Resident memory', rss),
    buildGauge('process_heap_bytes', 'JavaScript heap in use', heapUsed),
    buildGauge('process_cpu_seconds_total', 'CPU time used', (user + system) / 1e6, 'counter'),
    buildGauge('process_uptime_seconds', 'Seconds since the start', process.uptime()),
  ]
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

function readDestinations({ deliveries }: TelemetryWorld): { renderText(): string }[] {
  const counts = deliveries.list().slice(0, MAX_DESTINATIONS)
  if (counts.length === 0) return []
  return DESTINATION_COUNTS.map(([count, name, help, type]) => ({
    renderText: () =>
      renderHead(name, help, type) +
      counts
        .map(one => renderLine(name, `destination="${one.destination_id}"`, one[count]))
        .join(''),
  }))
}

const buildInfo = {
  renderText: () =>
    renderHead('gateway_build_info', 'The version that runs', 'gauge') +
    renderLine('gateway_build_info', `version="${manifest.version}",bun="${Bun.version}"`, 1),
}

const buildGauge = (name: string, help: string, value: number, type = 'gauge') => ({
  renderText: () => renderHead(name, help, type) + renderLine(name, '', value),
})

const renderHead = (name: string, help: string, type: string) =>
  `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`

const renderLine = (name: string, labels: string, value: number) =>
  `${name}${labels && `{${labels}}`} ${value}\n`
