import type { Gateway } from '../../../app/gateway.ts'
import type { BatchRunner } from '../../../extensions/batches/runner.ts'
import type { AlertWatch } from '../../../observability/alerts/watch.ts'
import type { FoundWork } from '../../../store/postgres/jobs.ts'
import type { ConfigWatch } from '../../config-file/watch.ts'
import { getCause } from './log.ts'
import type { Serving } from './serving.ts'
import { logWriteLog, startEvictions, startTimers } from './timers.ts'

/**
 * What a server does beside calls: what is its own, and the jobs, which one of several servers has.
 * Another server takes them over with the data directory, or claims them in the database.
 */
export class Work {
  readonly #serving: Serving
  readonly #watch: ConfigWatch
  #ownStops: (() => unknown)[] = []
  #stops: (() => unknown)[] = []
  #batches: Promise<BatchRunner> | null = null
  /** The end of the lines of batches that this process has left. */
  #left: Promise<unknown> = Promise.resolve()
  #isRunning = false

  constructor(serving: Serving, watch: ConfigWatch) {
    this.#serving = serving
    this.#watch = watch
    // Once, however often the work begins anew.
    logWriteLog(serving)
    logBatches(serving)
  }

  async start(): Promise<void> {
    const { gateway } = this.#serving
    this.#isRunning = true
    this.#ownStops.push(await startTimers(this.#serving, this.#watch))
    const { MetricsExport } = await import('../../../observability/destinations/metrics-export.ts')
    const metricsExport = new MetricsExport(gateway)
    this.#ownStops.push(() => metricsExport.stop())
    if (!gateway.jobs) return this.#beginJobs()
    const { tellSightings } = await import('../../../observability/alerts/providers.ts')
    this.#ownStops.push(tellSightings(gateway))
    await gateway.jobs.seek({
      begin: () => this.#takeJobs(),
      look: found => this.#look(found),
      end: () => this.#leaveJobs(),
    })
  }

  async stopBatches(): Promise<void> {
    this.#isRunning = false
    this.#serving.gateway.jobs?.retire()
    await this.#endBatches()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    const { jobs } = this.#serving.gateway
    if (jobs) await jobs.release()
    else await this.#stopJobs()
    await stopAll(this.#ownStops)
  }

  /** Stops all but the lines of batches that run. */
  async pause(): Promise<void> {
    void this.stopBatches()
    await this.stop()
  }

  async #beginJobs(): Promise<void> {
    const { gateway, succession } = this.#serving
    gateway.rollups.start()
    this.#stops.push(await startEvictions(gateway))
    // Also what begins in part, where the store stops answering.
    this.#stops.push(() => gateway.deliveries.stop())
    await gateway.deliveries.start()
    this.#stops.push(() => gateway.videos.stop())
    await gateway.videos.start()
    this.#stops.push(await startAlerts(gateway))
    // Lines of the server before this one run to their end there, and those that were left here.
    void Promise.all([succession?.ended, this.#left]).then(() => this.#startBatches())
  }

  async #takeJobs(): Promise<void> {
    const { log } = this.#serving
    try {
      await this.#beginJobs()
      log('info', 'jobs.begun', {})
    } catch (thrown) {
      log('warn', 'jobs.failing', { cause: getCause(thrown), consequence: 'they are begun again' })
      throw thrown
    }
  }

  /** Does what other servers have begun. */
  async #look({ outbox, videos, batches }: FoundWork): Promise<void> {
    const { gateway } = this.#serving
    await gateway.videos.look(videos)
    const runner = await this.#batches
    runner?.look(batches)
    await gateway.deliveries.look(outbox)
  }

  /**
   * Ends the jobs, which another server may have. Lines that run go on to their end: only who stops
   * waits for them, and keeps the jobs until then.
   */
  async #leaveJobs(): Promise<void> {
    const { gateway, log } = this.#serving
    const ended = this.#endBatches()
    await this.#stopJobs()
    if (!this.#isRunning) await ended
    gateway.videos.forget()
    log('info', 'jobs.ended', {})
  }

  #stopJobs = (): Promise<void> => stopAll(this.#stops)

  async #startBatches(): Promise<void> {
    if (!this.#isRunning || this.#batches) return
    this.#batches = startBatches(this.#serving.gateway)
    await this.#batches
  }

  async #endBatches(): Promise<void> {
    const batches = this.#batches
    this.#batches = null
    const ended = batches?.then(runner => runner.stop())
    this.#left = Promise.all([this.#left, ended])
    await this.#left
  }
}

async function stopAll(stops: (() => unknown)[]): Promise<void> {
  for (const stop of stops.splice(0).toReversed()) await stop()
}

/** Watches for alerts as soon as there is one, and returns the function that ends it. */
async function startAlerts(gateway: Gateway): Promise<() => Promise<void>> {
  let watch: Promise<AlertWatch> | undefined
  const begin = async () => {
    if (gateway.memory.alerts.size === 0) return
    watch ??= watchAlerts(gateway)
    await watch.catch(thrown => {
      watch = undefined
      throw thrown
    })
  }
  const remove = gateway.events.on('alerts.changed', () => void begin().catch(() => undefined))
  try {
    await begin()
  } catch (thrown) {
    remove()
    throw thrown
  }
  return async () => {
    remove()
    await (await watch)?.stop()
  }
}

async function watchAlerts(gateway: Gateway): Promise<AlertWatch> {
  const { AlertWatch } = await import('../../../observability/alerts/watch.ts')
  const watch = new AlertWatch(gateway)
  try {
    await watch.start()
  } catch (thrown) {
    await watch.stop()
    throw thrown
  }
  return watch
}

function logBatches({ gateway: { events }, log }: Serving): void {
  events.on('batch.ended', ({ id, status, completed, failed }) =>
    log('info', 'batch.ended', { id, status, completed, failed }),
  )
  events.on('batch.failing', ({ id, error }) =>
    log('warn', 'batch.failing', { id, cause: getCause(error), consequence: 'it is tried again' }),
  )
}

/** Starts the work on batches. */
async function startBatches(gateway: Gateway): Promise<BatchRunner> {
  const { createBatchRunner } = await import('../../../extensions/batches/runner.ts')
  const runner = createBatchRunner(gateway)
  await runner.start()
  return runner
}
