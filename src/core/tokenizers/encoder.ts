import type { EncodingName } from './encodings.ts'

/** A request to the Worker, and its response: null if the encoding failed. */
export interface Asked {
  id: number
  encoding: EncodingName
  texts: string[]
}
export interface Answered {
  id: number
  tokens: number | null
}

/**
 * Starts the Worker. If that fails, it throws, or the Worker emits an error. The Worker does not
 * keep the process alive; the timers of pending counts do.
 */
export const startWorker = (): Worker => new Worker(workerUrl().href, { ref: false })

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const workerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './core/tokenizers/worker.ts' : './worker.ts',
    import.meta.url,
  )

interface Waiting {
  size: number
  resolve(tokens: number | null): void
}

/** The most characters that may be pending. The Worker could not count more in time. */
const MOST_WAITING = 16 * 1024 * 1024

/**
 * Counts tokens in a Worker. It starts when first needed and stops after an idle period, because a
 * vocabulary takes a hundred megabytes. If the Worker fails or is too slow, it is terminated and
 * its pending counts resolve to null.
 */
export class Encoder {
  readonly #start: () => Worker
  readonly #patience: number
  readonly #idle: number
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | null = null
  #size = 0
  #last = 0
  #resting: Timer | undefined

  constructor({
    startWorker,
    patience,
    idle,
  }: { startWorker: () => Worker; patience: number; idle: number }) {
    this.#start = startWorker
    this.#patience = patience
    this.#idle = idle
  }

  /**
   * Returns the number of tokens of the texts, or null if it cannot be determined in time. Never
   * rejects.
   */
  count(encoding: EncodingName, texts: string[]): Promise<number | null> {
    const size = texts.reduce((sum, text) => sum + text.length, 0)
    if (this.#size + size > MOST_WAITING) return Promise.resolve(null)
    return new Promise(resolve => {
      const id = ++this.#last
      this.#expect(id, size, resolve)
      this.#ask({ id, encoding, texts })
    })
  }

  /**
   * Terminates the Worker. Pending counts resolve to null, and the next count starts a new Worker.
   */
  end(): void {
    clearTimeout(this.#resting)
    this.#worker?.terminate()
    this.#worker = null
    for (const id of this.#waiting.keys()) this.#answer({ id, tokens: null })
  }

  #expect(id: number, size: number, resolve: (tokens: number | null) => void): void {
    const late = setTimeout(() => this.end(), this.#patience)
    const told = (tokens: number | null) => {
      clearTimeout(late)
      resolve(tokens)
    }
    this.#waiting.set(id, { size, resolve: told })
    this.#size += size
  }

  #ask(asked: Asked): void {
    clearTimeout(this.#resting)
    try {
      this.#worker ??= this.#started()
      this.#worker.postMessage(asked)
    } catch {
      this.end()
    }
  }

  #started(): Worker {
    const worker = this.#start()
    const failed = () => {
      if (this.#worker === worker) this.end()
    }
    worker.onmessage = ({ data }: MessageEvent<Answered>) => this.#answer(data)
    worker.onerror = event => {
      event.preventDefault()
      failed()
    }
    worker.addEventListener('close', failed)
    return worker
  }

  #answer({ id, tokens }: Answered): void {
    const waiting = this.#waiting.get(id)
    if (!waiting) return
    this.#waiting.delete(id)
    this.#size -= waiting.size
    waiting.resolve(tokens)
    if (this.#waiting.size === 0 && this.#worker) this.#rest()
  }

  #rest(): void {
    this.#resting = setTimeout(() => this.end(), this.#idle)
    this.#resting.unref()
  }
}
