/**
 * What was read of what another process has changed, with what this one has changed since `before`: the reading may be older than that.
 * What this process has taken out since stays out.
 */
export function caughtUp<T>(read: Map<string, T>, before: Map<string, T>, now: Map<string, T>): Map<string, T> {
  for (const [name, one] of now) if (before.get(name) !== one) read.set(name, one)
  for (const name of before.keys()) if (!now.has(name)) read.delete(name)
  return read
}
