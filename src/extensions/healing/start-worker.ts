import { startWorkerAtOnce } from '../../base/worker.ts'

/** Starts the Worker that mends texts. It does not keep the process alive. */
export const startWorker = (): Worker => startWorkerAtOnce(getWorkerUrl())

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './extensions/healing/worker.ts' : './worker.ts',
    import.meta.url,
  )
