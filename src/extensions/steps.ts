import { GatewayError } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import { recheckRun } from '../engine/admit.ts'
import { clientLeft, type OpenedAnswer, type Run, Step, type Turns } from '../engine/run.ts'
import { forgetEntries, recordStep, settleStep } from '../engine/settle.ts'
import { runStages } from '../engine/stages.ts'
import { createTree } from '../engine/tree.ts'
import type { TextCall } from '../language/call.ts'
import type { TextPart } from '../language/part.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { filterAddedContent } from './filters.ts'
import { listPluginUses, type PluginUse } from './plugin.ts'
import { findLoop, type ToolLoop } from './server-tool/loop.ts'
import { UsesRun } from './server-tool/uses.ts'
import type { ToolWorld } from './server-tool.ts'

/** The most steps that a call takes, whatever its plugins ask for. */
const MAX_STEPS = 100

/**
 * Chains the answers of a run's steps into one; null for a run that takes one step only. After each
 * step the gateway's own tools run, if the model called any; then the plugins that may ask for
 * another step are asked for the next call, and the first that returns one is followed.
 */
export function chainSteps<K extends Kind>(
  world: ToolWorld,
  answer: OpenedAnswer<K>,
  turns: Turns<K>,
): PeekedSequence<AnswerPart<K>[]> | null {
  const followUps = listPluginUses(world, turns.run.call).filter(({ plugin }) => plugin.around)
  const isChained = followUps.length > 0 || turns.run.toolLoop !== null
  return isChained ? openChain(world, answer, { ...turns, followUps }) : null
}

/** Chains the answers of a run's steps into one, and has its meters read them. */
export function openChain<K extends Kind>(
  world: ToolWorld,
  { first, rest }: OpenedAnswer<K>,
  options: ChainOptions<K>,
): PeekedSequence<AnswerPart<K>[]> {
  const chain = new StepChain(world, rest, options)
  const batch = chain.readBatch(first)
  const opened = findLoop(options.run)?.open(batch as TextPart[])
  return { first: (opened as AnswerPart<K>[] | undefined) ?? batch, rest: chain }
}

/** The options of a chain. */
interface ChainOptions<K extends Kind> extends Turns<K> {
  /** The plugins that may ask for another step. */
  followUps: PluginUse[]
}

class StepChain<K extends Kind> implements AsyncIterator<AnswerPart<K>[]> {
  readonly #world: ToolWorld
  readonly #run: Run<K>
  readonly #followUps: PluginUse[]
  readonly #startMetering: (step: Step<K>) => OpenedAnswer<K>
  #rest: AsyncIterator<AnswerPart<K>[]> | null
  /** The uses of tools that the last answer asked for, until their results have been read. */
  #uses: UsesRun | null = null
  /**
   * The parts that end the answer of a step: held back until it is known whether another follows.
   */
  #endingParts: AnswerPart<K>[] = []
  #isEnded = false

  constructor(
    world: ToolWorld,
    rest: AsyncIterator<AnswerPart<K>[]> | null,
    { run, followUps, startMetering }: ChainOptions<K>,
  ) {
    this.#world = world
    this.#run = run
    this.#followUps = followUps
    this.#rest = rest
    this.#startMetering = startMetering
  }

  /** Counts a batch of the current step and returns it without the parts that end it. */
  readBatch(batch: AnswerPart<K>[]): AnswerPart<K>[] {
    this.#run.step?.meter?.read(batch)
    const isFirst = this.#run.steps.length === 1
    return this.#readTurn(batch).filter(part => {
      if (part.type !== 'finish' && part.type !== 'usage') return isFirst || part.type !== 'start'
      this.#endingParts.push(part)
      return false
    })
  }

  async next(): Promise<IteratorResult<AnswerPart<K>[]>> {
    if (this.#isEnded) return { done: true, value: undefined }
    const read = await this.#rest?.next()
    if (read && !read.done) return { done: false, value: this.readBatch(read.value) }
    this.#rest = null
    const shown = await this.#readUses()
    if (this.#isEnded) return { done: true, value: undefined }
    if (shown) return { done: false, value: shown }
    const next = this.#takeLoopCall()
    const call = (next && (await next)) ?? (await this.#findNextCall())
    // The client left while a plugin was deciding: the call is already recorded and takes no more
    // steps.
    if (this.#isEnded) return { done: true, value: undefined }
    if (call) return { done: false, value: await this.#takeNextStep(call) }
    this.#isEnded = true
    return { done: false, value: this.#renderEnding() }
  }

  async return(): Promise<IteratorResult<AnswerPart<K>[]>> {
    this.#isEnded = true
    // A pending step ends first: no provider is called for a run that is over. So do tools.
    if (this.#run.pendingStep) this.#run.cancellation.cancel(clientLeft())
    await this.#run.pendingStep
    await this.#rest?.return?.()
    return { done: true, value: undefined }
  }

  get #loop(): ToolLoop | null {
    return findLoop(this.#run)
  }

  // Tools are called in texts only.
  #readTurn(batch: AnswerPart<K>[]): AnswerPart<K>[] {
    return this.#loop ? (this.#loop.read(batch as TextPart[]) as AnswerPart<K>[]) : batch
  }

  /**
   * Runs the tools that the last answer called and returns the next part of what they show; null if
   * there is none. The answer is settled first, since conditions depend on its cost.
   */
  async #readUses(): Promise<AnswerPart<K>[] | null> {
    const { step } = this.#run
    if (!this.#loop || !step) return null
    if (!this.#uses) {
      const uses = this.#loop.prepareUses(this.#world, step)
      if (uses.length === 0) return null
      this.#uses = new UsesRun(this.#world, this.#run, this.#loop, uses)
      const settled = endStep(this.#world, this.#run, step)
      this.#run.pendingStep = settled.catch(() => undefined)
      await settled
      if (this.#isEnded) return null
    }
    const shown = await this.#uses.next()
    if (!shown) this.#uses = null
    return shown as AnswerPart<K>[] | null
  }

  #takeLoopCall(): Work[K]['call'] | null | Promise<Work[K]['call'] | null> {
    const { step } = this.#run
    if (!this.#loop || !step) return null
    const call = this.#loop.takeNextCall(this.#world, this.#run, step.call as TextCall)
    // What is taken for it is given back when the run ends, which waits for it.
    if (call instanceof Promise) this.#run.pendingStep = call.then(doNothing, doNothing)
    return call as Work[K]['call'] | null | Promise<Work[K]['call']>
  }

  #renderEnding(): AnswerPart<K>[] {
    return this.#loop
      ? (this.#loop.renderEnding(this.#endingParts as TextPart[]) as AnswerPart<K>[])
      : this.#endingParts
  }

  async #findNextCall(): Promise<Work[K]['call'] | null> {
    const { step, steps } = this.#run
    if (!step || steps.length >= MAX_STEPS) return null
    for (const { plugin, options } of this.#followUps) {
      if (this.#isEnded) return null
      const call = await plugin.around?.(this.#world, step, options)
      if (call) return call as Work[K]['call']
    }
    return null
  }

  /** Takes another step and returns the first batch of its answer. */
  async #takeNextStep(call: Work[K]['call']): Promise<AnswerPart<K>[]> {
    this.#endingParts = []
    this.#rest = null
    this.#loop?.beginTurn()
    const taken = takeStep(this.#world, this.#run, call).then(this.#startMetering)
    this.#run.pendingStep = taken.then(
      ({ rest }) => {
        this.#rest = rest
      },
      () => undefined,
    )
    const { first } = await taken
    this.#run.pendingStep = null
    return this.readBatch(first)
  }
}

/**
 * Settles the answered step and takes the next. The charge of the answered step is on disk before
 * another endpoint is tried. Throws 401 for a key that is no longer valid, 402 if a limit has not
 * enough left, and what its attempts throw.
 */
async function takeStep<K extends Kind>(
  world: ToolWorld,
  run: Run<K>,
  call: Work[K]['call'],
): Promise<Step<K>> {
  const { step } = run
  if (!step) throw new GatewayError('server', 'Internal Server Error')
  if (!step.receipt) await endStep(world, run, step)
  if (run.cancellation.reason) throw run.cancellation.reason
  recheckRun(world, run)
  run.tree ??= createTree(world, run)
  const next = new Step(run, (await filterAddedContent(run, step.call, call)) as Work[K]['call'])
  next.startedAt = world.clock.ticks()
  await runStages(world, world.stages.step, next)
  // A call within another one stays in the journal until the turn after it: it has no record.
  if (next.journalEntry && !run.within) forgetEntries(run, next)
  return next
}

/** Settles an answered step of a run that goes on, and charges it on disk. */
async function endStep<K extends Kind>(
  world: ToolWorld,
  run: Run<K>,
  step: Step<K>,
): Promise<void> {
  const ending = { error: null, endedAt: world.clock.ticks(), cancelled: false }
  await settleStep(world, step, ending)
  step.endedAt = ending.endedAt
  await recordStep(world, step)
  if (run.cancellation.reason) throw run.cancellation.reason
}

const doNothing = () => undefined
