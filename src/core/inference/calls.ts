import { GatewayError } from '../errors.ts'
import { Roster } from '../kernel/roster.ts'
import type { HeldCall } from '../ledger/ledger.ts'
import { PATIENCE } from '../tokenizers.ts'
import type { Run } from './run.ts'

type RunningCall = Pick<Run, 'cancellation' | 'progress'>

/** The calls that run at this moment. */
export interface Calls {
  readonly size: number
  readonly draining: boolean
  /** Lists a call, and gives back how to forget it. */
  add(call: RunningCall): () => void
  /** Those that have begun to answer since, and what each has come to. */
  progress(): { held: HeldCall; spent: bigint }[]
  /** Takes no more, waits at most so many milliseconds for the running ones, and then ends those that are left. */
  drain(milliseconds: number): Promise<void>
}

/** What a call that was ended gets to be counted, recorded and to say so, in milliseconds. */
const GRACE = PATIENCE + 1_000

/** The list of running calls, empty. */
export function openCalls(): Calls {
  const running = new Roster<RunningCall>()
  let draining = false
  let emptied: (() => void) | undefined

  const endAll = () => {
    for (const { cancellation } of running) cancellation.cancel(new GatewayError('unavailable', 'The gateway is shutting down'))
  }

  return {
    get size() {
      return running.size
    },
    get draining() {
      return draining
    },
    add(call) {
      const remove = running.add(call)
      return () => {
        remove()
        if (running.size === 0) emptied?.()
      }
    },
    progress() {
      return [...running].flatMap(({ progress }) => progress ?? [])
    },
    async drain(milliseconds) {
      draining = true
      if (running.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      emptied = resolve
      const late = setTimeout(endAll, milliseconds)
      await Promise.race([promise, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(late)
    },
  }
}
