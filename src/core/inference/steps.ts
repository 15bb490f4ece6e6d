import { GatewayError } from '../errors.ts'
import type { Opened } from '../kernel/iterate.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { recheckRun } from './admit.ts'
import type { Begun } from './attempt.ts'
import { filterAdded } from './filters.ts'
import type { PluginUse } from './plugin.ts'
import { clientLeft, type Run, Step } from './run.ts'
import { recordStep, settle } from './settle.ts'
import { walk } from './stages.ts'
import type { InferenceWorld } from './world.ts'

/** The most steps that a call takes, whatever its plugins ask for. */
const MOST_STEPS = 100

/**
 * Chains the answers of a run's steps into one. After each step the `followUps` are asked for the
 * next call; the first that returns one is followed.
 */
export function chainSteps<K extends Kind>(
  world: InferenceWorld,
  { first, rest }: Begun<K>,
  options: ChainOptions<K>,
): Opened<AnswerPart<K>[]> {
  const chain = new StepChain(world, rest, options)
  return { first: chain.pass(first), rest: chain }
}

/** The options of a chain. */
interface ChainOptions<K extends Kind> {
  run: Run<K>
  /** The plugins that may ask for another step. */
  loops: PluginUse[]
  /** Starts to count the answer of a step and returns it. */
  open: (step: Step<K>) => Begun<K>
}

class StepChain<K extends Kind> implements AsyncIterator<AnswerPart<K>[]> {
  readonly #world: InferenceWorld
  readonly #run: Run<K>
  readonly #loops: PluginUse[]
  readonly #open: (step: Step<K>) => Begun<K>
  #rest: AsyncIterator<AnswerPart<K>[]> | null
  /**
   * The parts that end the answer of a step: held back until it is known whether another follows.
   */
  #ending: AnswerPart<K>[] = []
  #isOver = false

  constructor(
    world: InferenceWorld,
    rest: AsyncIterator<AnswerPart<K>[]> | null,
    { run, loops, open }: ChainOptions<K>,
  ) {
    this.#world = world
    this.#run = run
    this.#loops = loops
    this.#rest = rest
    this.#open = open
  }

  /** Counts a batch of the current step and returns it without the parts that end it. */
  pass(batch: AnswerPart<K>[]): AnswerPart<K>[] {
    this.#run.step?.meter?.read(batch)
    const isFirst = this.#run.steps.length === 1
    return batch.filter(part => {
      if (part.type !== 'finish' && part.type !== 'usage') return isFirst || part.type !== 'start'
      this.#ending.push(part)
      return false
    })
  }

  async next(): Promise<IteratorResult<AnswerPart<K>[]>> {
    if (this.#isOver) return { done: true, value: undefined }
    const read = await this.#rest?.next()
    if (read && !read.done) return { done: false, value: this.pass(read.value) }
    const call = await this.#nextCall()
    // The client left while a plugin was deciding: the call is already recorded and takes no more
    // steps.
    if (this.#isOver) return { done: true, value: undefined }
    if (call) return { done: false, value: await this.#take(call) }
    this.#isOver = true
    return { done: false, value: this.#ending }
  }

  async return(): Promise<IteratorResult<AnswerPart<K>[]>> {
    this.#isOver = true
    // A pending step ends first: no provider is called for a run that is over.
    if (this.#run.taking) this.#run.cancellation.cancel(clientLeft())
    await this.#run.taking
    await this.#rest?.return?.()
    return { done: true, value: undefined }
  }

  async #nextCall(): Promise<Work[K]['call'] | null> {
    const { step, steps } = this.#run
    if (!step || steps.length >= MOST_STEPS) return null
    for (const { plugin, options } of this.#loops) {
      if (this.#isOver) return null
      const call = await plugin.around?.(this.#world, step, options)
      if (call) return call as Work[K]['call']
    }
    return null
  }

  /** Takes another step and returns the first batch of its answer. */
  async #take(call: Work[K]['call']): Promise<AnswerPart<K>[]> {
    this.#ending = []
    this.#rest = null
    const taken = takeStep(this.#world, this.#run, call).then(this.#open)
    this.#run.taking = taken.then(
      ({ rest }) => {
        this.#rest = rest
      },
      () => undefined,
    )
    const { first } = await taken
    this.#run.taking = null
    return this.pass(first)
  }
}

/**
 * Settles the answered step and takes the next. The charge of the answered step is on disk before
 * another endpoint is tried. Throws 401 for a key that is no longer valid, 402 if a limit has not
 * enough left, and what its attempts throw.
 */
async function takeStep<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  call: Work[K]['call'],
): Promise<Step<K>> {
  const { step } = run
  if (!step) throw new GatewayError('server', 'Internal Server Error')
  await settle(world, step, { error: null, ended: world.clock.ticks(), cancelled: false })
  await recordStep(world, step)
  if (run.cancellation.reason) throw run.cancellation.reason
  recheckRun(world, run)
  const next = new Step(run, (await filterAdded(run, step.call, call)) as Work[K]['call'])
  await walk(world, world.stages.step, next)
  if (next.word) step.word?.forget()
  return next
}
