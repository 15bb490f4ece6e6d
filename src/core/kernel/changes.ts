/**
 * What was read of the store, and over it what has changed in memory since `before`: the reading may be older than that. `now` is the
 * memory as it is after the reading.
 */
export function withChanges<Value>(read: Map<string, Value>, before: Map<string, Value>, now: Map<string, Value>): Map<string, Value> {
  for (const [name, value] of now) if (before.get(name) !== value) read.set(name, value)
  for (const name of before.keys()) if (!now.has(name)) read.delete(name)
  return read
}
