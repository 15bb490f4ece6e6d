import { GatewayError } from '../../base/errors.ts'
import { Timeout } from '../../base/timeout.ts'

/** What has arrived buys time: another second for each of so many bytes. */
const BYTES_PER_SECOND = 1024

/** No body may take longer than so many times the time of an empty one; a file not than so many. */
const LONGEST = 10
const LONGEST_FILE = 120

/**
 * The time that a body has: so many seconds, another one for each KiB that has arrived, and ten
 * times as many at most, or 120 times as many for a file.
 */
export class Pace {
  /** How many bytes have arrived. */
  size = 0
  readonly #start = performance.now()
  readonly #seconds: number
  readonly #longest: number
  #timeout: Timeout | undefined

  constructor(seconds: number, { isFile = false } = {}) {
    this.#seconds = seconds
    this.#longest = seconds * (isFile ? LONGEST_FILE : LONGEST)
  }

  /** Waits for the body. Throws 408 when its time is over. */
  limit<Result>(bytes: Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#wait(reject)
      bytes.then(
        whole => {
          this.#timeout?.stop()
          resolve(whole)
        },
        lost => {
          this.#timeout?.stop()
          reject(lost)
        },
      )
    })
  }

  // What has arrived meanwhile has bought more time.
  #wait(reject: (late: GatewayError) => void): void {
    const left = this.#countMillisecondsLeft()
    if (left > 0) this.#timeout = new Timeout(left, () => this.#wait(reject))
    else reject(tooSlow())
  }

  #countMillisecondsLeft(): number {
    const seconds = Math.min(this.#seconds + this.size / BYTES_PER_SECOND, this.#longest)
    return Math.ceil(this.#start + seconds * 1000 - performance.now())
  }
}

const tooSlow = () =>
  new GatewayError('invalid_request', 'The body took too long to arrive', { status: 408 })
