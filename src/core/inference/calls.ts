import { GatewayError } from '../errors.ts'
import { Roster } from '../kernel/roster.ts'
import type { Kind } from '../language/work.ts'
import type { HeldCall } from '../ledger/ledger.ts'
import { PATIENCE } from '../tokenizers.ts'
import type { Running } from './running.ts'

type RunningCall = Pick<Running<Kind>, 'cancellation' | 'held' | 'soFar'>

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
      return [...running].flatMap(({ held, soFar }) => (held && soFar ? { held, spent: soFar() } : []))
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
