import { invalid } from '../../base/errors.ts'
import type { Actor } from '../../resources/actor.ts'
import { openReceiver, requireAlert } from '../alerts.ts'
import { describeReason } from '../destinations/deliveries/send.ts'
import type { TestResult } from '../destinations/test-delivery.ts'
import { buildTestContent } from './notice.ts'
import { sendNotice } from './sender.ts'
import type { AlertWorld } from './world.ts'

/**
 * Sends an alert's receiver a sample, also while the alert is switched off, and tells what came
 * back. Throws 404, and 400 for one whose receiver cannot be decrypted.
 */
export async function testAlert(
  world: AlertWorld,
  actor: Actor,
  id: string,
): Promise<{ data: Omit<TestResult, 'warning'> }> {
  const alert = requireAlert(world, actor, id)
  const to = openReceiver(world, alert)
  if (to === null)
    throw invalid('to: expected again, since it was sealed with another secret', 'to')
  const content = buildTestContent(world, alert)
  const sent = await sendNotice(world, to, content, { id: content.id, requests: new Set() })
  const reason = describeReason(sent)
  return { data: { passed: reason === null, status: sent.answer?.status ?? null, reason } }
}
