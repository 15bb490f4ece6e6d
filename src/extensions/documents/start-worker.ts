import { startWorkerAtOnce } from '../../base/worker.ts'

/** Starts the Worker that reads documents. It does not keep the process alive. */
export const startWorker = (): Worker => startWorkerAtOnce(getWorkerUrl())

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './extensions/documents/worker.ts' : './worker.ts',
    import.meta.url,
  )
