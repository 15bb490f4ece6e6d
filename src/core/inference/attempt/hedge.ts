import { GatewayError } from '../../errors.ts'
import type { Cancellation } from '../../kernel/cancellation.ts'
import type { Kind } from '../../language/work.ts'
import type { Begun, Line, Try } from '../attempt.ts'
import type { Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'
import { isWorthFallback } from './summary.ts'

/** Sends an attempt and resolves when its answer begins. Throws if there is none. */
type Send<K extends Kind> = (one: Try) => Promise<Begun<K>>

/**
 * Tries an endpoint and, if it gives nothing for `delay` milliseconds, the next one in the queue
 * beside it. The first to give a meaningful part provides the answer, and the other is cancelled.
 * If one fails, the other goes on. Null if both fail; the queue has their failures.
 */
export async function raced<K extends Kind>(
  gateway: InferenceWorld,
  first: Try,
  options: RaceOptions<K>,
): Promise<Begun<K> | null> {
  const { step, line } = options
  const race = new Race(gateway, options)
  const [mine, others] = step.run.cancellation.branches(2)
  const runner = race.started(first, mine)
  if (!(await race.isLate(runner))) return race.answerOf(await runner.outcome)
  const second = line.next()
  if (!second) return race.answerOf(await runner.outcome)
  try {
    return await race.between(runner, race.started(second, others))
  } finally {
    line.over(second)
  }
}

/** The options of a race. */
interface RaceOptions<K extends Kind> {
  step: Step<K>
  line: Line<K>
  /** Milliseconds without a first part after which the second attempt starts. */
  delay: number
  send: Send<K>
}

/** A running attempt and its outcome, a promise that never rejects. */
interface Runner<K extends Kind> {
  one: Try
  outcome: Promise<Outcome<K>>
}

interface Outcome<K extends Kind> {
  one: Try
  /** Null if it failed. */
  begun: Begun<K> | null
  thrown: unknown
}

class Race<K extends Kind> {
  readonly #gateway: InferenceWorld
  readonly #step: Step<K>
  readonly #line: Line<K>
  readonly #delay: number
  readonly #send: Send<K>
  readonly #alarm: Alarm

  constructor(gateway: InferenceWorld, { step, line, delay, send }: RaceOptions<K>) {
    this.#gateway = gateway
    this.#step = step
    this.#line = line
    this.#delay = delay
    this.#send = send
    this.#alarm = new Alarm(delay)
  }

  started(one: Try, cancellation: Cancellation): Runner<K> {
    one.cancellation = cancellation
    one.onSent = () => this.#alarm.set()
    const outcome = this.#send(one).then(
      (begun): Outcome<K> => ({ one, begun, thrown: null }),
      (thrown): Outcome<K> => ({ one, begun: null, thrown }),
    )
    return { one, outcome }
  }

  /**
   * Tells whether the attempt had no outcome for the delay since its request was sent. Resolves to
   * false as soon as it has one.
   */
  async isLate({ outcome }: Runner<K>): Promise<boolean> {
    const early = await Promise.race([outcome, this.#alarm.rung])
    this.#alarm.stop()
    return early === null
  }

  /** Runs both at once, until one of them answers or both have failed. */
  async between(first: Runner<K>, hedge: Runner<K>): Promise<Begun<K> | null> {
    const { events } = this.#gateway
    events.publish('hedge.started', { endpoint: hedge.one.endpoint })
    const earlier = await Promise.race([first.outcome, hedge.outcome])
    const other = earlier.one === first.one ? hedge : first
    const isDecided = this.#isDecided(earlier, other.one)
    if (isDecided) await this.#giveUp(other)
    const begun = this.answerOf(earlier) ?? (isDecided ? null : this.answerOf(await other.outcome))
    if (begun?.endpoint === hedge.one.endpoint)
      events.publish('hedge.won', { endpoint: begun.endpoint })
    return begun
  }

  answerOf({ one, begun, thrown }: Outcome<K>): Begun<K> | null {
    if (!begun) this.#line.failed(one, thrown)
    return begun
  }

  // A bug of ours ends the race too, and so does a request that the other provider of the model
  // would refuse as well.
  #isDecided({ one, begun, thrown }: Outcome<K>, other: Try): boolean {
    if (begun || this.#step.run.cancellation.reason) return true
    const error = GatewayError.from(thrown)
    const isRefusal = one.sent !== null && !isWorthFallback(error)
    return error.type === 'server' || (isRefusal && one.endpoint.model === other.endpoint.model)
  }

  // Closed at once, also if both have answered in the same moment. Everything that an attempt waits
  // for ends when it is cancelled.
  async #giveUp({ one, outcome }: Runner<K>): Promise<void> {
    const {
      clock,
      traffic: { health },
    } = this.#gateway
    one.cancellation.cancel(GIVEN_UP)
    const { begun } = await outcome
    await begun?.rest?.return?.()
    if (one.error && one.error !== GIVEN_UP) return
    one.error = GIVEN_UP
    // A hedge that had less time than the other is not measured by that.
    if (!begun && one.sent !== null && clock.ticks() - one.sent >= this.#delay)
      health.outrun(one.endpoint, one.sent)
  }
}

/** As servers log a client that left. */
const GIVEN_UP = new GatewayError('unmapped', 'Another endpoint was asked as well, and decided', {
  status: 499,
})

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
