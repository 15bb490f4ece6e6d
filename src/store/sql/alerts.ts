import type { Kysely, Selectable } from 'kysely'
import type { Alert, AlertStore } from '../../observability/alerts/store.ts'
import { tooManyAlerts } from '../../observability/alerts.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, checkFound, follow, parseList, toColumns, type Write } from './write.ts'

/** Creates the store of alerts in SQL. */
export const createAlertStore = (kysely: Kysely<Tables>, write: Write): AlertStore => ({
  async all(ids) {
    const rows = kysely.selectFrom('alerts').selectAll()
    const some = ids === undefined ? rows : rows.where('id', 'in', ids)
    return (await some.execute()).map(toAlert)
  },
  insert: (alert, most, entry) =>
    write(
      checkWorkspaceReference(kysely, alert.workspace_id),
      checkFewerThan(kysely, alert.workspace_id, most),
      kysely.insertInto('alerts').values(toColumns<Row>(alert)),
      buildAuditInsert(kysely, entry),
    ),
  update: (id, change, entry) =>
    write(
      checkAlert(kysely, id),
      kysely.updateTable('alerts').set(toColumns<Partial<Row>>(change)).where('id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
  remove: (id, entry) =>
    write(
      checkAlert(kysely, id),
      kysely.deleteFrom('alert_notices').where('alert_id', '=', id),
      kysely.deleteFrom('alerts').where('id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
  addNotices: (notices, ended = []) =>
    write(
      ...ended.map(({ id, ends_at }) =>
        kysely.updateTable('alert_notices').set({ ends_at }).where('id', '=', id),
      ),
      follow(kysely.selectFrom('alerts').select('id'), rows => {
        const ids = new Set(rows.map(({ id }) => id))
        return notices
          .filter(({ alert_id }) => ids.has(alert_id))
          .map(notice =>
            kysely
              .insertInto('alert_notices')
              .values(notice)
              .onConflict(on => on.column('id').doNothing()),
          )
      }),
    ),
  listNoticeIds: async () =>
    (await kysely.selectFrom('alert_notices').select('id').execute()).map(({ id }) => id),
  listLasting: () =>
    kysely.selectFrom('alert_notices').selectAll().where('ends_at', 'is', null).execute(),
  listWaiting: () =>
    kysely
      .selectFrom('alert_notices')
      .selectAll()
      .where('due_at', 'is not', null)
      .orderBy('due_at')
      .execute(),
  async countNotices(alert_id) {
    const own = kysely.selectFrom('alert_notices').where('alert_id', '=', alert_id)
    const states = await own
      .select(['state', kysely.fn.countAll<number>().as('count')])
      .groupBy('state')
      .execute()
    const newest = own.orderBy('created_at', 'desc').orderBy('id').limit(1)
    const last = await newest.select('created_at').executeTakeFirst()
    const failed = await newest.select('error').where('error', 'is not', null).executeTakeFirst()
    return {
      ...NO_NOTICES,
      ...Object.fromEntries(states.map(({ state, count }) => [state, count])),
      ...{ last_at: last?.created_at ?? null, last_error: failed?.error ?? null },
    }
  },
  noteNotice: (id, state) =>
    write(kysely.updateTable('alert_notices').set(state).where('id', '=', id)),
  removeNotices: before =>
    write(
      kysely.deleteFrom('alert_notices').where('ends_at', '<', before).where('due_at', 'is', null),
    ),
})

const NO_NOTICES = { waiting: 0, delivered: 0, failed: 0 }

type Row = Selectable<Tables['alerts']>

const toAlert = (row: Row): Alert => ({
  ...row,
  thresholds: parseList<number>(row.thresholds) ?? [],
  disabled: row.disabled === 1,
})

const checkAlert = (kysely: Kysely<Tables>, id: string) =>
  checkFound(kysely.selectFrom('alerts').select('id').where('id', '=', id), 'Alert')

const checkFewerThan = (kysely: Kysely<Tables>, workspace_id: string, most: number) =>
  check(
    kysely.selectFrom('alerts').select('id').where('workspace_id', '=', workspace_id),
    ({ length }) => {
      if (length >= most) throw tooManyAlerts(most)
    },
  )
