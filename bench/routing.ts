import { type Gateway, openGateway } from '../src/app/gateway.ts'
import { computeSpread } from '../src/cli/bench/statistics.ts'
import { parseConfig } from '../src/config.ts'
import { planRoute } from '../src/engine/plan.ts'
import { findSession } from '../src/engine/traffic.ts'
import type { TextCall } from '../src/language/call.ts'
import type { RoutingPreferences } from '../src/language/routing.ts'
import { getOperator } from '../src/resources/actor.ts'

/**
 * Measures the CPU time of this process for planning one call over a catalogue of this size. No
 * server runs.
 */
const MODELS = 500
const ENDPOINTS_PER_MODEL = 10
const ROUNDS = 9
const CALLS = 5_000
/**
 * Limits in microseconds: for a plan, and for one in which the auto router chooses among all
 * models.
 */
const LIMIT = 100
const AUTO_LIMIT = 3_000
const AUTO_CALLS = 200

const PREFERENCES: [name: string, RoutingPreferences][] = [
  ['no preference', {}],
  ['sort: price', { sort: 'price' }],
  ['sort: throughput', { sort: 'throughput' }],
  ['order and ignore', { order: ['p3', 'p4'], ignore: ['p1', 'p2'] }],
  ['a preferred latency', { preferred_max_latency: { p50: 0.5, p99: 2 } }],
  [
    'everything',
    {
      zdr: false,
      max_price: { prompt: 8 },
      quantizations: ['fp8', 'unknown'],
      require_parameters: true,
      ignore: ['p9'],
    },
  ],
]

await main()

async function main(): Promise<void> {
  const gateway = await openGateway({
    config: parseConfig(JSON.stringify(createConfig(MODELS, ENDPOINTS_PER_MODEL)), {}),
  })
  recordMeasurements(gateway)
  print(
    `${MODELS * ENDPOINTS_PER_MODEL} endpoints, ${ENDPOINTS_PER_MODEL} of each model: ` +
      `µs of CPU for a plan, median of ${ROUNDS} rounds (least to most)`,
  )
  const medians = PREFERENCES.map(([name, routing]) => reportCost(gateway, name, { routing }))
  // It reads every endpoint of every model, so it is called less often.
  const auto = reportCost(gateway, 'the auto router', {
    routing: {},
    calls: AUTO_CALLS,
    slugOf: () => 'gateway/auto',
  })
  await gateway.close()
  if (medians.some(median => median > LIMIT) || auto > AUTO_LIMIT) process.exitCode = 1
}

function createConfig(models: number, each: number) {
  const providers = Array.from({ length: each }, (_, i) => `p${i}`)
  const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
  const createEndpoint = (slug: string, i: number) => ({
    provider: slug,
    model: 'm',
    usd_per_million_tokens: { prompt: i + 1, completion: i + 2 },
  })
  return {
    providers: Object.fromEntries(providers.map(slug => [slug, provider])),
    models: Array.from({ length: models }, (_, i) => ({
      id: `acme/m${i}`,
      endpoints: providers.map(createEndpoint),
    })),
  }
}

/**
 * Records as many measurements of every endpoint as the gateway keeps, as after minutes of traffic.
 */
function recordMeasurements({ catalog, traffic: { health }, clock }: Gateway): void {
  for (let i = 0; i < MODELS; i++)
    for (const endpoint of catalog.models.get(`acme/m${i}`)?.endpoints ?? [])
      for (let sample = 0; sample < 128; sample++) {
        const sent = clock.ticks() - 100 * Math.random()
        health.recordAnswer(endpoint, sent, true)
        health.recordEnd(endpoint, sent, 100)
      }
}

/** Calls to plan: their preferences, their number and the model of each. */
interface Workload {
  routing: RoutingPreferences
  calls?: number
  slugOf?: (i: number) => string
}

/** Prints the cost of such a call, and returns the median. */
function reportCost(gateway: Gateway, name: string, workload: Workload): number {
  const costs = Array.from({ length: ROUNDS + 1 }, () => measureCost(gateway, workload)).slice(1)
  const { median, least, most } = computeSpread(costs)
  const range = `${least.toFixed(1)} to ${most.toFixed(1)}`
  print(`  ${name.padEnd(20)} ${median.toFixed(1).padStart(6)}  (${range})`)
  return median
}

function pickNextModel(i: number): string {
  return `acme/m${i % MODELS}`
}

function measureCost(
  gateway: Gateway,
  { routing, calls = CALLS, slugOf = pickNextModel }: Workload,
): number {
  const actor = getOperator(gateway)
  const before = process.cpuUsage()
  for (let i = 0; i < calls; i++) {
    const call = createCall(slugOf(i), routing)
    planRoute(gateway, 'text', call, { session: findSession(actor, 'text', call) })
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / calls
}

function createCall(model: string, routing: RoutingPreferences): TextCall {
  return {
    kind: 'text',
    dialect: 'chat',
    id: 'gen-1',
    models: [model],
    messages: [
      { role: 'system', blocks: [{ type: 'text', text: 'Be brief. '.repeat(200) }] },
      { role: 'user', blocks: [{ type: 'text', text: 'Hi' }] },
    ],
    tools: [],
    params: { max_tokens: 100, temperature: 1 },
    extra: {},
    betas: [],
    stream: true,
    routing,
    user: null,
    session_id: null,
    trace: null,
    preset_id: null,
    echoUpstreamBody: false,
    origin: {
      request_id: 'r',
      http_referer: null,
      title: null,
      user_agent: null,
      region: 'global',
      traceContext: null,
    },
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
