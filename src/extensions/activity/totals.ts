import { toUsd } from '../../base/money.ts'
import type { Generation } from '../../observability/generations/store.ts'
import { getCallStatus } from '../../observability/generations.ts'
import type { State } from './entries.ts'

/** How many times to the first part are kept between two entries. */
const MOST_SAMPLES = 1_000

type Counted = Pick<
  State,
  | 'milliseconds'
  | 'finished'
  | 'failed'
  | 'refused'
  | 'tokens_prompt'
  | 'tokens_completion'
  | 'cost'
  | 'first_part_p50'
  | 'first_part_p95'
>

/** What the calls since the last `take` came to. */
export class Totals {
  #since: number
  #finished = 0
  #failed = 0
  #refused = 0
  #prompt = 0
  #completion = 0
  #nanos = 0n
  #latencies: number[] = []

  /** Takes the time in steady milliseconds. */
  constructor(now: number) {
    this.#since = now
  }

  count(call: Generation): void {
    this.#finished += 1
    if (getCallStatus(call) >= 400) this.#failed += 1
    this.#prompt += call.native_tokens_prompt
    this.#completion += call.native_tokens_completion
    this.#nanos += call.total_cost ?? 0n
    if (call.latency !== null && this.#latencies.length < MOST_SAMPLES)
      this.#latencies.push(call.latency)
  }

  countRefusals(count: number): void {
    this.#refused += count
  }

  /** Returns the sums, and begins again. */
  take(now: number): Counted {
    const latencies = this.#latencies.sort((a, b) => a - b)
    const counted = {
      milliseconds: Math.round(now - this.#since),
      finished: this.#finished,
      failed: this.#failed,
      refused: this.#refused,
      tokens_prompt: this.#prompt,
      tokens_completion: this.#completion,
      cost: toUsd(this.#nanos),
      first_part_p50: pickRank(latencies, 0.5),
      first_part_p95: pickRank(latencies, 0.95),
    }
    this.#since = now
    this.#finished = this.#failed = this.#refused = this.#prompt = this.#completion = 0
    this.#nanos = 0n
    this.#latencies = []
    return counted
  }
}

const pickRank = (sorted: number[], share: number): number | null =>
  sorted[Math.ceil(share * sorted.length) - 1] ?? null
