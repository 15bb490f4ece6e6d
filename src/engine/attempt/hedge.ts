import type { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import type { Kind } from '../../language/work.ts'
import { stakeHedge } from '../reserve.ts'
import type { OpenedAnswer, RunningAttempt, Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'
import { isWorthFallback } from './summary.ts'

/** Sends an attempt and resolves when its answer begins. Throws if there is none. */
type SendAttempt<K extends Kind> = (attempt: RunningAttempt) => Promise<OpenedAnswer<K>>

/**
 * Tries an endpoint and, if it gives nothing for `delay` milliseconds, the next one in the queue
 * beside it. The first to give a meaningful part provides the answer, and the other is cancelled.
 * If one fails, the other goes on. Null if both fail; the queue has their failures.
 */
export async function raceEndpoints<K extends Kind>(
  world: InferenceWorld,
  attempt: RunningAttempt,
  options: RaceOptions<K>,
): Promise<OpenedAnswer<K> | null> {
  const { step, queue } = options
  const race = new Race(world, options)
  const [firstCancellation, secondCancellation] = step.run.cancellation.createBranches(2)
  const racer = race.start(attempt, firstCancellation)
  if (!(await race.isLate(racer))) return race.takeAnswer(await racer.outcome)
  const isStaked = await stakeHedge(world, step)
  // What it takes may have to be asked for, and is written down: the first may be over by then.
  const hedge = isStaked && (await isRunning(racer)) ? queue.nextHedge() : undefined
  if (!hedge) return race.takeAnswer(await racer.outcome)
  try {
    return await race.raceBoth(racer, race.start(hedge, secondCancellation))
  } finally {
    queue.release(hedge)
  }
}

const isRunning = async <K extends Kind>({ outcome }: Racer<K>): Promise<boolean> =>
  (await Promise.race([outcome, null])) === null

/** What a race asks of the queue of endpoints. */
interface HedgeQueue {
  nextHedge(): RunningAttempt | undefined
  addFailure(attempt: RunningAttempt, thrown: unknown): void
  release(attempt: RunningAttempt): void
}

/** The options of a race. */
interface RaceOptions<K extends Kind> {
  step: Step<K>
  queue: HedgeQueue
  /** Milliseconds without a first part after which the second attempt starts. */
  delay: number
  sendAttempt: SendAttempt<K>
}

/** A running attempt and its outcome, a promise that never rejects. */
interface Racer<K extends Kind> {
  attempt: RunningAttempt
  outcome: Promise<RaceOutcome<K>>
}

interface RaceOutcome<K extends Kind> {
  attempt: RunningAttempt
  /** Null if it failed. */
  answer: OpenedAnswer<K> | null
  thrown: unknown
}

class Race<K extends Kind> {
  readonly #world: InferenceWorld
  readonly #step: Step<K>
  readonly #queue: HedgeQueue
  readonly #delay: number
  readonly #sendAttempt: SendAttempt<K>
  readonly #alarm: Alarm

  constructor(world: InferenceWorld, { step, queue, delay, sendAttempt }: RaceOptions<K>) {
    this.#world = world
    this.#step = step
    this.#queue = queue
    this.#delay = delay
    this.#sendAttempt = sendAttempt
    this.#alarm = new Alarm(delay)
  }

  start(attempt: RunningAttempt, cancellation: Cancellation): Racer<K> {
    attempt.cancellation = cancellation
    attempt.onSent = () => this.#alarm.set()
    const outcome = this.#sendAttempt(attempt).then(
      (answer): RaceOutcome<K> => ({ attempt, answer, thrown: null }),
      (thrown): RaceOutcome<K> => ({ attempt, answer: null, thrown }),
    )
    return { attempt, outcome }
  }

  /**
   * Tells whether the attempt had no outcome for the delay since its request was sent. Resolves to
   * false as soon as it has one.
   */
  async isLate({ outcome }: Racer<K>): Promise<boolean> {
    const early = await Promise.race([outcome, this.#alarm.rung])
    this.#alarm.stop()
    return early === null
  }

  /** Runs both at once, until one of them answers or both have failed. */
  async raceBoth(first: Racer<K>, hedge: Racer<K>): Promise<OpenedAnswer<K> | null> {
    const { events } = this.#world
    events.publish('hedge.started', { endpoint: hedge.attempt.endpoint })
    const earlier = await Promise.race([first.outcome, hedge.outcome])
    const other = earlier.attempt === first.attempt ? hedge : first
    const isDecided = this.#isDecided(earlier, other.attempt)
    if (isDecided) await this.#cancelLoser(other)
    const answer =
      this.takeAnswer(earlier) ?? (isDecided ? null : this.takeAnswer(await other.outcome))
    if (answer?.endpoint === hedge.attempt.endpoint)
      events.publish('hedge.won', { endpoint: answer.endpoint })
    return answer
  }

  takeAnswer({ attempt, answer, thrown }: RaceOutcome<K>): OpenedAnswer<K> | null {
    if (!answer) this.#queue.addFailure(attempt, thrown)
    return answer
  }

  // A bug of ours ends the race too, and so does a request that the other provider of the model
  // would refuse as well.
  #isDecided({ attempt, answer, thrown }: RaceOutcome<K>, other: RunningAttempt): boolean {
    if (answer || this.#step.run.cancellation.reason) return true
    const error = GatewayError.from(thrown)
    const isRefusal = attempt.sentAt !== null && !isWorthFallback(error)
    return error.type === 'server' || (isRefusal && attempt.endpoint.model === other.endpoint.model)
  }

  // Closed at once, also if both have answered in the same moment. Everything that an attempt waits
  // for ends when it is cancelled.
  async #cancelLoser({ attempt, outcome }: Racer<K>): Promise<void> {
    const {
      clock,
      traffic: { health },
    } = this.#world
    attempt.cancellation.cancel(GIVEN_UP)
    const { answer } = await outcome
    await answer?.rest?.return?.()
    // It has begun, so nothing waits for it any more.
    if (answer) this.#step.unanswered.push({ ...answer, received: answer.first })
    if (attempt.error && attempt.error !== GIVEN_UP) return
    attempt.error = GIVEN_UP
    // A hedge that had less time than the other is not measured by that.
    if (!answer && attempt.sentAt !== null && clock.ticks() - attempt.sentAt >= this.#delay)
      health.recordOutrun(attempt.endpoint, attempt.sentAt)
  }
}

/** As servers log a client that left. */
const GIVEN_UP = new GatewayError('cancelled', 'Another endpoint was asked as well, and decided')

/** Rings the given number of milliseconds after it was set, unless it was stopped. */
class Alarm {
  readonly #delay: number
  readonly #ringing = Promise.withResolvers<null>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStopped = false

  constructor(delay: number) {
    this.#delay = delay
  }

  get rung(): Promise<null> {
    return this.#ringing.promise
  }

  set(): void {
    if (!this.#isStopped) this.#timer = setTimeout(() => this.#ringing.resolve(null), this.#delay)
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
