/**
 * Returns a function that runs `run`, one run at a time, for all who call it at once. Whoever calls
 * while a run goes on waits for it and then for the next: so every caller has had a run that began
 * after they called. They get true if either of the two gave true. A run that fails does so for
 * those who share it, and not for those who only waited for it to end.
 */
export function shareRuns(run: () => Promise<boolean>): () => Promise<boolean> {
  let running: Promise<boolean> | undefined
  let next: Promise<boolean> | undefined

  async function start(): Promise<boolean> {
    const found = await (running ?? Promise.resolve(false)).catch(() => false)
    next = undefined
    const own = run()
    running = own
    try {
      return (await own) || found
    } finally {
      if (running === own) running = undefined
    }
  }

  return () => {
    next ??= start()
    return next
  }
}
