import type { Cancellation } from '../kernel/cancellation.ts'
import { type Metrics, openMetrics } from '../telemetry/metrics.ts'
import type { TelemetryWorld } from '../telemetry/world.ts'
import { buildHeaders, joinUrl } from './config.ts'
import { DELIVERY_PACE } from './deliveries/retry.ts'
import { describeReason, sendDelivery } from './deliveries/send.ts'
import { buildMetricsExport } from './otlp/metrics.ts'
import { createRenderWorld } from './settings.ts'
import { writeJson } from './text.ts'
import type { DestinationWorld } from './world.ts'

declare module '../events.ts' {
  interface EventMap {
    /** An export of metrics has ended: `reason` is null if it arrived. */
    'metrics.exported': { reason: string | null }
  }
}

/** In milliseconds: how long the last export may take, as the server waits for it. */
const LAST_TIMEOUT = 1_000

/**
 * Exports the gateway's metrics to the operator's collector at intervals, where the config names
 * one: sums since the start, so an export that fails loses nothing. Begins and ends with the setting
 * of a running server. The last export is made when it stops.
 */
export class MetricsExport {
  readonly #world: DestinationWorld & TelemetryWorld
  /** What is counted, and since when: from when on the config has named a collector. */
  #counted: { metrics: Metrics; since: number } | undefined
  readonly #requests = new Set<Cancellation>()
  readonly #removeListener: () => void
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(world: DestinationWorld & TelemetryWorld) {
    this.#world = world
    this.#removeListener = world.events.on('destinations.changed', () => this.#schedule())
    this.#schedule()
  }

  /** Exports what is counted until now. Resolves when the collector has it, or why it has not. */
  async export(timeout = DELIVERY_PACE.timeout): Promise<void> {
    const { otlp } = this.#world.config.telemetry
    if (!otlp?.metrics || !this.#counted) return
    const { metrics, since } = this.#counted
    const source = createRenderWorld(this.#world)
    const readings = metrics.read()
    const request = {
      method: 'POST' as const,
      url: joinUrl(otlp.endpoint, '/v1/metrics'),
      headers: buildHeaders(otlp.headers, { 'content-type': 'application/json' }),
      body: writeJson(buildMetricsExport(source, readings, { since, now: source.now })),
    }
    const sending = { timeout, requests: this.#requests, isOperators: true }
    const reason = describeReason(await sendDelivery(this.#world, request, sending))
    this.#world.events.publish('metrics.exported', { reason })
  }

  /** Ends what runs, and exports for the last time. */
  async stop(): Promise<void> {
    this.#removeListener()
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.export(LAST_TIMEOUT)
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    const { otlp } = this.#world.config.telemetry
    if (!otlp?.metrics) return
    this.#counted ??= {
      metrics: openMetrics(this.#world),
      since: this.#world.clock.now().getTime(),
    }
    this.#timer = setTimeout(() => {
      void this.export().finally(() => {
        if (this.#timer !== undefined) this.#schedule()
      })
    }, otlp.metrics_seconds * 1000)
  }
}
