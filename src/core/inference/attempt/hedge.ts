import type { Endpoint } from '../../catalog/models.ts'
import { GatewayError } from '../../errors.ts'
import type { Gateway } from '../../gateway.ts'
import { Cancellation } from '../../kernel/cancellation.ts'
import type { Kind } from '../call.ts'
import type { Running } from '../running.ts'
import type { Line } from './line.ts'
import { isWorthFallback } from './summary.ts'
import { type Begun, type Try, tried } from './try.ts'

/**
 * After how many milliseconds without a first part another endpoint is asked beside this one: as the call says, or when 95 of 100 answers
 * have begun there. Null where none is asked: where nobody wants that or too little was measured, and for whole answers, of which nobody
 * measures how long they take to begin.
 */
export function hedgeDelay({ config, health }: Gateway, { call, plan }: Running<Kind>, endpoint: Endpoint): number | null {
  if (!call.stream || plan.endpoints.length < 2) return null
  const { hedge = config.routing.hedge } = call.routing
  if (hedge === false) return null
  return (hedge === true ? null : hedge.after_ms) ?? health.tail(endpoint)
}

/**
 * Tries an endpoint and, when it has given nothing for so long, the next in line beside it. Who gives a first meaningful part first is
 * the one that answers, and the other is cancelled; where one fails the other goes on. Null where both have, which the line has heard of.
 */
export async function raced<K extends Kind>(
  gateway: Gateway,
  running: Running<K>,
  line: Line<K>,
  first: Try,
  delay: number,
): Promise<Begun<K> | null> {
  const [mine, others] = two(running.cancellation)
  const alarm = new Alarm(delay)
  first.cancellation = mine
  first.onSent = () => alarm.set()
  const lane = laneOf(gateway, running, line, first)
  const isEarly = await Promise.race([lane.outcome.then(() => true), alarm.rung])
  alarm.stop()
  const second = isEarly ? undefined : line.next()
  if (!second) return answerOf(line, await lane.outcome)
  try {
    second.cancellation = others
    return await beside(gateway, running, line, lane, laneOf(gateway, running, line, second), delay)
  } finally {
    line.over(second)
  }
}

/** Both at once, until one of them answers or none will. */
async function beside<K extends Kind>(
  gateway: Gateway,
  running: Running<K>,
  line: Line<K>,
  first: Lane<K>,
  hedge: Lane<K>,
  delay: number,
): Promise<Begun<K> | null> {
  gateway.events.publish('hedge.started', { endpoint: hedge.one.endpoint })
  const earlier = await Promise.race([first.outcome, hedge.outcome])
  const other = earlier.one === first.one ? hedge : first
  const isDecided = earlier.begun !== null || running.cancellation.reason !== null || decidesFor(other.one, earlier)
  if (isDecided) await giveUp(gateway, other, delay)
  const begun = answerOf(line, earlier) ?? (isDecided ? null : answerOf(line, await other.outcome))
  if (begun?.endpoint === hedge.one.endpoint) gateway.events.publish('hedge.won', { endpoint: begun.endpoint })
  return begun
}

/** A try as it runs, and what becomes of it: that is never rejected. */
interface Lane<K extends Kind> {
  one: Try
  outcome: Promise<Outcome<K>>
}

interface Outcome<K extends Kind> {
  one: Try
  /** Null where it has failed. */
  begun: Begun<K> | null
  thrown: unknown
}

function laneOf<K extends Kind>(gateway: Gateway, running: Running<K>, line: Line<K>, one: Try): Lane<K> {
  const outcome = tried(gateway, running, one, line.echoes).then(
    begun => ({ one, begun, thrown: null }),
    thrown => ({ one, begun: null, thrown }),
  )
  return { one, outcome }
}

function answerOf<K extends Kind>(line: Line<K>, { one, begun, thrown }: Outcome<K>): Begun<K> | null {
  if (!begun) line.failed(one, thrown)
  return begun
}

/** Whether a failure leaves nothing to wait for: our own bug, or a request that the other provider of the model would refuse too. */
function decidesFor(other: Try, { one, thrown }: Outcome<Kind>): boolean {
  const error = GatewayError.from(thrown)
  return error.type === 'server' || (one.sent !== null && one.endpoint.model === other.endpoint.model && !isWorthFallback(error))
}

// Closed at once, also where both have answered in the same moment. All that a try waits for ends when it is cancelled.
async function giveUp({ clock, health }: Gateway, { one, outcome }: Lane<Kind>, delay: number): Promise<void> {
  one.cancellation.cancel(GIVEN_UP)
  const { begun } = await outcome
  await begun?.rest?.return?.()
  if (one.error && one.error !== GIVEN_UP) return
  one.error = GIVEN_UP
  // A hedge that had less time than its rival is not measured by that.
  if (!begun && one.sent !== null && clock.ticks() - one.sent >= delay) health.outrun(one.endpoint, one.sent)
}

/** As a server has it whose client left. */
const GIVEN_UP = new GatewayError('unmapped', 'Another endpoint was asked as well, and decided', { status: 499 })

/** Two that end when this does. */
function two(cancellation: Cancellation): [Cancellation, Cancellation] {
  const [one, other] = [new Cancellation(), new Cancellation()]
  cancellation.listen(reason => {
    one.cancel(reason)
    other.cancel(reason)
  })
  return [one, other]
}

/** Rings so many milliseconds after it was set, unless it was stopped. */
class Alarm {
  readonly #delay: number
  readonly #ringing = Promise.withResolvers<false>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStopped = false

  constructor(delay: number) {
    this.#delay = delay
  }

  get rung(): Promise<false> {
    return this.#ringing.promise
  }

  set(): void {
    if (!this.#isStopped) this.#timer = setTimeout(() => this.#ringing.resolve(false), this.#delay)
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
