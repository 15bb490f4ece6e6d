import { jest } from 'bun:test'
import { TestClock } from './gateway.ts'

/** How many turns of the event loop work that needs no timer may take. */
const TURNS = 20

/**
 * A clock that timers keep to: until `stop`, all timers of the process fire as its time is passed,
 * so that what asks again and again does so at known moments, within no time.
 */
export class TestTimers extends TestClock {
  constructor() {
    super()
    jest.useFakeTimers()
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
    return jest.getTimerCount()
  }

  stop(): void {
    jest.useRealTimers()
  }
}
