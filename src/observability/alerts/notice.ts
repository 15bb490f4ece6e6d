import { getIsoTime } from '../../base/clock.ts'
import type { Finding } from './causes.ts'
import { type AlertCause, describeCause } from './schema.ts'
import type { Alert, EndedNotice, Notice } from './store.ts'
import type { AlertWorld } from './world.ts'

/** In milliseconds. */
const DAY = 86_400_000

/** What a receiver is told. */
export interface NoticeContent {
  id: string
  type: `alert.${AlertCause | 'test'}` | `alert.${AlertCause}.ended`
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
  const thresholds = listThresholds(alert)
  const place = findPlace(alert, finding)
  const isTold = thresholds.slice(place).some(one => isKnown(identify(alert, finding, one)))
  const threshold = thresholds[place]
  return threshold === undefined || isTold ? undefined : { alert, finding, threshold }
}

/** Whether a value has reached no threshold: of what was told, this is the end. */
export const isWell = (alert: Alert, finding: Finding): boolean => findPlace(alert, finding) < 0

function findPlace(alert: Alert, { value }: Finding): number {
  const { isFalling = false } = describeCause(alert.cause)
  return listThresholds(alert).findLastIndex(one =>
    one === null ? value > 0 : isFalling ? value <= one : value >= one,
  )
}

const listThresholds = ({ thresholds }: Alert): (number | null)[] =>
  thresholds.length > 0 ? thresholds : [null]

/** The id of what is told: of the same in the same window it is always the same. */
function identify({ id }: Alert, { subject, window }: Finding, threshold: number | null): string {
  return `alert_${hash([id, subject, threshold, window.start])}`
}

const hash = (parts: unknown[]): string =>
  new Bun.CryptoHasher('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 40)

/** Builds the notice of what an alert has found. */
export function buildNotice(world: AlertWorld, { alert, finding, threshold }: Reached): Notice {
  const id = identify(alert, finding, threshold)
  const { message, value, window, data } = finding
  const { tellsEnd } = describeCause(alert.cause)
  return createNotice(
    alert,
    {
      ...{ id, type: `alert.${alert.cause}`, created_at: getIsoTime(world) },
      alert: describeAlert(alert),
      data: { message, value, threshold, window_start: window.start, ...data },
    },
    tellsEnd ? null : window.end,
  )
}

/** What was told, and has not ended yet. */
export interface Lasting {
  id: string
  window_start: string
}

/** Builds the notice that what was told has ended. Of the same it always has the same id. */
export function buildEnd(
  world: AlertWorld,
  { alert, finding, lasting }: { alert: Alert; finding: Finding; lasting: Lasting },
): Notice {
  const id = `alert_${hash([lasting.id, 'ended'])}`
  const { message, value, data } = finding
  const { window_start } = lasting
  return createNotice(
    alert,
    {
      ...{ id, type: `alert.${alert.cause}.ended`, created_at: getIsoTime(world) },
      alert: describeAlert(alert),
      data: { message: `Well again: ${message}`, value, window_start, ends: lasting.id, ...data },
    },
    computeEnd(lasting),
  )
}

// No window is longer than a day.
const computeEnd = ({ window_start }: Lasting): string =>
  new Date(Date.parse(window_start) + DAY).toISOString()

/** Lets a notice be forgotten whose end is told, or in whose place is another. */
export const endLasting = (lasting: Lasting): EndedNotice => ({
  id: lasting.id,
  ends_at: computeEnd(lasting),
})

/** Names what an alert tells of one thing. */
export const nameLasting = (alert_id: string, { provider, destination_id }: Finding['data']) =>
  [alert_id, provider, destination_id].join(' ')

const createNotice = (
  { id: alert_id }: Alert,
  content: NoticeContent,
  ends_at: string | null,
): Notice => ({
  ...{ id: content.id, alert_id, content: JSON.stringify(content) },
  ...{ created_at: content.created_at, ends_at },
  ...{ state: 'waiting', due_at: content.created_at, attempts: 0, error: null },
})

/** Builds what a test tells. */
export const buildTestContent = (world: AlertWorld, alert: Alert): NoticeContent => ({
  ...{ id: `test_${world.ids.uuid()}`, type: 'alert.test', created_at: getIsoTime(world) },
  alert: describeAlert(alert),
  data: { message: 'This is a test. Nothing has happened.' },
})

const describeAlert = ({ id, name, workspace_id }: Alert) => ({ id, name, workspace_id })
