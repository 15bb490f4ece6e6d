/**
 * The source of time. `now` is the calendar; `ticks` is a steady count of milliseconds for
 * durations.
 */
export interface Clock {
  now(): Date
  ticks(): number
}

/** Those who wait for a turn of the event loop, in the order in which they came. */
const waiting: (() => void)[] = []

/**
 * Resolves in a later turn of the event loop, which no other of those who wait so goes on in: of a
 * hundred that do much at once, others wait for one.
 */
export function yieldToEventLoop(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (waiting.push(resolve) === 1) setImmediate(continueNext)
  return promise
}

function continueNext(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(continueNext)
}

/**
 * How many milliseconds work takes before others get their turn: that of large calls takes more.
 */
export const LONGEST_TURN = 10

/** Tells whether work that started then, by the clock's ticks, should give others their turn. */
export const isLongTurn = (clock: Clock, startedAt: number): boolean =>
  clock.ticks() - startedAt > LONGEST_TURN

export const systemClock: Clock = {
  now: () => new Date(),
  ticks: performance.now.bind(performance),
}

/** Returns the current time as records store it: ISO 8601 in UTC. */
export const getIsoTime = ({ clock }: { clock: Clock }): string => renderTime(clock.now())

/** Reads the current time as charges have it: its day as `toDayNumber` counts, and ISO 8601. */
export function readMoment(clock: Clock): { day: number; time: string } {
  const now = clock.now()
  return { day: toDayNumber(now), time: renderTime(now) }
}

/** The second that was rendered last, and its text: each call renders a few moments of it. */
const lastSecond = { start: Number.NaN, text: '' }

/** Renders a moment as `toISOString` does, at a third of its cost. Throws as it does. */
export function renderTime(moment: Date): string {
  const milliseconds = moment.getTime() - lastSecond.start
  if (!(milliseconds >= 0 && milliseconds < 1000)) return renderSecond(moment)
  return `${lastSecond.text}${milliseconds < 10 ? '00' : milliseconds < 100 ? '0' : ''}${milliseconds}Z`
}

function renderSecond(moment: Date): string {
  const text = moment.toISOString()
  lastSecond.start = Math.floor(moment.getTime() / 1000) * 1000
  lastSecond.text = text.slice(0, -4)
  return text
}

/**
 * The windows in which spending is counted. They begin at midnight UTC, and weeks run Monday
 * through Sunday. Nothing is reset: the current window is computed from the clock.
 */
export const PERIODS = ['daily', 'weekly', 'monthly'] as const
export type Period = (typeof PERIODS)[number]

const DAY = 86_400_000

/** Returns the day of a moment as the number of days since 1970-01-01 UTC. */
export const toDayNumber = (moment: Date): number => Math.floor(moment.getTime() / DAY)

/** Returns the start of a moment's day, in UTC. */
export const toMidnight = (moment: Date): Date => new Date(toDayNumber(moment) * DAY)

/** Returns the first day of the window that contains the moment, as `toDayNumber` counts days. */
export function computeFirstDay(period: Period, moment: Date): number {
  const today = toDayNumber(moment)
  if (period === 'daily') return today
  if (period === 'monthly') return today - (moment.getUTCDate() - 1)
  return today - ((moment.getUTCDay() + 6) % 7)
}

/**
 * Limits the time that something else may take: a provider, a client, a worker. What has come by the
 * end of that time is read before it is called late, since this process may have stood still itself:
 * stopped, suspended with its machine, or kept from the processor.
 */
export class Timeout {
  readonly #onTimeout: () => void
  #milliseconds: number
  #timer: ReturnType<typeof setTimeout>
  /** What has changed since it began: a change while it looks again makes it look in vain. */
  #changes = 0
  #isRunning = true

  /** Begins now. `onTimeout` is called after so many milliseconds, unless it is stopped before. */
  constructor(milliseconds: number, onTimeout: () => void) {
    this.#onTimeout = onTimeout
    this.#milliseconds = milliseconds
    this.#timer = setTimeout(this.#look, milliseconds)
  }

  /** Begins again: what was awaited has come, and the next has as long, or so long. */
  restart(milliseconds = this.#milliseconds): void {
    this.#changes += 1
    if (this.#isRunning && milliseconds === this.#milliseconds) {
      this.#timer.refresh()
      return
    }
    clearTimeout(this.#timer)
    this.#milliseconds = milliseconds
    this.#isRunning = true
    this.#timer = setTimeout(this.#look, milliseconds)
  }

  /** Stops for good, or until it is restarted. */
  stop(): void {
    this.#changes += 1
    this.#isRunning = false
    clearTimeout(this.#timer)
  }

  // In the turn after the next one, all that had come has been read.
  readonly #look = (): void => {
    const changes = this.#changes
    this.#isRunning = false
    const end = () => {
      if (this.#changes === changes) this.#onTimeout()
    }
    setImmediate(() => setImmediate(end))
  }
}

/**
 * Waits for something, but for so many milliseconds, and returns what it came to. Throws what
 * `createError` returns where it has not come by then.
 */
export async function awaitWithin<Value>(
  milliseconds: number,
  promise: Promise<Value>,
  createError: () => Error,
): Promise<Value> {
  const { promise: overdue, reject } = Promise.withResolvers<never>()
  const timeout = new Timeout(milliseconds, () => reject(createError()))
  try {
    return await Promise.race([promise, overdue])
  } finally {
    timeout.stop()
  }
}

/** In milliseconds, before what a store did not take is written again. */
export const WRITE_PAUSES = [200, 1_000, 5_000, 30_000]

/** Writes what must not be lost: again where a store is away for a moment. Throws what it says last. */
export async function repeatWrite<Result>(write: () => Promise<Result>): Promise<Result> {
  for (const pause of WRITE_PAUSES)
    try {
      return await write()
    } catch {
      await Bun.sleep(pause)
    }
  return write()
}
