import { unavailable } from '../../base/errors.ts'
import type { Amounts, Bound, CostEstimate, Hold, Payer } from '../../limits/ledger.ts'
import type { RecorderEntry } from '../../observability/generations/store.ts'
import type { Gateway } from '../gateway.ts'
import { recoverBefore } from './before.ts'
import type { Channel } from './channel.ts'
import { takeContainers } from './containers.ts'
import { takeCounts } from './counts.ts'
import { takeKeptCalls } from './kept-calls.ts'
import type { Handed } from './predecessor.ts'

/** What is kept in memory, so that it is read again after a change of it. */
const KEPT = new Set([
  ...['keys', 'byok', 'workspaces', 'members', 'scim', 'budgets', 'presets', 'credits'],
  ...['guardrails', 'assignments', 'destinations'],
])

/** Methods that only read, by their names. */
const READS = /^(all|by|list|filter|find|count|compute|read|has)/

/** In milliseconds: how long a new process may be slow, while its code is compiled. */
const COLD = 20_000

/** In milliseconds, between two looks whether a server that was cut off has ended. */
const PAUSE = 100

/**
 * The side of a handover that comes. It keeps the books for both: what calls of the server before it
 * set aside is held here, and settled when its record is on disk.
 */
export class Successor {
  readonly #gateway: Gateway
  readonly #channel: Channel
  readonly #data: string
  readonly #holds = new Map<number, Hold>()
  readonly #over = Promise.withResolvers<void>()
  #isOver = false
  /** Resolves when the server before has ended, with how many of its calls were recovered. */
  readonly ended: Promise<number>

  /** Takes over what the other server had in memory, and answers it from now on. */
  constructor(gateway: Gateway, channel: Channel, data: string, handed: Handed) {
    this.#gateway = gateway
    this.#channel = channel
    this.#data = data
    for (const { id, payer, amounts } of handed.holds)
      this.#reserve(id, payer, { maximum: amounts, minimum: amounts }, [])
    gateway.traffic.admission.bePatient(COLD)
    gateway.traffic.counters.importCounts(handed.windows)
    channel.answer({
      ...takeCounts(gateway, channel),
      ...takeKeptCalls(gateway, channel),
      ...takeContainers(gateway, channel),
      reserve: (id: number, payer: Payer, estimate: CostEstimate, bounds: Bound[]) =>
        this.#keepKnown(payer, () => this.#reserve(id, payer, estimate, bounds)),
      release: (id: number) => this.#release(id),
      record: (entry: RecorderEntry, hold: number | null) => this.#record(entry, hold),
      store: (noun: string, method: string, parameters: unknown[]) =>
        this.#runMethod(noun, method, parameters),
      end: () => this.#end(),
    })
    this.ended = this.#watchEnd()
  }

  #reserve(id: number, payer: Payer, estimate: CostEstimate, bounds: Bound[]): Amounts {
    const hold = this.#gateway.ledger.reserve(payer, estimate, bounds)
    this.#holds.set(id, hold)
    return hold.amounts
  }

  #release(id: number): void {
    const hold = this.#holds.get(id)
    this.#holds.delete(id)
    if (hold) this.#gateway.ledger.release(hold)
  }

  async #record(entry: RecorderEntry, id: number | null): Promise<void> {
    const { ledger, recorder } = this.#gateway
    const { charge } = entry
    const hold = id === null ? undefined : this.#holds.get(id)
    if (!charge) return recorder.record(entry)
    await this.#keepKnown(charge, async () => {
      await recorder.record(entry)
      if (hold) ledger.settle(hold, charge)
      else ledger.charge(charge)
    })
    if (id !== null) this.#holds.delete(id)
  }

  /** Does something while it is known what the subaccounts of a payer have spent. */
  async #keepKnown<Result>(
    { subaccounts = [] }: Payer,
    run: () => Result | Promise<Result>,
  ): Promise<Result> {
    const close = await this.#gateway.ledger.openSubaccounts(subaccounts)
    try {
      return await run()
    } finally {
      close()
    }
  }

  async #runMethod(noun: string, method: string, parameters: unknown[]): Promise<unknown> {
    const { store, videos, events } = this.#gateway
    const part = (store as unknown as Record<string, Record<string, unknown>>)[noun]
    const run = part && Object.hasOwn(store, noun) ? part[method] : undefined
    if (typeof run !== 'function') throw unavailable(`The store has no ${noun}.${method} any more`)
    const result = await run.apply(part, parameters)
    if (READS.test(method)) return result
    if (noun === 'videos') await videos.load()
    if (noun === 'videos') events.publish('store.reloaded', {})
    else if (KEPT.has(noun)) await this.#gateway.refresh()
    return result
  }

  #end(): void {
    this.#isOver = true
    this.#releaseAll()
    this.#over.resolve()
  }

  async #watchEnd(): Promise<number> {
    await Promise.race([this.#channel.closed, this.#over.promise])
    if (this.#isOver) return 0
    for (;;) {
      const recovery = await recoverBefore(this.#gateway, this.#data)
      if (recovery) {
        this.#releaseAll()
        return recovery.calls
      }
      await Bun.sleep(PAUSE)
    }
  }

  #releaseAll(): void {
    for (const hold of this.#holds.values()) this.#gateway.ledger.release(hold)
    this.#holds.clear()
  }
}
