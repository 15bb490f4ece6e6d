import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Gateway } from '../gateway.ts'
import { usdOf } from '../ledger/money.ts'
import type { Generation } from './generations.ts'

/** The gateway's numbers in the Prometheus text format. No label takes a value that a caller can make up. */
export interface Metrics {
  contentType: string
  text(): Promise<string>
}

/** Counts from here on what the gateway tells of itself. */
export function openMetrics(gateway: Gateway): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'gateway_running_calls',
    help: 'Calls that run at this moment',
    registers,
    collect() {
      this.set(gateway.calls.size)
    },
  })
  gateway.events.on('generation.finished', generationMetrics(registers))
  const failures = new Counter({
    name: 'gateway_attempts_failed_total',
    help: 'Attempts that failed',
    labelNames: ['provider', 'error_type'],
    registers,
  })
  gateway.events.on('attempt.failed', ({ endpoint, error }) => failures.inc({ provider: endpoint.provider.slug, error_type: error.type }))
  return { contentType: registry.contentType, text: () => registry.metrics() }
}

const SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

function generationMetrics(registers: Registry[]): (generation: Generation) => void {
  const labelNames = ['provider', 'outcome'] as const
  const calls = new Counter({ name: 'gateway_generations_total', help: 'Finished calls', labelNames, registers })
  const seconds = new Histogram({
    name: 'gateway_generation_seconds',
    help: 'From the request to the end of the answer',
    buckets: SECONDS,
    registers,
  })
  const first = new Histogram({
    name: 'gateway_first_part_seconds',
    help: 'From the request to the first part of the answer',
    buckets: SECONDS,
    registers,
  })
  const tokens = new Counter({
    name: 'gateway_tokens_total',
    help: 'Tokens, as the providers count them',
    labelNames: ['direction'],
    registers,
  })
  const cost = new Counter({ name: 'gateway_cost_usd_total', help: 'What the calls cost', registers })
  return generation => {
    calls.inc({ provider: generation.provider_name ?? 'none', outcome: outcomeOf(generation) })
    seconds.observe((generation.generation_time ?? 0) / 1000)
    if (generation.latency !== null) first.observe(generation.latency / 1000)
    tokens.inc({ direction: 'input' }, generation.native_tokens_prompt)
    tokens.inc({ direction: 'output' }, generation.native_tokens_completion)
    cost.inc(usdOf(generation.total_cost ?? 0n))
  }
}

const outcomeOf = ({ cancelled, error_type }: Generation) => (cancelled ? 'cancelled' : (error_type ?? 'ok'))
