import { compareTexts } from '../../../src/base/sorting.ts'
import type { AlertStore } from '../../../src/observability/alerts/store.ts'
import { tooManyAlerts } from '../../../src/observability/alerts.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'

/** Alerts in memory. */
export const createMemoryAlertStore = (connection: Connection): AlertStore => ({
  all: () => connection.read(({ alerts }) => alerts.all()),
  insert: (alert, most, entry) =>
    connection.write(memory => {
      const { id, workspace_id } = alert
      mustBeLive(memory, workspace_id)
      if (memory.alerts.all(row => row.workspace_id === workspace_id).length >= most)
        throw tooManyAlerts(most)
      memory.alerts.insert(id, alert)
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      memory.alerts.update(id, change)
      addAudit(memory, entry)
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      removeAlerts(memory, row => row.id === id)
      addAudit(memory, entry)
    }),
  addNotices: (notices, ended = []) =>
    connection.write(({ alerts, alertNotices }) => {
      for (const { id, ends_at } of ended) alertNotices.update(id, { ends_at })
      for (const notice of notices)
        if (alerts.has(notice.alert_id) && !alertNotices.has(notice.id))
          alertNotices.insert(notice.id, notice)
    }),
  listNoticeIds: () => connection.read(({ alertNotices }) => alertNotices.all().map(one => one.id)),
  listLasting: () =>
    connection.read(({ alertNotices }) => alertNotices.all(({ ends_at }) => ends_at === null)),
  listWaiting: () =>
    connection.read(({ alertNotices }) =>
      alertNotices
        .all(({ due_at }) => due_at !== null)
        .sort((a, b) => ((a.due_at ?? '') < (b.due_at ?? '') ? -1 : 1)),
    ),
  countNotices: alert_id =>
    connection.read(({ alertNotices }) => {
      const own = alertNotices
        .all(one => one.alert_id === alert_id)
        .sort((a, b) => compareTexts(b.created_at, a.created_at) || compareTexts(a.id, b.id))
      const count = (state: string) => own.filter(one => one.state === state).length
      return {
        waiting: count('waiting'),
        delivered: count('delivered'),
        failed: count('failed'),
        last_at: own[0]?.created_at ?? null,
        last_error: own.find(({ error }) => error !== null)?.error ?? null,
      }
    }),
  noteNotice: (id, state) => connection.write(({ alertNotices }) => alertNotices.update(id, state)),
  removeNotices: before =>
    connection.write(({ alertNotices }) => {
      const isOver = ({ ends_at }: { ends_at: string | null }) =>
        ends_at !== null && ends_at < before
      for (const { id } of alertNotices.all(one => one.due_at === null && isOver(one)))
        alertNotices.remove(id)
    }),
})

/** Removes alerts with their notices. */
export function removeAlerts(
  memory: Memory,
  isMeant: (row: { id: string; workspace_id: string }) => boolean,
): void {
  for (const { id } of memory.alerts.all(isMeant)) {
    memory.alerts.remove(id)
    for (const notice of memory.alertNotices.all(({ alert_id }) => alert_id === id))
      memory.alertNotices.remove(notice.id)
  }
}
