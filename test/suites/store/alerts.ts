import { expect, test } from 'bun:test'
import type { Alert, Notice } from '../../../src/observability/alerts/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildDisabling,
  buildWorkspace,
  CREATED,
  countAudit,
  type GetStore,
  LATER,
  readErrorType,
  readRefusal,
  WORKSPACE,
} from './rows.ts'

const MOST = 3

const buildAlert = (id: string, more: Partial<Alert> = {}): Alert => ({
  id,
  workspace_id: WORKSPACE,
  name: 'near “𝄞”',
  cause: 'limit_near',
  thresholds: [0.8, 1],
  window: null,
  key_hash: null,
  provider: null,
  destination_id: null,
  sealed: 'sealed',
  disabled: false,
  created_at: CREATED,
  updated_at: CREATED,
  ...more,
})

const buildNotice = (id: string, alert_id: string, more: Partial<Notice> = {}): Notice => ({
  ...{ id, alert_id, content: '{}', created_at: CREATED, ends_at: LATER },
  ...{ state: 'waiting', due_at: CREATED, attempts: 0, error: null },
  ...more,
})

/** Tests what every store promises about alerts and what they tell. */
export function testAlerts(store: GetStore): void {
  const insert = (alert: Alert) => store().alerts.insert(alert, MOST, buildAuditEntry())

  test('alerts belong to a workspace, which has a few, and go with it', async () => {
    const other = buildWorkspace()
    await store().workspaces.insert(other, buildAuditEntry())
    const before = await countAudit(store())
    const own = buildAlert('a1', { disabled: true, window: 'hourly', thresholds: [] })
    await insert(own)
    await insert(buildAlert('b1', { workspace_id: other.id }))
    await insert(buildAlert('a2'))
    await insert(buildAlert('a3'))
    expect(await readErrorType(insert(buildAlert('a4')))).toBe('conflict')
    expect(await readRefusal(insert(buildAlert('x', { workspace_id: 'nowhere' })))).toContain(
      'workspace_id',
    )
    const change = { disabled: false, thresholds: [0.5], sealed: 'again' }
    await store().alerts.update('a1', change, buildAuditEntry())
    await store().alerts.remove('a2', buildAuditEntry())
    await store().alerts.addNotices([buildNotice('n1', 'b1')])
    await store().workspaces.remove(other, buildDisabling(), buildAuditEntry())
    const alerts = await store().alerts.all()
    expect(alerts.sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      { ...own, ...change },
      buildAlert('a3'),
    ])
    expect(await store().alerts.listNoticeIds()).toEqual([])
    expect(await countAudit(store())).toBe(before + 7)
  })

  test('a notice is added once, waits until it is told, and is forgotten after its window', async () => {
    const { alerts } = store()
    await insert(buildAlert('a1'))
    await alerts.addNotices([
      buildNotice('late', 'a1', { due_at: LATER }),
      buildNotice('first', 'a1'),
      buildNotice('stray', 'gone'),
      buildNotice('kept', 'a1', { ends_at: null, due_at: null, state: 'delivered' }),
    ])
    await alerts.addNotices([buildNotice('first', 'a1', { content: 'other' })])
    expect(await alerts.listWaiting()).toEqual([
      buildNotice('first', 'a1'),
      buildNotice('late', 'a1', { due_at: LATER }),
    ])
    expect(await alerts.listLasting()).toEqual([
      buildNotice('kept', 'a1', { ends_at: null, due_at: null, state: 'delivered' }),
    ])
    const told = { state: 'delivered' as const, due_at: null, attempts: 2, error: null }
    await alerts.noteNotice('first', told)
    const failed = { state: 'failed' as const, due_at: null, attempts: 9, error: 'It answered 500' }
    await alerts.noteNotice('late', failed)
    expect(await alerts.countNotices('a1')).toEqual({
      ...{ waiting: 0, delivered: 2, failed: 1 },
      ...{ last_at: CREATED, last_error: 'It answered 500' },
    })
    expect(await alerts.countNotices('none')).toEqual({
      ...{ waiting: 0, delivered: 0, failed: 0, last_at: null, last_error: null },
    })
    await alerts.noteNotice('late', { ...failed, due_at: LATER })
    await alerts.removeNotices(LATER)
    expect((await alerts.listNoticeIds()).sort()).toEqual(['first', 'kept', 'late'])
    await alerts.removeNotices('2027-01-01T00:00:00.000Z')
    expect((await alerts.listNoticeIds()).sort()).toEqual(['kept', 'late'])
    await alerts.addNotices([buildNotice('end', 'a1')], [{ id: 'kept', ends_at: LATER }])
    expect(await alerts.listLasting()).toEqual([])
    await alerts.removeNotices('2027-01-01T00:00:00.000Z')
    expect((await alerts.listNoticeIds()).sort()).toEqual(['end', 'late'])
    await alerts.remove('a1', buildAuditEntry())
    expect(await alerts.listNoticeIds()).toEqual([])
  })
}
