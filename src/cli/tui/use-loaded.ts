import { useCallback, useEffect, useState } from 'react'
import { describeFailure } from './failure.ts'

/** In milliseconds, between two readings of what is stored. */
const READ_INTERVAL = 5_000

/** What was read last, why it could not be read, and what reads it again. */
interface Loaded<Value> {
  value: Value | null
  failure: string | null
  reload(): Promise<void>
}

/** Reads something now, and again every five seconds while it is shown. */
export function useLoaded<Value>(read: () => Promise<Value>, isRepeated = true): Loaded<Value> {
  const [value, setValue] = useState<Value | null>(null)
  const [failure, setFailure] = useState<string | null>(null)
  const reload = useCallback(async () => {
    try {
      setValue(await read())
      setFailure(null)
    } catch (thrown) {
      setFailure(describeFailure(thrown))
    }
  }, [read])
  useEffect(() => {
    void reload()
    if (!isRepeated) return
    const timer = setInterval(() => void reload(), READ_INTERVAL)
    return () => clearInterval(timer)
  }, [reload, isRepeated])
  return { value, failure, reload }
}
