import { type Clock, isLongTurn, yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import {
  type CallFacts,
  type RollupReader,
  rollUp,
  type SumDimension,
  type SumQuery,
  type SumRow,
  toDay,
} from '../rollups.ts'

/** What reads roll-ups needs from the gateway. */
export interface ReadingWorld extends RollupReader {
  clock: Clock
  config: { timeouts: { query_seconds: number } }
}

/** How many calls are read at once: others get their turn between. */
const AT_ONCE = 1_000
/** How many hours or days are summed at once. */
const GRAINS_AT_ONCE = { hour: 4, day: 1 }

/**
 * One reading of roll-ups and records. It gives others their turn, and ends with 408 when it takes
 * longer than it may: as long as the config says, unless `seconds` says otherwise.
 */
export class Reading {
  readonly #world: ReadingWorld
  readonly #startedAt: number
  readonly #seconds: number
  #turnStartedAt: number

  constructor(world: ReadingWorld, seconds = world.config.timeouts.query_seconds) {
    this.#world = world
    this.#seconds = seconds
    this.#startedAt = world.clock.ticks()
    this.#turnStartedAt = this.#startedAt
  }

  /** The milliseconds that it has taken. */
  get elapsed(): number {
    return this.#world.clock.ticks() - this.#startedAt
  }

  /** Adds to the roll-ups what they do not have yet. Throws 408. */
  async rollUp(): Promise<void> {
    await this.#begin()
    await rollUp(this.#world, () => this.#checkTime())
  }

  /** Yields the sums of a query, a piece at a time. Throws 408. */
  async *readSums(query: SumQuery): AsyncGenerator<SumRow> {
    const step = GRAINS_AT_ONCE[query.grain]
    for (let from = query.from; from < query.until; from += step) {
      const until = Math.min(from + step, query.until)
      yield* await this.#world.store.rollups.sum({ ...query, from, until })
      await this.#takeTurns()
    }
  }

  /** Lists what all calls have of some dimensions. */
  async readAll(by: SumDimension[]): Promise<SumRow[]> {
    const { rollups } = this.#world.store
    await this.#begin()
    const hours = await rollups.findHours()
    if (!hours) return []
    const [from, until] = [toDay(hours.first), toDay(hours.last) + 1]
    return rollups.sum({ grain: 'day', from, until, by, isByTime: false, conditions: [] })
  }

  /** Yields the calls that were settled in these hours. Throws 408. */
  async *readCalls(from: number, until: number): AsyncGenerator<CallFacts[]> {
    const { rollups } = this.#world.store
    const found = await rollups.findRows(from, until)
    for (let after = (found?.first ?? 0) - 1; found && after < found.last; ) {
      const calls = await rollups.listCalls(after, found.last, AT_ONCE)
      const last = calls.at(-1)
      if (!last) return
      yield calls
      after = last.row
      await this.#takeTurns()
    }
  }

  async #takeTurns(): Promise<void> {
    this.#checkTime()
    if (isLongTurn(this.#world.clock, this.#turnStartedAt)) await this.#begin()
  }

  // Readings have one turn after the other: of twenty at once, others wait no longer than for one.
  async #begin(): Promise<void> {
    await yieldToEventLoop()
    this.#turnStartedAt = this.#world.clock.ticks()
  }

  #checkTime(): void {
    if (this.elapsed <= this.#seconds * 1_000) return
    throw new GatewayError(
      'timeout',
      `The query took longer than ${this.#seconds} s. A shorter time or fewer dimensions take less.`,
      { status: 408 },
    )
  }
}
