import { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import type { PeekedSequence } from '../../base/iterate.ts'
import type { ReadOns } from '../traffic/read-ons.ts'

/** How far an answer is read on after its client has left. */
interface ReadOnLimits {
  milliseconds: number
  bytes: number
}

/** What a leftover needs from its run. */
interface LeftoverOptions {
  /** Ends the attempt, because its client leaves or for another reason. */
  cancellation: Cancellation
  /** Tells whether the client has left. */
  hasClientLeft(): boolean
  /** Whose call it is: keys share the places for reading on. */
  key: string
  readOns: ReadOns
  getLimits(): ReadOnLimits
}

/** Who waits for a read. */
interface Waiting<Step> {
  resolve(step: Step): void
  reject(reason: unknown): void
}

/**
 * An answer that may outlive its client: a provider that charges for all of it, read or not, counts
 * at its end. To the client's side it ends at once. Nothing closes the connection but `close`, the
 * limits of reading on, or a cancellation for another reason; `readOn` closes it when it is done.
 */
export class Leftover<Part> implements AsyncIterator<Part[]> {
  /** Ends the connection to the provider. */
  readonly connection = new Cancellation()
  /** Whether a connection has taken the request. */
  isSent = false
  readonly #options: LeftoverOptions
  readonly #left = Promise.withResolvers<never>()
  /** Why the client's side waits for nothing more; null while it does. */
  #leftReason: GatewayError | null = null
  /** The client's side, while it waits for a read. */
  #waiting: Waiting<IteratorResult<Part[]>> | null = null
  #opening: Promise<PeekedSequence<Part[]>> | null = null
  #rest: AsyncIterator<Part[]> | null = null
  #isOpen = false
  /** The read that the client's side did not wait for. */
  #pending: Promise<IteratorResult<Part[]>> | null = null
  #isReadOn = false
  #isCut = false
  #bytesLeft = Number.POSITIVE_INFINITY
  #stopReadingOn: (() => void) | null = null

  constructor(options: LeftoverOptions) {
    this.#options = options
    // Not everything that a client leaves is waited for.
    this.#left.promise.catch(() => undefined)
    options.cancellation.listen(reason => this.#leave(reason))
  }

  /** Waits for the beginning of the answer. Throws the reason of a cancellation at once. */
  async open(opening: Promise<PeekedSequence<Part[]>>): Promise<PeekedSequence<Part[]>> {
    this.#opening = opening
    opening.catch(() => this.close())
    const { first, rest } = await Promise.race([opening, this.#left.promise])
    this.#isOpen = true
    this.#rest = rest
    if (!rest) this.close()
    return { first, rest: rest && this }
  }

  // No race with `#left`: a promise that outlives all reads would keep something of each of them.
  next(): Promise<IteratorResult<Part[]>> {
    if (!this.#rest || this.#isReadOn) return Promise.resolve(END)
    if (this.#leftReason) return Promise.reject(this.#leftReason)
    const waiting = Promise.withResolvers<IteratorResult<Part[]>>()
    this.#waiting = waiting
    this.#pending = this.#rest.next()
    this.#pending.then(
      step => this.#handOver(step),
      thrown => this.#fail(thrown),
    )
    return waiting.promise
  }

  #handOver(step: IteratorResult<Part[]>): void {
    if (step.done) this.close()
    const waiting = this.#waiting
    this.#waiting = null
    // What arrived after the client left belongs to those who read on.
    if (!this.#isReadOn && waiting) this.#pending = null
    waiting?.resolve(this.#isReadOn ? END : step)
  }

  #fail(thrown: unknown): void {
    this.close()
    this.#waiting?.reject(thrown)
    this.#waiting = null
  }

  /** Leaves the answer as it is: whether it is read on is decided when its step is settled. */
  async return(): Promise<IteratorResult<Part[]>> {
    return END
  }

  /** Counts bytes of the answer, and ends it when too many came since the client left. */
  countBytes(size: number): void {
    if (!this.#stopReadingOn) return
    this.#bytesLeft -= size
    if (this.#bytesLeft < 0) this.cut()
  }

  /**
   * Reads what the client has not, and closes the connection. Returns whether the answer ended, was
   * cut at the limits, or failed. Never throws.
   */
  async readOn(read: (parts: Part[]) => void): Promise<'ended' | 'cut' | 'failed'> {
    const pending = this.#pending
    this.#isReadOn = true
    if (!this.#tryBegin()) this.cut()
    try {
      const opened = await this.#opening
      if (opened && !this.#isOpen) read(opened.first)
      const rest = opened?.rest
      for (
        let step = await (pending ?? rest?.next());
        step && !step.done;
        step = await rest?.next()
      )
        read(step.value)
      return 'ended'
    } catch {
      return this.#isCut ? 'cut' : 'failed'
    } finally {
      this.close()
    }
  }

  /** Ends the reading at once: what has arrived by then is all there is. */
  cut(): void {
    this.#isCut = true
    this.close()
  }

  /** Closes the connection, unless its answer has ended. */
  close(): void {
    this.#stopReadingOn?.()
    this.#stopReadingOn = null
    this.connection.cancel(ENOUGH)
  }

  #leave(reason: GatewayError): void {
    const isLeftover = this.#options.hasClientLeft() && this.isSent && this.#tryBegin()
    if (!isLeftover) {
      this.#isCut = true
      this.connection.cancel(reason)
    }
    this.#leftReason = reason
    this.#waiting?.reject(reason)
    this.#waiting = null
    this.#left.reject(reason)
  }

  #tryBegin(): boolean {
    if (this.#stopReadingOn) return true
    const { getLimits, key, readOns } = this.#options
    const { milliseconds, bytes } = getLimits()
    if (this.connection.reason || milliseconds === 0 || bytes === 0) return false
    const remove = readOns.tryAdd(key, this)
    if (!remove) return false
    const timer = setTimeout(() => this.cut(), milliseconds)
    this.#bytesLeft = bytes
    this.#stopReadingOn = () => {
      clearTimeout(timer)
      remove()
    }
    return true
  }
}

/** The reason of a connection that is no longer needed. */
const ENOUGH = new GatewayError('unmapped', 'The answer is no longer read')

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }
