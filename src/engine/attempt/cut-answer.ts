import type { TextPart } from '../../language/part.ts'
import { countOutputTokens, createTextUsage } from '../../language/usage.ts'
import { computeCost } from '../../resources/prices.ts'
import { getTokenizerFamily } from '../../translation/tokenizers/families.ts'
import { estimatePromptNanos } from '../reserve.ts'
import type { OpenedAnswer, Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'

/** How much more an answer may have than was set aside for it: counts of our own are estimates. */
const TOLERANCE = { factor: 1.5, tokens: 32 }

/** By how much an answer has to grow until it is counted again. */
const GROWTH = 1.25

/**
 * Returns a streamed answer that ends where the money ends that a limit has let be set aside for it:
 * a provider that does not keep to the bound it was sent is read no further. Others end before.
 */
export function cutAtHold(
  world: InferenceWorld,
  step: Step<'text'>,
  answer: OpenedAnswer<'text'>,
): OpenedAnswer<'text'> {
  const most = findMostTokens(step, answer)
  const { rest } = answer
  return rest && most !== null
    ? { ...answer, rest: new CutAnswer(world, step, answer, most) }
    : answer
}

/** Finds how many tokens of output what is held pays for, and some more; null for any number. */
function findMostTokens(
  { call, grant, run }: Step<'text'>,
  { endpoint }: OpenedAnswer<'text'>,
): number | null {
  const amounts = run.policy.bounds.length > 0 ? grant?.hold?.amounts : undefined
  const held = endpoint.is_byok ? amounts?.byok : amounts?.own
  const million = computeCost(createTextUsage(0, 1_000_000), endpoint.prices).cost_details
  if (held == null || !million?.completion) return null
  const output = held - estimatePromptNanos('text', call, endpoint)
  const tokens = output > 0n ? Number((output * 1_000_000n) / million.completion) : 0
  return tokens * TOLERANCE.factor + TOLERANCE.tokens
}

class CutAnswer implements AsyncIterator<TextPart[]> {
  readonly #world: InferenceWorld
  readonly #step: Step<'text'>
  readonly #answer: OpenedAnswer<'text'>
  readonly #most: number
  /** The choices that have begun and not ended. */
  readonly #open = new Set<number>()
  #checkAt: number
  #isOver = false

  constructor(
    world: InferenceWorld,
    step: Step<'text'>,
    answer: OpenedAnswer<'text'>,
    most: number,
  ) {
    this.#world = world
    this.#step = step
    this.#answer = answer
    this.#most = most
    this.#checkAt = most
    this.#follow(answer.first)
  }

  async next(): Promise<IteratorResult<TextPart[]>> {
    if (this.#isOver) return { done: true, value: undefined }
    if (await this.#isTooLong()) return { done: false, value: await this.#cut() }
    const read = (await this.#answer.rest?.next()) ?? { done: true as const, value: undefined }
    if (!read.done) this.#follow(read.value as TextPart[])
    return read as IteratorResult<TextPart[]>
  }

  async return(): Promise<IteratorResult<TextPart[]>> {
    this.#isOver = true
    await this.#answer.rest?.return?.()
    return { done: true, value: undefined }
  }

  #follow(parts: readonly { type: string; choice?: number }[]): void {
    for (const { type, choice } of parts)
      if (choice === undefined) continue
      else if (type === 'finish') this.#open.delete(choice)
      else this.#open.add(choice)
  }

  /** Whether it has more than it may: by a rule of thumb first, which costs nothing. */
  async #isTooLong(): Promise<boolean> {
    const { meter } = this.#step
    const soFar = meter?.tokensSoFar ?? 0
    if (!meter || this.#open.size === 0 || soFar <= this.#checkAt) return false
    this.#checkAt = soFar * GROWTH
    const family = getTokenizerFamily(this.#answer.endpoint)
    const usage = await meter.estimate(texts => this.#world.tokenizers.count(family, texts))
    return countOutputTokens(usage) > this.#most
  }

  async #cut(): Promise<TextPart[]> {
    this.#step.isCut = true
    await this.return()
    this.#answer.leftover?.close()
    return [...this.#open].map(choice => ({
      ...{ type: 'finish' as const, choice, reason: 'length' as const, native: null },
    }))
  }
}
