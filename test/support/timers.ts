import { jest } from 'bun:test'
import { TestClock } from './gateway.ts'

/** How many turns of the event loop work that needs no timer may take. */
const TURNS = 20

type Start = (work: () => void, milliseconds?: number) => ReturnType<typeof setTimeout>

/**
 * A clock that timers keep to: until `stop`, all timers of the process fire as its time is passed,
 * so that what asks again and again does so at known moments, within no time.
 */
export class TestTimers extends TestClock {
  /** What was started since the beginning. An interval of before that fires meanwhile is no part. */
  readonly #started = new Set<unknown>()
  readonly #globals = { setTimeout, setInterval, clearTimeout, clearInterval }

  constructor() {
    super()
    jest.useFakeTimers()
    const { setTimeout: startOnce, setInterval: startInterval } = globalThis
    const { clearTimeout: end } = globalThis
    const follow = (start: Start, isOnce: boolean): Start => {
      return (work, milliseconds) => {
        const timer = start(() => {
          if (isOnce) this.#started.delete(timer)
          work()
        }, milliseconds)
        this.#started.add(timer)
        return timer
      }
    }
    const clear = (timer?: Parameters<typeof clearTimeout>[0]) => {
      this.#started.delete(timer)
      end(timer)
    }
    Object.assign(globalThis, {
      setTimeout: follow(startOnce as Start, true),
      setInterval: follow(startInterval as Start, false),
      clearTimeout: clear,
      clearInterval: clear,
    })
  }

  /** Passes seconds, in steps of which each sees the work of the one before. */
  async passSeconds(seconds: number, step = 0.25): Promise<void> {
    await this.settle()
    for (let passed = 0; passed < seconds; passed += step) {
      this.pass(step * 1000)
      jest.advanceTimersByTime(step * 1000)
      await this.settle()
    }
  }

  /** Waits for work that needs no time. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) await new Promise(resolve => setImmediate(resolve))
  }

  /** How many timers have not fired. */
  get waiting(): number {
    return this.#started.size
  }

  stop(): void {
    jest.useRealTimers()
    Object.assign(globalThis, this.#globals)
  }
}
