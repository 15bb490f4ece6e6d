import { GatewayError } from '../base/errors.ts'
import {
  type PeekedSequence,
  type Sequence,
  type SequenceEnding,
  toSequence,
} from '../base/iterate.ts'
import type { Answer } from '../language/answer.ts'
import type { CallBase } from '../language/call.ts'
import type { CommonPart, ReceiptPart, TextPart } from '../language/part.ts'
import { countOutputTokens, createTextUsage, type Receipt, sumCosts } from '../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { getPolicy } from '../limits/effective.ts'
import type { BatchResult } from '../observability/generations/store.ts'
import type { Actor } from '../resources/actor.ts'
import { computeCost } from '../resources/prices.ts'
import { getTokenizerFamily } from '../translation/tokenizers/families.ts'
import { exposeReason, filterReason } from './attempt/reason.ts'
import { chainTurns, readThrough, watchRun } from './extension.ts'
import { GatheredMemory } from './gathered-memory.ts'
import { kinds } from './kinds.ts'
import { findStepCandidates } from './plan.ts'
import { estimatePromptNanos, getEffectiveCall } from './reserve.ts'
import { addRoutingToError, renderRouting } from './routing-metadata.ts'
import {
  clientLeft,
  hasDestinations,
  isAbandoned,
  isDeparture,
  type OpenedAnswer,
  Run,
  Step,
} from './run.ts'
import { startTranscript } from './settle/transcript.ts'
import { findAnsweredStep, getRunReceipt } from './settle.ts'
import { runStages, runToPause, type StagedWorld } from './stages.ts'
import type { InferenceWorld } from './world.ts'

/** Renders what came of a call from its answer; null where nothing is to be kept. Never throws. */
export type KeepResult<K extends Kind> = (answer: Answer<K>) => Promise<BatchResult | null>

/**
 * Runs one call through the stages of `stages.ts`, in their order. Every inference endpoint calls
 * it. What `keep` returns is written in the transaction of its record.
 */
export async function infer<K extends Kind>(
  world: StagedWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
  keep?: KeepResult<K>,
): Promise<Answer<K>> {
  const run = startRun(world, actor, kind, call)
  try {
    // Before the stages: one of them may fetch what the call refers to.
    if (!kinds[kind].beginsJob) run.follow(signal)
    if (run.policy.contentShare) startTranscript(world, run)
    const opening = runStages(world, world.stages.open, run)
    if (opening) await opening
    if (run.blocked) throw run.blocked
    const step = new Step(run, run.call)
    const stages = world.stages.step
    let pause = runToPause(world, stages, step)
    for (; pause; pause = runToPause(world, stages, step, pause)) await pause.pending
    const answer = createRunAnswer(world, run, step)
    return keep ? keepResult(run, answer, keep) : answer
  } catch (thrown) {
    throw await closeUnansweredRun(world, run, thrown)
  }
}

/** Creates the run of this call. Nothing has happened to it yet. */
export const startRun = <K extends Kind>(
  world: StagedWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  isDry = false,
): Run<K> =>
  new Run({
    actor,
    kind,
    call,
    isDry,
    policy: getPolicy(world, actor),
    created: world.clock.now(),
    startedAt: world.clock.ticks(),
  })

/**
 * Ends a run without an answer and returns the error as its caller may see it. Never throws. A call
 * that is refused before it is sent leaves no record.
 */
async function closeUnansweredRun<K extends Kind>(
  world: StagedWorld,
  run: Run<K>,
  thrown: unknown,
): Promise<unknown> {
  if (!run.needsRecord) {
    run.release(world.traffic.counters)
    return run.step?.candidates ? addRoutingToError(GatewayError.from(thrown), run) : thrown
  }
  const error = GatewayError.from(thrown)
  if (run.blocked && run.call.routingMetadata) planBlockedRun(world, run)
  await closeRun(world, run, error)
  return addRoutingToError(
    error.with({ isRecorded: true, isPaid: isPaid(getRunReceipt(run)) }),
    run,
  )
}

/**
 * Finds the endpoints that would have served a blocked call. Never throws: the reason for the
 * refusal is already known.
 */
function planBlockedRun<K extends Kind>(world: StagedWorld, run: Run<K>): void {
  const step = new Step(run, run.call)
  try {
    step.candidates = findStepCandidates(world, step)
  } catch {
    step.candidates = null
  }
}

/**
 * Creates the answer of a run whose first step has one, with its meter running. At its end the cost
 * is computed and the call recorded. Only then comes the last batch, with the receipt: a client
 * that has read it can rely on the record being on disk.
 */
export function createRunAnswer<K extends Kind>(
  world: StagedWorld,
  run: Run<K>,
  step: Step<K>,
): Answer<K> {
  const firstAnswer = startMetering(world, step)
  const { endpoint } = firstAnswer
  const isExtended = run.extensions.length > 0
  const turns = isExtended ? takeTurns(world, run, firstAnswer) : null
  const chained = turns ?? firstAnswer
  const meter = turns ? null : step.meter
  const filtered = isExtended ? readThrough(world, run, chained, batch => meter?.read(batch)) : null
  const watcher = hasDestinations(world) ? watchRun(world, run as unknown as Run) : null
  run.watcher = watcher
  const parts = withCleanup<AnswerPart<K>[]>(filtered ?? chained, {
    onItem: batch => {
      if (!filtered) meter?.read(batch)
      run.transcript?.read(batch)
      watcher?.read(batch)
    },
    onEnd: ending => endAnswer(world, run, ending),
  })
  const { rest } = firstAnswer
  const { stream, isGathered: isHeld }: CallBase = run.call
  const isGathered = rest && (!stream || isHeld || turns || run.transcript || watcher)
  const created = Math.floor(run.created.getTime() / 1000)
  const answer: Answer<K> = {
    id: run.call.id,
    model: endpoint.model,
    provider: endpoint.provider.name,
    created,
    parts: isGathered ? countGathered(world, run, parts) : parts,
  }
  if (!rest) answer.isWhole = true
  if (firstAnswer.ignored) answer.ignored = firstAnswer.ignored
  if (firstAnswer.maxTokens !== undefined) answer.maxTokens = firstAnswer.maxTokens
  if (run.rateGrant) answer.isRated = true
  return answer
}

const takeTurns = <K extends Kind>(
  world: StagedWorld,
  run: Run<K>,
  answer: OpenedAnswer<K>,
): PeekedSequence<AnswerPart<K>[]> | null =>
  chainTurns(world, answer, { run, startMetering: step => startMetering(world, step) })

/**
 * Reads an answer to its end: what is to be kept of it is rendered when all but its record is there.
 */
async function keepResult<K extends Kind>(
  run: Run<K>,
  answer: Answer<K>,
  keep: KeepResult<K>,
): Promise<Answer<K>> {
  const batches: AnswerPart<K>[][] = []
  run.renderResult = () => {
    const end = renderEnd(run as unknown as Run, run.ending?.error ?? null)
    return keep({ ...answer, parts: toSequence([...batches, end]) })
  }
  for await (const batch of answer.parts) batches.push(batch)
  return { ...answer, parts: toSequence(batches) }
}

const countGathered = <K extends Kind>(
  { traffic }: StagedWorld,
  run: Run<K>,
  parts: Sequence<AnswerPart<K>[]>,
): Sequence<AnswerPart<K>[]> =>
  new GatheredMemory(
    traffic.admission,
    { key: run.actor.key_hash ?? run.actor.kind, call: run },
    parts,
  )

/** Lists what was left out for the endpoints that have answered: each name once. */
const listIgnored = ({ steps }: Run): string[] => [
  ...new Set(steps.flatMap(({ answer }) => answer?.ignored ?? [])),
]

/** Starts to count the answer of a step and returns that answer: as long as a limit pays for it. */
export function startMetering<K extends Kind>(world: StagedWorld, step: Step<K>) {
  const { answer, run, plan } = step
  if (!answer) throw new GatewayError('server', 'Internal Server Error')
  // What the model got, not what the client sent: plugins may have added to it, or left out of it.
  const call = getEffectiveCall(plan?.models ?? [], step.call, answer.endpoint)
  const meter = kinds[run.kind].metering.startMeter(call)
  const { prices } = answer.endpoint
  step.meter = meter
  if (kinds[run.kind].beginsJob) return answer
  // The estimated prompt with the price of a request, and what was delivered by a rule of thumb.
  step.spentSoFar = () =>
    estimatePromptNanos(run.kind, call, answer.endpoint) +
    (computeCost(createTextUsage(0, meter.tokensSoFar), prices).cost_details?.completion ?? 0n)
  if (run.kind !== 'text' || run.policy.bounds.length === 0 || !answer.rest) return answer
  return cutAtHold(world, step as never, answer as never) as unknown as OpenedAnswer<K>
}

/**
 * Ends a run and returns the error that its caller must see, also if recording fails. Never throws.
 */
export async function closeRun<K extends Kind>(
  world: StagedWorld,
  run: Run<K>,
  error: GatewayError | null,
): Promise<GatewayError | null> {
  noteEnd(world, run, error)
  try {
    await runStages(world, world.stages.close, run)
    return error
  } catch (thrown) {
    return error ?? GatewayError.from(thrown)
  }
}

/** Notes how a run ended, before its cost is computed: what happens meanwhile is not part of it. */
function noteEnd<K extends Kind>(
  { clock }: StagedWorld,
  run: Run<K>,
  error: GatewayError | null,
): void {
  const cancelled = isAbandoned(run) || (error !== null && isDeparture(error))
  run.ending = { error, endedAt: clock.ticks(), cancelled }
}

async function endAnswer<K extends Kind>(
  world: StagedWorld,
  run: Run<K>,
  ending: SequenceEnding,
): Promise<CommonPart[]> {
  if (run.pendingStep) await run.pendingStep
  const found = findRunError(run, ending)
  let error = found && (await filterReason(run, found))
  const stages = world.stages.close
  noteEnd(world, run, error)
  try {
    let pause = runToPause(world, stages, run)
    for (; pause; pause = runToPause(world, stages, run, pause)) await pause.pending
  } catch (thrown) {
    error ??= GatewayError.from(thrown)
  }
  return renderEnd(run as unknown as Run, error)
}

/** Renders the last parts of a run that has ended. */
function renderEnd(run: Run, error: GatewayError | null): CommonPart[] {
  const receipt = getRunReceipt(run)
  const failure = error && exposeReason(error).with({ isPaid: isPaid(receipt) })
  const last: ReceiptPart = {
    type: 'receipt',
    receipt,
    ended: computeEnd(run),
    siblingFields: run.call.routingMetadata && renderAnsweredRouting(run, failure),
  }
  if (run.call.isGathered && isShortened(run)) last.isShortened = true
  return buildLastParts(last, failure)
}

/** Tells whether less was answered than asked for, as limits of money or calls left nothing for more. */
const isShortened = ({ steps, tree }: Run): boolean =>
  steps.some(isStepShortened) || (tree?.endedBy != null && !OWN_BOUNDS.includes(tree.endedBy))

const isStepShortened = ({ answer, meter, isCut }: Step): boolean =>
  isCut || (answer?.maxTokens !== undefined && meter?.finish?.reason === 'length')

/** What a call itself ends its tools by. */
const OWN_BOUNDS = ['max_cost', 'max_tokens_used']

/** Whether someone pays for a call, though it failed: its caller, here or at their provider. */
const isPaid = ({ cost, cost_details }: Receipt): boolean =>
  (cost ?? 0n) > 0n || (cost_details !== null && sumCosts(cost_details) > 0n)

/** Computes when a run ended, in Unix seconds. */
const computeEnd = ({ created, startedAt, ending }: Run): number =>
  Math.floor((created.getTime() + (ending?.endedAt ?? startedAt) - startedAt) / 1000)

function findRunError(run: Run, ending: SequenceEnding): GatewayError | null {
  if (ending.type === 'completed') return null
  if (ending.type === 'abandoned' || isAbandoned(run)) return clientLeft()
  return GatewayError.from(ending.thrown)
}

function renderAnsweredRouting(
  run: Run,
  failure: GatewayError | null,
): Record<string, unknown> | undefined {
  const step = findAnsweredStep(run)
  if (!step?.answer || !run.ending) return undefined
  const { endpoint, sentAt } = step.answer
  const isGood = !failure && step.meter?.finish?.reason !== 'error'
  return renderRouting(run, {
    endpoint,
    isGood,
    error: failure,
    ignored: listIgnored(run),
    generation_time: run.ending.endedAt - sentAt,
  })
}

/** Returns the last parts of an answer: its failure, if it has one, and its receipt. */
function buildLastParts(last: ReceiptPart, failure: GatewayError | null): CommonPart[] {
  const { siblingFields } = last
  if (!failure) return [last]
  return [{ type: 'error', error: siblingFields ? failure.with({ siblingFields }) : failure }, last]
}

/** Functions that are called while a sequence is read. */
interface IterationHooks<T> {
  /** Called with each item as it passes. */
  onItem(item: T): void
  /** Called once, however the sequence ended. May add a last item if it is still being read. */
  onEnd(ending: SequenceEnding): Promise<T | undefined>
}

/** Returns the sequence with hooks that see each item and its end, even if it is never read. */
export const withCleanup = <T>(peeked: PeekedSequence<T>, hooks: IterationHooks<T>): Sequence<T> =>
  new CleanupIterator(peeked, hooks)

// Not a generator: one that is abandoned before its first step never runs its `finally`. The
// upstream would stay open and the call unsettled. Here leaving early, even before reading, closes
// the source and calls `onEnd`.
class CleanupIterator<T> implements Sequence<T> {
  #peeked: PeekedSequence<T> | null
  readonly #rest: AsyncIterator<T> | null
  readonly #hooks: IterationHooks<T>
  #isOver = false
  /** What `onEnd` returned; null before. */
  #end: Promise<T | undefined> | null = null

  constructor(opened: PeekedSequence<T>, watcher: IterationHooks<T>) {
    this.#peeked = opened
    this.#rest = opened.rest
    this.#hooks = watcher
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  // Not async: each part of a stream passes here, and one promise for each is enough.
  next(): Promise<IteratorResult<T>> {
    if (this.#isOver) return Promise.resolve(END)
    const first = this.#peeked && this.#takeFirst(this.#peeked)
    if (first) return Promise.resolve(this.#pass(first))
    if (!this.#rest) return Promise.resolve(this.#pass(END))
    return this.#rest.next().then(this.#pass, this.#fail)
  }

  readonly #pass = (step: IteratorResult<T>): IteratorResult<T> | Promise<IteratorResult<T>> => {
    // The reader left during the wait: `return` has called `onEnd`.
    if (this.#isOver) return END
    if (step.done) return this.#finish({ type: 'completed' })
    try {
      this.#hooks.onItem(step.value)
      return step
    } catch (thrown) {
      return this.#finish({ type: 'failed', thrown })
    }
  }

  readonly #fail = (thrown: unknown): IteratorResult<T> | Promise<IteratorResult<T>> =>
    this.#isOver ? END : this.#finish({ type: 'failed', thrown })

  // Who leaves while a failure is being handled waits for that, too: after `return` all is done.
  async return(): Promise<IteratorResult<T>> {
    if (this.#isOver) {
      await this.#end?.catch(() => undefined)
      return END
    }
    this.#isOver = true
    const closed = this.#rest?.return?.()
    this.#end = this.#hooks.onEnd({ type: 'abandoned' })
    await Promise.all([closed, this.#end])
    return END
  }

  collect(): Promise<T[]> {
    return this.#peeked && !this.#rest && !this.#isOver
      ? this.#collectWhole(this.#peeked.first)
      : this.#collectEach()
  }

  async #collectEach(): Promise<T[]> {
    const items: T[] = []
    for (let step = await this.next(); !step.done; step = await this.next()) items.push(step.value)
    return items
  }

  // An answer of one item needs no iteration.
  async #collectWhole(only: T): Promise<T[]> {
    this.#peeked = null
    this.#isOver = true
    let ending: SequenceEnding = { type: 'completed' }
    try {
      this.#hooks.onItem(only)
    } catch (thrown) {
      ending = { type: 'failed', thrown }
    }
    const items = ending.type === 'completed' ? [only] : []
    const last = await this.#hooks.onEnd(ending)
    return last === undefined ? items : [...items, last]
  }

  #takeFirst({ first }: PeekedSequence<T>): IteratorResult<T> {
    this.#peeked = null
    return { done: false, value: first }
  }

  async #finish(ending: SequenceEnding): Promise<IteratorResult<T>> {
    this.#isOver = true
    this.#end = this.#hooks.onEnd(ending)
    const last = await this.#end
    return last === undefined ? END : { done: false, value: last }
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }

/** How much more an answer may have than was set aside for it: counts of our own are estimates. */
const TOLERANCE = { factor: 1.5, tokens: 32 }

/** By how much an answer has to grow until it is counted again. */
const GROWTH = 1.25

/**
 * Returns a streamed answer that ends where the money ends that a limit has let be set aside for it:
 * a provider that does not keep to the bound it was sent is read no further. Others end before.
 */
function cutAtHold(
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
