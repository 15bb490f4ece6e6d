import type { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import { LiveSet } from '../../base/live-set.ts'
import type { HeldCall } from '../../limits/ledger.ts'
import type { Actor } from '../../resources/actor.ts'
import { COUNT_TIMEOUT_MS } from '../../translation/tokenizers.ts'
import { ReadOns } from './read-ons.ts'

/** A call that runs, as far as the list of them is concerned. */
interface RunningCall {
  readonly cancellation: Pick<Cancellation, 'cancel'>
  /** What it has cost so far; null until an answer begins. */
  readonly progress: { held: HeldCall; spent: bigint } | null
  readonly actor?: Pick<Actor, 'key_hash'>
  /** The calls that uses of its tools make. */
  readonly inner?: readonly (RunningCall & { readonly ending: object | null })[]
  /** Whether no provider has received its current step yet. */
  readonly isUnconnected?: boolean
  /** Ends it if it uses tools. */
  endLoop?(reason: GatewayError): void
}

/** The calls that run at this moment. */
export interface RunningCalls {
  readonly size: number
  readonly draining: boolean
  /** Lists a call and returns a function that removes it. */
  add(call: RunningCall): () => void
  /** Lists the calls that have begun to answer, and what each has cost so far. */
  listProgress(): { held: HeldCall; spent: bigint }[]
  /** Lists the calls themselves. */
  listRunning(): Iterable<RunningCall>
  /** Counts the calls that have no connection to a provider yet, or wait for the next one. */
  countUnconnected(): number
  /** Ends the calls of these keys that use tools, as all others end with their turn. */
  endLoops(isGone: (keyHash: string) => boolean, reason: GatewayError): void
  /**
   * Accepts no more calls, ends those that use tools, waits at most this many milliseconds for the
   * other running ones, and then cancels the rest.
   */
  drain(milliseconds: number): Promise<void>
}

/**
 * How long a cancelled call may take to be counted and recorded and to send its error, in
 * milliseconds.
 */
const GRACE = COUNT_TIMEOUT_MS + 1_000

const shuttingDown = () => new GatewayError('unavailable', 'The gateway is shutting down')

const listProgress = ({
  progress,
  inner = [],
}: RunningCall): NonNullable<RunningCall['progress']>[] => [
  ...(progress ? [progress] : []),
  ...inner.flatMap(listProgress),
]

// A function that calls itself only for tools that ask models: most calls have none.
function countUnconnected({ isUnconnected, inner }: RunningCall): number {
  let count = isUnconnected ? 1 : 0
  for (const run of inner ?? []) if (!run.ending) count += countUnconnected(run)
  return count
}

/** Creates an empty list of running calls. Those that are read on are cut when it is drained. */
export function createRunningCalls(readOns = new ReadOns()): RunningCalls {
  const running = new LiveSet<RunningCall>()
  let draining = false
  let emptied: (() => void) | undefined

  const endAll = () => {
    for (const { cancellation } of running) cancellation.cancel(shuttingDown())
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
    listProgress() {
      return [...running].flatMap(listProgress)
    },
    listRunning: () => running,
    countUnconnected() {
      let count = 0
      for (const call of running) count += countUnconnected(call)
      return count
    },
    endLoops(isGone, reason) {
      for (const call of running) {
        const hash = call.actor?.key_hash ?? null
        if (hash !== null && isGone(hash)) call.endLoop?.(reason)
      }
    },
    async drain(milliseconds) {
      draining = true
      readOns.cutAll()
      // They may take many more turns, and tools that run may take long.
      for (const call of running) call.endLoop?.(shuttingDown())
      if (running.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      emptied = resolve
      const timer = setTimeout(endAll, milliseconds)
      await Promise.race([promise, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(timer)
    },
  }
}
