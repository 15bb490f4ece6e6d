/**
 * Returns a function that runs `run` once for all simultaneous callers, one run at a time. A caller
 * that comes during a run waits for it and then for the next one. So every caller gets a run that
 * began after its call. It gets true if either of the two returned true. A failed run fails for the
 * callers that share it, and not for those that only waited for it to end.
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
