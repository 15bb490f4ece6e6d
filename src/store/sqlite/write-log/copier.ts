import { JobWorker } from '../../../base/job-worker.ts'
import { startWorkerAtOnce } from '../../../base/worker.ts'

/** Copies the log of a database in a thread of its own, with a connection of its own. */
export interface LogCopier {
  /** Copies as much as can be. Resolves when it is done; never rejects. */
  copy(): Promise<void>
  /** Ends the thread. What is being copied is left to a later copy. */
  close(): void
}

/** In milliseconds: a disk may be slow; and how long the thread is kept while calls are few. */
const TIMEOUT = 60_000
const IDLE = 10_000

/** Creates the copier of the database at a path. Its thread starts when it is first needed. */
export function createLogCopier(path: string): LogCopier {
  const worker = new JobWorker<string, boolean>({
    startWorker: () => startWorkerAtOnce(getWorkerUrl(), { smol: true } as WorkerOptions),
    timeoutMs: TIMEOUT,
    idleMs: IDLE,
    maxWaiting: 1,
    maxWaitingSize: 1,
  })
  return {
    copy: () =>
      worker.run(path, 1).then(
        () => undefined,
        () => undefined,
      ),
    close: () => worker.close(),
  }
}

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './store/sqlite/write-log/worker.ts' : './worker.ts',
    import.meta.url,
  )
