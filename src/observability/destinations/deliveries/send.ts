import { Cancellation } from '../../../base/cancellation.ts'
import { Timeout } from '../../../base/clock.ts'
import { GatewayError } from '../../../base/errors.ts'
import type { IncomingResponse } from '../../../network/egress.ts'
import { checkUntrustedUrl } from '../../../network/untrusted-url.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import type { DeliveryAnswer, DeliveryRequest } from '../kind.ts'

/** How much of an answer is read, in bytes. The rest is left with its connection. */
const LONGEST_ANSWER = 65_536

/** What came of a request: an answer, or why there is none. */
export type Sent =
  | { answer: DeliveryAnswer; retryAfter: string | null; failure: null }
  | { answer: null; retryAfter: null; failure: string }

/** How a request is sent. */
interface Sending {
  /** In milliseconds. */
  timeout: number
  /** The requests that run: as long as this one does it can be cancelled among them. */
  requests: Set<Cancellation>
  /** Whether the operator named its URL, which may be one of a private network. */
  isOperators?: boolean
}

/**
 * Sends a request to a URL that a caller named: only a public host is called, at the address that
 * was checked, and redirects are not followed. A connection to that address is kept for the next
 * request. Never throws: an address that may not be called and a connection that fails have no
 * answer.
 */
export const sendDelivery = (
  world: UpstreamWorld,
  request: DeliveryRequest,
  { isOperators = false, ...sending }: Sending,
): Promise<Sent> => sendWithin(sending, limit => exchange(world, request, limit, isOperators))

/** Sends by work that can be cancelled, and is when it takes too long. Never throws. */
export async function sendWithin(
  { timeout: milliseconds, requests: running }: Omit<Sending, 'isOperators'>,
  send: (limit: Cancellation) => Promise<Sent>,
): Promise<Sent> {
  const limit = new Cancellation()
  const timeout = new Timeout(milliseconds, () => limit.cancel(TOO_SLOW))
  running.add(limit)
  try {
    return await send(limit)
  } catch (thrown) {
    return { answer: null, retryAfter: null, failure: describeFailure(limit.reason ?? thrown) }
  } finally {
    timeout.stop()
    running.delete(limit)
    limit.cancel(OVER)
  }
}

async function exchange(
  world: UpstreamWorld,
  { method, url, headers, body }: DeliveryRequest,
  limit: Cancellation,
  isOperators: boolean,
): Promise<Sent> {
  const checked = isOperators
    ? { url }
    : await limit.awaitUnlessCancelled(checkUntrustedUrl(world, url))
  const outgoing = {
    ...(method === 'PUT' ? { method } : {}),
    ...checked,
    // Over TLS another connection for each batch would cost more than the batch.
    isRepeated: true,
    headers: toLowerCaseNames(headers),
    body: typeof body === 'string' ? body : [body],
  }
  const incoming = await world.egress.send(outgoing, limit)
  const retryAfter = incoming.header('retry-after')
  const text = await readBeginning(incoming)
  return { answer: { status: incoming.status, text }, retryAfter, failure: null }
}

const toLowerCaseNames = (headers: Record<string, string>): Record<string, string> => ({
  'user-agent': 'gateway',
  ...Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  ),
})

async function readBeginning(incoming: IncomingResponse): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  while (size < LONGEST_ANSWER) {
    const piece = await incoming.read()
    if (piece === null) break
    pieces.push(piece)
    size += piece.length
  }
  return Buffer.concat(pieces).subarray(0, LONGEST_ANSWER).toString('utf8')
}

/** Describes why a request failed; null if it did not. Never with the words of the receiver. */
export const describeReason = ({ answer, failure }: Sent): string | null =>
  failure ?? (answer.status >= 200 && answer.status < 300 ? null : `It answered ${answer.status}`)

const TOO_SLOW = new GatewayError('timeout', 'It did not answer in time')
const OVER = new GatewayError('unmapped', 'The request is over')

// The texts of other errors may contain an address with a credential.
function describeFailure(thrown: unknown): string {
  if (thrown === TOO_SLOW) return TOO_SLOW.message
  if (thrown instanceof GatewayError && thrown.type === 'invalid_request') return thrown.message
  const cause = thrown instanceof GatewayError ? thrown.cause : thrown
  const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : ''
  return `It cannot be reached${code}`
}
