import { GatewayError } from '../errors.ts'

/** The limits of one attempt, in milliseconds. */
export interface Limits {
  firstByte: number
  idle: number
  total: number
}

/** Watches over one attempt: its signal fires when the caller leaves or the upstream is silent for too long. */
export interface Deadline {
  signal: AbortSignal
  /** Bytes have come. */
  touched(): void
  /** The answer is whole: nothing is watched any more, and the connection may serve another. */
  close(): void
  /** The attempt is given up, and its connection with it. */
  abort(): void
  /** What a failure of the upstream means: the deadline's own reason where it has fired, else the connection's trouble. */
  failure(thrown: unknown): GatewayError
}

/** A deadline under the caller's own signal. It begins with the wait for the first byte. */
export function openDeadline(caller: AbortSignal, limits: Limits): Deadline {
  const controller = new AbortController()
  const { signal } = controller
  const leave = () => controller.abort(caller.reason)
  const expire = () => controller.abort(new GatewayError('timeout', 'Request timed out. Please try again later.'))
  if (caller.aborted) leave()
  caller.addEventListener('abort', leave, { once: true })
  const total = setTimeout(expire, limits.total)
  let silence = setTimeout(expire, limits.firstByte)
  let begun = false
  const close = () => {
    clearTimeout(total)
    clearTimeout(silence)
    caller.removeEventListener('abort', leave)
  }
  return {
    signal,
    close,
    touched() {
      if (begun) return void silence.refresh()
      begun = true
      clearTimeout(silence)
      silence = setTimeout(expire, limits.idle)
    },
    abort() {
      close()
      controller.abort()
    },
    failure(thrown) {
      const reason = signal.aborted ? signal.reason : thrown
      return reason instanceof GatewayError
        ? reason
        : new GatewayError('provider_unavailable', 'Provider returned error', { cause: reason })
    },
  }
}
