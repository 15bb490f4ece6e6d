import { Cancellation } from '../base/cancellation.ts'
import { Timeout } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import { type Json, parseObject } from '../base/json.ts'
import type { Provider } from '../resources/providers/provider.ts'
import { authorize } from './authorize.ts'
import type { UpstreamWorld } from './world.ts'

/** A request to a provider beside the call itself: to moderate it, or to read its files. */
interface SideRequest {
  /** The path behind the provider's address. */
  path: string
  body: Json
  /** The most bytes of its answer. */
  maxBytes: number
  timeoutMilliseconds: number
  /** Ends the request, which is its only listener. */
  cancellation: Cancellation
}

/**
 * Sends a JSON request to a provider and returns its answer. Throws `provider_unavailable` for
 * anything but an object and the status 200, and what cancels it.
 */
export async function askProvider(
  world: UpstreamWorld,
  provider: Provider,
  { path, body, maxBytes, timeoutMilliseconds, cancellation }: SideRequest,
): Promise<Json> {
  const limit = new Cancellation()
  const failed = new GatewayError('provider_unavailable', `${provider.name} gave no usable answer`)
  const timeout = new Timeout(timeoutMilliseconds, () => limit.cancel(failed))
  cancellation.listen(reason => limit.cancel(reason))
  try {
    const outgoing = await authorize(world, provider, { path, body }, limit)
    const incoming = await world.egress.send(outgoing, limit)
    const text = incoming.status === 200 ? await incoming.text(maxBytes, () => undefined) : ''
    const answer = parseObject(text)
    if (!answer) throw failed
    return answer
  } catch (thrown) {
    throw limit.reason ?? (thrown instanceof GatewayError ? thrown : failed)
  } finally {
    timeout.stop()
    cancellation.listen(null)
    limit.cancel(OVER)
  }
}

const OVER = new GatewayError('unmapped', 'The request is over')
