import { useEffect, useRef, useState } from 'react'
import type { Feed } from '../feed.ts'
import { describeFailure } from './failure.ts'
import { Live } from './live.ts'
import type { Source } from './source.ts'

/** In milliseconds, between two drawings of what the feed tells: four a second, or fewer. */
const DRAW_INTERVAL = 250
const LONGEST_DRAW_INTERVAL = 2_000

/** The share of a core that drawing may take: a large screen is drawn less often. */
const CPU_SHARE = 0.035

/** In milliseconds, before the feed is opened again. */
const RETRY_INTERVAL = 1_000

/** How many finished calls are shown at the start. */
const MOST_RECORDS = 100

/** Whether the feed is open, and why it is not. */
export interface Connection {
  isOpen: boolean
  reason: string | null
}

/**
 * Follows a source: what its feed has told, and whether it is open. Draws at most four times a
 * second, and only while something of it is shown.
 */
export function useLive(
  source: Source,
  isShown: { readonly current: boolean },
): { live: Live; connection: Connection; now: number } {
  const live = useRef<Live>(null)
  live.current ??= new Live()
  const [connection, setConnection] = useState<Connection>({ isOpen: false, reason: null })
  const [, redraw] = useState(0)
  const followed = live.current
  useEffect(() => {
    void addRecords(source, followed)
    return follow(source, followed, setConnection)
  }, [source, followed])
  useEffect(() => {
    let drawn = -1
    let before = process.cpuUsage()
    let timer: ReturnType<typeof setTimeout>
    const draw = () => {
      const { user, system } = process.cpuUsage(before)
      before = process.cpuUsage()
      const interval = computeInterval((user + system) / 1000)
      timer = setTimeout(draw, interval)
      if (!isShown.current || (followed.version === drawn && !followed.isRunning)) return
      drawn = followed.version
      redraw(count => count + 1)
    }
    timer = setTimeout(draw, DRAW_INTERVAL)
    return () => clearTimeout(timer)
  }, [followed, isShown])
  return { live: followed, connection, now: Date.now() }
}

/** Computes when to draw again, in milliseconds, after so much work since the last time. */
export const computeInterval = (cpuMilliseconds: number): number =>
  Math.min(LONGEST_DRAW_INTERVAL, Math.max(DRAW_INTERVAL, cpuMilliseconds / CPU_SHARE))

/** Adds the calls on record: those from before the feed. Without them the feed is shown alone. */
async function addRecords(source: Source, live: Live): Promise<void> {
  for (const call of await source.listCalls(MOST_RECORDS).catch(() => [])) live.addRecord(call)
}

/** Reads the feed, and opens it again when it ends, until it is stopped. */
function follow(source: Source, live: Live, onChange: (connection: Connection) => void) {
  let isStopped = false
  let feed: Feed | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const retry = (reason: string) => {
    if (isStopped) return
    live.forgetRunning()
    onChange({ isOpen: false, reason })
    timer = setTimeout(() => void open(), RETRY_INTERVAL)
  }
  const open = async () => {
    try {
      feed = await source.openFeed()
      if (isStopped) return feed.close()
      onChange({ isOpen: true, reason: null })
      void addRecords(source, live)
      for await (const batch of feed.batches) live.applyAll(batch)
      retry('the server has ended')
    } catch (thrown) {
      retry(describeFailure(thrown))
    }
  }
  void open()
  return () => {
    isStopped = true
    clearTimeout(timer)
    feed?.close()
  }
}
