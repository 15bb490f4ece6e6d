import { Cancellation } from '../../base/cancellation.ts'
import { Timeout } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import type { ToolInvocation, ToolResult } from '../server-tool.ts'

/** Why a use of a tool failed, in words for the model. Never has a secret or a third party's text. */
export class ToolFailure extends Error {
  /** Further fields of its output item. */
  readonly item: Record<string, unknown>

  constructor(message: string, item: Record<string, unknown> = {}) {
    super(message)
    this.name = 'ToolFailure'
    this.item = item
  }
}

/** Builds the result that tells a model of a failure. */
export const buildFailedResult = (
  text: string,
  item: Record<string, unknown> = {},
): ToolResult => ({ text, isError: true, item })

/**
 * Runs one use of a tool for at most so many milliseconds. What it has opened is closed when it
 * ends, however it ends. A failure becomes a result for the model; throws only the reason of the
 * call's own cancellation.
 */
export async function runUse(
  { cancellation: call }: ToolInvocation,
  milliseconds: number,
  work: (limit: UseLimit) => Promise<ToolResult>,
): Promise<ToolResult> {
  try {
    return await runLimited(call, milliseconds, work)
  } catch (thrown) {
    if (call.reason) throw call.reason
    return toFailedResult(thrown)
  }
}

/** Converts what a use threw to a result for the model. */
export const toFailedResult = (thrown: unknown): ToolResult =>
  thrown instanceof ToolFailure
    ? buildFailedResult(thrown.message, thrown.item)
    : buildFailedResult(describeFailure(thrown))

/** Runs work under a limit of its own. Throws the limit's reason once it is reached. */
export async function runLimited<T>(
  call: Cancellation,
  milliseconds: number,
  work: (limit: UseLimit) => Promise<T>,
): Promise<T> {
  const limit = new UseLimit(call, milliseconds)
  try {
    return await limit.race(work(limit))
  } catch (thrown) {
    throw limit.reason ?? thrown
  } finally {
    limit.close()
  }
}

// What other code throws may hold a third party's text, so only our own sentences are repeated.
function describeFailure(thrown: unknown): string {
  if (thrown instanceof GatewayError) return `It failed: ${thrown.message}`
  return 'The connection failed'
}

const TIMED_OUT = new GatewayError('timeout', 'there was no answer in time')
const OVER = new GatewayError('unmapped', 'The use of the tool is over')

/** The time of one use of a tool, and the connections that it has opened. */
export class UseLimit {
  /** Why it ended; null while it runs. */
  reason: GatewayError | null = null
  readonly #call: Cancellation
  readonly #branches = new Set<Cancellation>()
  readonly #ended = Promise.withResolvers<never>()
  readonly #timeout: Timeout

  constructor(call: Cancellation, milliseconds: number) {
    this.#call = call
    this.#ended.promise.catch(() => undefined)
    this.#timeout = new Timeout(milliseconds, () => this.#end(TIMED_OUT))
    call.listen(reason => this.#end(reason))
  }

  /** Creates the cancellation of one request. It is cancelled when the use ends. */
  open(): Cancellation {
    const branch = new Cancellation()
    if (this.reason) branch.cancel(this.reason)
    else this.#branches.add(branch)
    return branch
  }

  /** Ends one request: closes its connection, whatever is left of its answer. */
  release(branch: Cancellation): void {
    this.#branches.delete(branch)
    branch.cancel(OVER)
  }

  /** Awaits work that takes no cancellation. Throws the reason once the use has ended. */
  race<T>(work: Promise<T>): Promise<T> {
    // Work that goes on alone fails when its connections are closed.
    work.catch(() => undefined)
    return Promise.race([work, this.#ended.promise])
  }

  /** Stops the clock and closes every connection. */
  close(): void {
    this.#timeout.stop()
    if (!this.#call.reason) this.#call.listen(null)
    for (const branch of this.#branches) branch.cancel(OVER)
    this.#branches.clear()
  }

  #end(reason: GatewayError): void {
    if (this.reason) return
    this.reason = reason
    this.#ended.reject(reason)
    for (const branch of this.#branches) branch.cancel(reason)
    this.#branches.clear()
  }
}
