import { type Asker, JobWorker, type JobWorkerOptions } from '../base/job-worker.ts'
import { startWorkerAtOnce } from '../base/worker.ts'

/** A text that should be JSON. */
export interface HealingRequest {
  text: string
  /** The JSON Schema that it should fit; null if any object will do. */
  schema: unknown
}

/** What was done to a text to mend it, in this order. */
export type HealingStep = 'extracted' | 'unescaped' | 'repaired'

/** What became of a text. */
export type Healed =
  /** It needed nothing. */
  | { outcome: 'valid' }
  /** Whether it fits the schema is `isChecked`, unless the schema itself could not be read. */
  | { outcome: 'mended'; text: string; steps: HealingStep[]; isChecked: boolean }
  | { outcome: 'unmended'; reason: 'no-json' | 'schema' | 'too-long' | 'too-deep' | 'too-slow' }

/** Mends texts that should be JSON and are not quite. */
export interface Healer {
  /**
   * Mends a text: prose and fences around JSON, quotes, commas and brackets. A mended text fits the
   * schema as far as that needs no regular expression. Never throws, and takes bounded time.
   */
  heal(request: HealingRequest, asker?: Asker): Promise<Healed>
  /** Ends the Worker. */
  close(): void
}

/** The longest text that is looked at, in characters. */
export const LONGEST_HEALED = 2 * 1024 * 1024

const TIMEOUT_MS = 5_000
const IDLE_MS = 60_000
const MAX_WAITING = 256
const MAX_WAITING_SIZE = 64 * 1024 * 1024

/** Opens the healer. The first text starts its Worker, which no other connection waits for. */
export function openHealer(replace: Partial<JobWorkerOptions> = {}): Healer {
  const worker = new JobWorker<HealingRequest, Healed>({
    startWorker,
    timeoutMs: TIMEOUT_MS,
    idleMs: IDLE_MS,
    maxWaiting: MAX_WAITING,
    maxWaitingSize: MAX_WAITING_SIZE,
    ...replace,
  })
  return {
    async heal(request, asker) {
      if (request.text.length > LONGEST_HEALED) return { outcome: 'unmended', reason: 'too-long' }
      try {
        return await worker.run(request, request.text.length, [], asker)
      } catch {
        return { outcome: 'unmended', reason: 'too-slow' }
      }
    },
    close: () => worker.close(),
  }
}

/** Starts the Worker that mends texts. It does not keep the process alive. */
const startWorker = (): Worker => startWorkerAtOnce(getWorkerUrl())

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './extensions/healing/worker.ts' : './healing/worker.ts',
    import.meta.url,
  )
