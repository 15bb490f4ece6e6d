/**
 * Returns a function that runs `run`, one run at a time. Whoever calls while one goes on waits for
 * it and then for one more, which all who came meanwhile share: so every caller has had a run that
 * began after they called. They get true if either of the two gave true. A run that fails does so
 * for those who share it, and not for those who only waited for it to end.
 */
export function shareRuns(run: () => Promise<boolean>): () => Promise<boolean> {
  let running: Promise<boolean> | undefined
  let next: Promise<boolean> | undefined

  function start(): Promise<boolean> {
    running = run().finally(() => {
      running = undefined
    })
    return running
  }

  async function startAfter(before: Promise<boolean>): Promise<boolean> {
    const found = await before.catch(() => false)
    next = undefined
    return (await start()) || found
  }

  return () => {
    if (next) return next
    if (!running) return start()
    next = startAfter(running)
    return next
  }
}
