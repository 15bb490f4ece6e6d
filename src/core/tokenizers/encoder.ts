import type { EncodingName } from './encodings.ts'

/** What the Worker is asked, and what it answers: null where the encoding failed. */
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
 * Starts the Worker. Throws, or the Worker tells of an error, where it cannot be. It keeps no process alive: whoever waits
 * for it has a timer that does.
 */
export const startWorker = (): Worker => new Worker(workerUrl().href, { ref: false })

// The binary keeps every module below one root, the entry points under their paths in src and all other code at the root itself.
const workerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './core/tokenizers/worker.ts' : './worker.ts',
    import.meta.url,
  )

interface Waiting {
  size: number
  resolve(tokens: number | null): void
}

/** Characters that may wait for the Worker. Beyond them it would not be done in time. */
const MOST_WAITING = 16 * 1024 * 1024

/**
 * Counts in a Worker, which is started when it is first needed and ended when it has had no work for a while: a vocabulary is
 * a hundred megabytes. A Worker that fails or is late is ended, and what it owed is answered with null.
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

  /** The tokens of the texts, or null when that cannot be told in time. Never throws. */
  count(encoding: EncodingName, texts: string[]): Promise<number | null> {
    const size = texts.reduce((sum, text) => sum + text.length, 0)
    if (this.#size + size > MOST_WAITING) return Promise.resolve(null)
    return new Promise(resolve => {
      const id = ++this.#last
      this.#expect(id, size, resolve)
      this.#ask({ id, encoding, texts })
    })
  }

  /** Ends the Worker; the next count starts another. Whoever waits is told null. */
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
