import { invalid } from '../../base/errors.ts'
import type { Actor } from '../../resources/actor.ts'
import { requireDestination, warnOfSwitch } from '../destinations.ts'
import { DELIVERY_PACE } from './deliveries/retry.ts'
import { sendDelivery } from './deliveries/send.ts'
import { passesTest } from './judge.ts'
import { renderTestRequest } from './settings.ts'
import type { DestinationWorld } from './world.ts'

/** What a test has shown. The destination's own words are not repeated. */
export interface TestResult {
  passed: boolean
  /** The status of the answer; null if there was none. */
  status: number | null
  /** Why it did not pass; null if it did. */
  reason: string | null
  /** What else is off, so that calls are not sent: absent for nothing. */
  warning?: string
}

/**
 * Sends a destination a request that delivers nothing real and needs its credentials (wire reference
 * G.6). It may be paused or switched off. Throws 404, and 400 for one whose config cannot be
 * decrypted.
 */
export async function testDestination(
  world: DestinationWorld,
  actor: Actor,
  id: string,
): Promise<{ data: TestResult }> {
  const { destination, kind, config } = requireDestination(world, actor, id)
  if (!kind || !config)
    throw invalid('config: expected again, since it was sealed with another secret', 'config')
  const request = renderTestRequest(world, kind, config)
  const { answer, failure } = await sendDelivery(world, request, {
    timeout: DELIVERY_PACE.timeout,
    requests: new Set(),
  })
  const warning = warnOfSwitch(world, destination)
  if (!answer) return { data: { passed: false, status: null, reason: failure, ...warning } }
  const { status } = answer
  const passed = passesTest(kind, answer)
  return { data: { passed, status, reason: passed ? null : `It answered ${status}`, ...warning } }
}
