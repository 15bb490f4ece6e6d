import type { Gateway } from '../../../app/gateway.ts'
import type { AlertWatch } from '../../../observability/alerts/watch.ts'
import type { ConfigWatch } from '../../config-file/watch.ts'
import { getCause } from './log.ts'
import type { Serving } from './serving.ts'
import { startTimers } from './timers.ts'

/** What a server does beside calls. Another server takes it over with the data directory. */
export class Work {
  readonly #serving: Serving
  readonly #watch: ConfigWatch
  #stops: (() => unknown)[] = []
  #batches: Promise<() => Promise<void>> | null = null
  #isRunning = false

  constructor(serving: Serving, watch: ConfigWatch) {
    this.#serving = serving
    this.#watch = watch
  }

  async start(): Promise<void> {
    const { gateway, succession } = this.#serving
    this.#isRunning = true
    gateway.rollups.start()
    this.#stops.push(await startTimers(this.#serving, this.#watch))
    await gateway.deliveries.start()
    this.#stops.push(() => gateway.deliveries.stop())
    await gateway.videos.start()
    this.#stops.push(() => gateway.videos.stop())
    const { MetricsExport } = await import('../../../observability/destinations/metrics-export.ts')
    const metricsExport = new MetricsExport(gateway)
    this.#stops.push(() => metricsExport.stop())
    this.#stops.push(await startAlerts(gateway))
    // Lines of the server before this one run to their end there.
    if (succession) void succession.ended.then(() => this.#startBatches())
    else await this.#startBatches()
  }

  async stopBatches(): Promise<void> {
    this.#isRunning = false
    const stop = await this.#batches
    this.#batches = null
    await stop?.()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    for (const stop of this.#stops.splice(0).toReversed()) await stop()
  }

  /** Stops all but the lines of batches that run. */
  async pause(): Promise<void> {
    void this.stopBatches()
    await this.stop()
  }

  async #startBatches(): Promise<void> {
    if (!this.#isRunning || this.#batches) return
    this.#batches = startBatches(this.#serving)
    await this.#batches
  }
}

/** Watches for alerts as soon as there is one, and returns the function that ends it. */
async function startAlerts(gateway: Gateway): Promise<() => Promise<void>> {
  let watch: Promise<AlertWatch> | undefined
  const begin = () => {
    if (gateway.memory.alerts.size > 0) watch ??= watchAlerts(gateway)
  }
  const remove = gateway.events.on('alerts.changed', begin)
  begin()
  await watch
  return async () => {
    remove()
    await (await watch)?.stop()
  }
}

async function watchAlerts(gateway: Gateway): Promise<AlertWatch> {
  const { AlertWatch } = await import('../../../observability/alerts/watch.ts')
  const watch = new AlertWatch(gateway)
  await watch.start()
  return watch
}

/** Starts the work on batches, and returns the function that ends it. */
async function startBatches({ gateway, log }: Serving): Promise<() => Promise<void>> {
  const { createBatchRunner } = await import('../../../extensions/batches/runner.ts')
  const runner = createBatchRunner(gateway)
  gateway.events.on('batch.ended', ({ id, status, completed, failed }) =>
    log('info', 'batch.ended', { id, status, completed, failed }),
  )
  gateway.events.on('batch.failing', ({ id, error }) =>
    log('warn', 'batch.failing', { id, cause: getCause(error), consequence: 'it is tried again' }),
  )
  await runner.start()
  return () => runner.stop()
}
