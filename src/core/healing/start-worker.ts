/** Starts the Worker that mends texts. It does not keep the process alive. */
export const startWorker = (): Worker => new Worker(getWorkerUrl().href, { ref: false })

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(Bun.isStandaloneExecutable ? './core/healing/worker.ts' : './worker.ts', import.meta.url)
