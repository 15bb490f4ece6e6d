import { BatchJob } from './job.ts'
import type { BatchWorld } from './world.ts'

/** Works on the batches of this data directory. */
export interface BatchRunner {
  /** Begins to work, and goes on until `stop`. Only the server of a data directory may. */
  start(): Promise<void>
  /**
   * Works on what other servers were asked for, too: `unfinished` has the ids of all batches that go
   * on, and whether each is to be cancelled.
   */
  look(unfinished: Map<string, boolean>): void
  /** Begins no line any more, and waits for those that run, which end as other calls do. */
  stop(): Promise<void>
  /** Waits until no batch has work that could be done now. */
  rest(): Promise<void>
}

/** In milliseconds: when batches that wait for something look again, and after a failure. */
const LOOK_INTERVAL = 1_000
const AFTER_FAILURE = 5_000

/**
 * Creates what works on batches: a few lines at once, in turn of their batches, and none while many
 * clients wait. What it forgets when it is killed is in the store.
 */
export const createBatchRunner = (world: BatchWorld): BatchRunner => new Runner(world)

class Runner implements BatchRunner {
  readonly #world: BatchWorld
  readonly #jobs = new Map<string, BatchJob>()
  #isRunning = false
  readonly #workers = new Set<Promise<void>>()
  #listeners: (() => void)[] = []
  #timer: ReturnType<typeof setInterval> | undefined
  #looking: Promise<void> = Promise.resolve()
  #sweeping: Promise<void> = Promise.resolve()

  constructor(world: BatchWorld) {
    this.#world = world
  }

  async start(): Promise<void> {
    const { events } = this.#world
    this.#isRunning = true
    this.#listeners = [
      events.on('batch.changed', ({ id }) => this.#wake(id)),
      events.on('store.reloaded', () => void this.#look()),
      events.on('config.applied', () => this.#fill()),
      events.on('call.closed', () => this.#fill()),
      // Its files have them, and who deletes those deletes them for good.
      events.on('batch.ended', ({ id }) => void this.#sweep(id)),
    ]
    this.#timer = setInterval(() => this.#fill(), LOOK_INTERVAL)
    this.#timer.unref()
    await this.#look()
    void this.#sweep()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    clearInterval(this.#timer)
    for (const remove of this.#listeners) remove()
    this.#listeners = []
    await this.#looking
    await Promise.all(this.#workers)
    await this.#sweeping
    this.#jobs.clear()
  }

  look(unfinished: Map<string, boolean>): void {
    for (const [id, isCancelled] of unfinished) {
      const job = this.#jobs.get(id)
      if (job && isCancelled) job.pausedUntil = 0
    }
    if ([...unfinished.keys()].some(id => !this.#jobs.has(id))) void this.#look()
    else this.#fill()
  }

  async rest(): Promise<void> {
    await this.#looking
    this.#fill()
    while (this.#workers.size > 0) {
      await Promise.race(this.#workers)
      this.#fill()
    }
    await this.#sweeping
  }

  get #mayRun(): boolean {
    return this.#isRunning && this.#world.jobs?.isHeld !== false
  }

  #wake(id: string): void {
    const job = this.#jobs.get(id)
    if (job) job.pausedUntil = 0
    void this.#look()
  }

  /** Finds the batches that go on. */
  #look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#readUnfinished()).catch(() => undefined)
    return this.#looking
  }

  async #readUnfinished(): Promise<void> {
    if (!this.#isRunning) return
    for (const { id } of await this.#world.store.batches.listUnfinished())
      if (!this.#jobs.has(id)) this.#jobs.set(id, new BatchJob(this.#world, id, () => this.#fill()))
    this.#fill()
  }

  /** Starts as many workers as there is work for. */
  #fill(): void {
    const { config } = this.#world
    while (this.#mayRun && this.#jobs.size > 0 && config.batches.enabled) {
      if (this.#workers.size >= config.batches.concurrency || this.#isBusy()) return
      const job = this.#takeJob()
      if (!job) return
      const worker = this.#work(job).finally(() => {
        this.#workers.delete(worker)
        this.#fill()
      })
      this.#workers.add(worker)
    }
  }

  /** Whether so many clients wait that no line may begin. */
  #isBusy(): boolean {
    const { traffic, config } = this.#world
    let own = 0
    for (const job of this.#jobs.values()) own += job.running
    return traffic.calls.size - own >= config.batches.pause_at
  }

  /** Takes the next batch in turn that has work, and puts it behind the others. */
  #takeJob(): BatchJob | null {
    const now = this.#world.clock.ticks()
    for (const [id, job] of this.#jobs) {
      if (job.isOver) this.#jobs.delete(id)
      else if (job.pausedUntil <= now && job.canWork()) {
        this.#jobs.delete(id)
        this.#jobs.set(id, job)
        return job
      }
    }
    return null
  }

  async #work(job: BatchJob): Promise<void> {
    try {
      await job.work()
    } catch (error) {
      job.pausedUntil = this.#world.clock.ticks() + AFTER_FAILURE
      this.#world.events.publish('batch.failing', { id: job.id, error })
    }
  }

  /** Removes results that are in files already: of one batch, or all that a killed process has left. */
  #sweep(id?: string): Promise<void> {
    this.#sweeping = this.#sweeping.then(() => this.#removeResults(id)).catch(() => undefined)
    return this.#sweeping
  }

  async #removeResults(id?: string): Promise<void> {
    while (this.#isRunning && (await this.#world.store.batches.sweepResults(id)) > 0);
  }
}
