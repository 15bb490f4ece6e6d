import { Timeout } from './clock.ts'
import { hasRoomForWorker } from './worker.ts'

/** Why a Worker did not finish a job. */
export type JobProblem = 'busy' | 'late' | 'broken' | 'closed' | 'gone'

/** A job that was not finished. */
export class JobError extends Error {
  readonly problem: JobProblem

  constructor(problem: JobProblem) {
    super(`The job was not finished: ${problem}`)
    this.problem = problem
  }
}

/** How a Worker is started, and its limits. Times in milliseconds. */
export interface JobWorkerOptions {
  /** Starts the Worker. It answers each message with one. */
  startWorker: () => Worker
  /** How long one job may take from the moment at which its turn comes. */
  timeoutMs: number
  /** How long the Worker is kept without work. */
  idleMs: number
  /** How many jobs may wait for their turn, and how large they may be together. */
  maxWaiting: number
  maxWaitingSize: number
}

/** Who asks for a job. */
export interface Asker {
  /** Those of one owner take turns with those of others, and have half of what may wait. */
  owner: string
  /** Whether nobody waits for it any more. */
  isGone(): boolean
}

interface WaitingJob<Job, Result> {
  job: Job
  size: number
  transfer: Transferable[]
  asker: Asker | null
  resolve(result: Result): void
  reject(error: JobError): void
}

/**
 * Runs jobs in a Worker, one after the other, in turns of those who ask. It starts when first needed
 * and stops after an idle period. A job that takes too long ends with its Worker; the jobs behind it
 * get another one.
 */
export class JobWorker<Job, Result> {
  readonly #options: JobWorkerOptions
  #waiting: WaitingJob<Job, Result>[] = []
  #current: WaitingJob<Job, Result> | null = null
  /** When owners had their last turn: those who have a job here. */
  readonly #turns = new Map<string, number>()
  #turn = 0
  #worker: Worker | null = null
  #timeout: Timeout | undefined
  #idleTimer: Timer | undefined
  #isClosed = false

  constructor(options: JobWorkerOptions) {
    this.#options = options
  }

  /**
   * Runs a job. What is in `transfer` is moved to the Worker, not copied. `size` is its part of
   * what may wait. Rejects with `JobError`.
   */
  run(
    job: Job,
    size: number,
    transfer: Transferable[] = [],
    asker: Asker | null = null,
  ): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new JobError('closed'))
    this.#dropGone()
    if (!this.#hasRoom(size, asker)) return Promise.reject(new JobError('busy'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, size, transfer, asker, resolve, reject })
      if (!this.#current) this.#startNext()
    })
  }

  /** Ends the Worker for good. Jobs that are not finished reject, and so do later ones. */
  close(): void {
    this.#isClosed = true
    const unfinished = this.#current ? [this.#current, ...this.#waiting] : this.#waiting
    this.#current = null
    this.#waiting = []
    this.#turns.clear()
    this.#terminate()
    for (const { reject } of unfinished) reject(new JobError('closed'))
  }

  #hasRoom(size: number, asker: Asker | null): boolean {
    const { maxWaiting, maxWaitingSize } = this.#options
    const own = asker ? this.#waiting.filter(one => one.asker?.owner === asker.owner) : []
    const fits = (jobs: WaitingJob<Job, Result>[], share: number) =>
      jobs.length < maxWaiting * share && sumSizes(jobs) + size <= maxWaitingSize * share
    return fits(this.#waiting, 1) && (own.length === 0 || fits(own, 1 / 2))
  }

  #dropGone(): void {
    const gone = this.#waiting.filter(({ asker }) => asker?.isGone())
    if (gone.length === 0) return
    this.#waiting = this.#waiting.filter(job => !gone.includes(job))
    for (const { reject } of gone) reject(new JobError('gone'))
  }

  /** Takes the first job of those whose last turn is the longest ago. */
  #takeNext(): WaitingJob<Job, Result> | null {
    const getTurn = ({ asker }: WaitingJob<Job, Result>) =>
      (asker && this.#turns.get(asker.owner)) ?? 0
    const first = Math.min(...this.#waiting.map(getTurn))
    const next = this.#waiting.find(job => getTurn(job) === first)
    if (!next) return null
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    if (next.asker) this.#turns.set(next.asker.owner, ++this.#turn)
    return next
  }

  #forgetTurns(): void {
    const owners = new Set(this.#waiting.map(({ asker }) => asker?.owner))
    for (const owner of this.#turns.keys()) if (!owners.has(owner)) this.#turns.delete(owner)
  }

  #startNext(): void {
    clearTimeout(this.#idleTimer)
    this.#dropGone()
    this.#forgetTurns()
    const next = this.#takeNext()
    this.#current = next
    if (!next) {
      this.#startIdleTimer()
      return
    }
    this.#timeout = new Timeout(this.#options.timeoutMs, () => this.#fail('late'))
    try {
      this.#worker ??= this.#createWorker()
      this.#worker.postMessage(next.job, next.transfer)
    } catch {
      this.#fail(this.#worker || hasRoomForWorker() ? 'broken' : 'busy')
    }
  }

  #createWorker(): Worker {
    const worker = this.#options.startWorker()
    const handleFailure = () => {
      if (this.#worker === worker) this.#fail('broken')
    }
    worker.onmessage = ({ data }: MessageEvent<Result>) => {
      if (this.#worker === worker) this.#finish(data)
    }
    worker.onerror = event => {
      event.preventDefault()
      handleFailure()
    }
    worker.addEventListener('close', handleFailure)
    return worker
  }

  #finish(result: Result): void {
    this.#timeout?.stop()
    this.#current?.resolve(result)
    this.#startNext()
  }

  #fail(problem: JobProblem): void {
    const failed = this.#current
    this.#terminate()
    failed?.reject(new JobError(problem))
    if (!this.#isClosed) this.#startNext()
  }

  #terminate(): void {
    this.#timeout?.stop()
    clearTimeout(this.#idleTimer)
    const worker = this.#worker
    this.#worker = null
    worker?.terminate()
  }

  #startIdleTimer(): void {
    if (!this.#worker) return
    this.#idleTimer = setTimeout(() => this.#terminate(), this.#options.idleMs)
    this.#idleTimer.unref()
  }
}

const sumSizes = (jobs: { size: number }[]): number => jobs.reduce((sum, { size }) => sum + size, 0)
