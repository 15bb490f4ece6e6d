import { getIsoTime } from '../../base/clock.ts'
import type { Finding } from './causes.ts'
import { type AlertCause, describeCause } from './schema.ts'
import type { Alert, Notice } from './store.ts'
import type { AlertWorld } from './world.ts'

/** What a receiver is told. */
export interface NoticeContent {
  id: string
  type: `alert.${AlertCause | 'test'}`
  created_at: string
  alert: Pick<Alert, 'id' | 'name' | 'workspace_id'>
  data: { message: string; [name: string]: unknown }
}

/** What an alert found, and the threshold that it has reached; null where its cause has none. */
export interface Reached {
  alert: Alert
  finding: Finding
  threshold: number | null
}

/**
 * Finds the most severe threshold that a value has reached. Undefined where it has reached none, or
 * where the same or a more severe one of this window is known already.
 */
export function findReached(
  alert: Alert,
  finding: Finding,
  isKnown: (id: string) => boolean,
): Reached | undefined {
  const { isFalling = false } = describeCause(alert.cause)
  const thresholds = alert.thresholds.length > 0 ? alert.thresholds : [null]
  const place = thresholds.findLastIndex(
    one => one === null || (isFalling ? finding.value <= one : finding.value >= one),
  )
  const isTold = thresholds.slice(place).some(one => isKnown(identify(alert, finding, one)))
  const threshold = thresholds[place]
  return threshold === undefined || isTold ? undefined : { alert, finding, threshold }
}

/** The id of what is told: of the same in the same window it is always the same. */
function identify({ id }: Alert, { subject, window }: Finding, threshold: number | null): string {
  const text = JSON.stringify([id, subject, threshold, window.start])
  return `alert_${new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 40)}`
}

/** Builds the notice of what an alert has found. */
export function buildNotice(world: AlertWorld, { alert, finding, threshold }: Reached): Notice {
  const id = identify(alert, finding, threshold)
  const created_at = getIsoTime(world)
  const { message, value, window, data } = finding
  const content: NoticeContent = {
    ...{ id, type: `alert.${alert.cause}`, created_at },
    alert: describeAlert(alert),
    data: { message, value, threshold, window_start: window.start, ...data },
  }
  return {
    ...{ id, alert_id: alert.id, content: JSON.stringify(content), created_at },
    ...{ ends_at: window.end, state: 'waiting', due_at: created_at, attempts: 0, error: null },
  }
}

/** Builds what a test tells. */
export const buildTestContent = (world: AlertWorld, alert: Alert): NoticeContent => ({
  ...{ id: `test_${world.ids.uuid()}`, type: 'alert.test', created_at: getIsoTime(world) },
  alert: describeAlert(alert),
  data: { message: 'This is a test. Nothing has happened.' },
})

const describeAlert = ({ id, name, workspace_id }: Alert) => ({ id, name, workspace_id })
