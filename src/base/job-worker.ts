import { Timeout } from './clock.ts'
import { hasRoomForWorker } from './worker.ts'

/** Why a Worker did not finish a job. */
export type JobProblem = 'busy' | 'late' | 'broken' | 'closed'

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

interface WaitingJob<Job, Result> {
  job: Job
  size: number
  transfer: Transferable[]
  resolve(result: Result): void
  reject(error: JobError): void
}

/**
 * Runs jobs in a Worker, one after the other. It starts when first needed and stops after an idle
 * period. A job that takes too long ends with its Worker; the jobs behind it get another one.
 */
export class JobWorker<Job, Result> {
  readonly #options: JobWorkerOptions
  #waiting: WaitingJob<Job, Result>[] = []
  #waitingSize = 0
  #current: WaitingJob<Job, Result> | null = null
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
  run(job: Job, size: number, transfer: Transferable[] = []): Promise<Result> {
    const { maxWaiting, maxWaitingSize } = this.#options
    if (this.#isClosed) return Promise.reject(new JobError('closed'))
    if (this.#waiting.length >= maxWaiting || this.#waitingSize + size > maxWaitingSize)
      return Promise.reject(new JobError('busy'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, size, transfer, resolve, reject })
      this.#waitingSize += size
      if (!this.#current) this.#startNext()
    })
  }

  /** Ends the Worker for good. Jobs that are not finished reject, and so do later ones. */
  close(): void {
    this.#isClosed = true
    const unfinished = this.#current ? [this.#current, ...this.#waiting] : this.#waiting
    this.#current = null
    this.#waiting = []
    this.#waitingSize = 0
    this.#terminate()
    for (const { reject } of unfinished) reject(new JobError('closed'))
  }

  #startNext(): void {
    clearTimeout(this.#idleTimer)
    const next = this.#waiting.shift()
    this.#current = next ?? null
    if (!next) {
      this.#startIdleTimer()
      return
    }
    this.#waitingSize -= next.size
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
