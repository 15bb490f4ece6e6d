import { startWorkerAtOnce } from '../../../../base/worker.ts'

/** Starts the Worker that renders deliveries. It does not keep the process alive. */
export const startWorker = (): Worker =>
  startWorkerAtOnce(getWorkerUrl(), { smol: true, env: {} } as WorkerOptions)

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable
      ? './observability/destinations/deliveries/renderer/worker.ts'
      : './worker.ts',
    import.meta.url,
  )
