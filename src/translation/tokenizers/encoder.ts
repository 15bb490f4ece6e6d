import { Timeout } from '../../base/clock.ts'
import { startWorkerAtOnce } from '../../base/worker.ts'
import type { EncodingName } from './encodings.ts'

/** A request to the Worker, and its response: null if the encoding failed. */
export interface CountRequest {
  id: number
  encoding: EncodingName
  texts: string[]
}
export interface CountResponse {
  id: number
  tokens: number | null
}

/**
 * Starts the Worker. If that fails, it throws, or the Worker emits an error. The Worker does not
 * keep the process alive; the timers of pending counts do.
 */
export const startWorker = (): Worker => startWorkerAtOnce(getWorkerUrl())

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './translation/tokenizers/worker.ts' : './worker.ts',
    import.meta.url,
  )

interface PendingCount {
  size: number
  resolve(tokens: number | null): void
}

/** The most characters that may be pending. The Worker could not count more in time. */
const MAX_WAITING = 16 * 1024 * 1024

/**
 * Counts tokens in a Worker. It starts when first needed and stops after an idle period, because a
 * vocabulary takes a hundred megabytes. If the Worker fails or is too slow, it is terminated and
 * its pending counts resolve to null.
 */
export class Encoder {
  readonly #start: () => Worker
  readonly #timeoutMs: number
  readonly #idleMs: number
  readonly #pending = new Map<number, PendingCount>()
  #worker: Worker | null = null
  #pendingCharacters = 0
  #lastId = 0
  #idleTimer: Timer | undefined

  constructor({
    startWorker,
    timeoutMs,
    idleMs,
  }: { startWorker: () => Worker; timeoutMs: number; idleMs: number }) {
    this.#start = startWorker
    this.#timeoutMs = timeoutMs
    this.#idleMs = idleMs
  }

  /**
   * Returns the number of tokens of the texts, or null if it cannot be determined in time. Never
   * rejects.
   */
  count(encoding: EncodingName, texts: string[]): Promise<number | null> {
    const size = texts.reduce((sum, text) => sum + text.length, 0)
    if (this.#pendingCharacters + size > MAX_WAITING) return Promise.resolve(null)
    return new Promise(resolve => {
      const id = ++this.#lastId
      this.#addPending(id, size, resolve)
      this.#send({ id, encoding, texts })
    })
  }

  /**
   * Terminates the Worker. Pending counts resolve to null, and the next count starts a new Worker.
   */
  end(): void {
    clearTimeout(this.#idleTimer)
    this.#worker?.terminate()
    this.#worker = null
    for (const id of this.#pending.keys()) this.#settle({ id, tokens: null })
  }

  #addPending(id: number, size: number, resolve: (tokens: number | null) => void): void {
    const timeout = new Timeout(this.#timeoutMs, () => this.end())
    const settle = (tokens: number | null) => {
      timeout.stop()
      resolve(tokens)
    }
    this.#pending.set(id, { size, resolve: settle })
    this.#pendingCharacters += size
  }

  #send(request: CountRequest): void {
    clearTimeout(this.#idleTimer)
    try {
      this.#worker ??= this.#createWorker()
      this.#worker.postMessage(request)
    } catch {
      this.end()
    }
  }

  #createWorker(): Worker {
    const worker = this.#start()
    const handleFailure = () => {
      if (this.#worker === worker) this.end()
    }
    worker.onmessage = ({ data }: MessageEvent<CountResponse>) => this.#settle(data)
    worker.onerror = event => {
      event.preventDefault()
      handleFailure()
    }
    worker.addEventListener('close', handleFailure)
    return worker
  }

  #settle({ id, tokens }: CountResponse): void {
    const waiting = this.#pending.get(id)
    if (!waiting) return
    this.#pending.delete(id)
    this.#pendingCharacters -= waiting.size
    waiting.resolve(tokens)
    if (this.#pending.size === 0 && this.#worker) this.#startIdleTimer()
  }

  #startIdleTimer(): void {
    this.#idleTimer = setTimeout(() => this.end(), this.#idleMs)
    this.#idleTimer.unref()
  }
}
