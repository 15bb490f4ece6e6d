import type { AuditEntry } from '../../src/resources/audit/store.ts'

let count = 0

/** Builds an audit entry, with a new id each time. */
export const buildAuditEntry = (more: Partial<AuditEntry> = {}): AuditEntry => ({
  id: `audit-${++count}`,
  created_at: '2026-03-04T05:06:07.000Z',
  actor: 'operator',
  user_id: 'user_1',
  key_hash: null,
  workspace_id: null,
  action: 'things.change',
  resource_id: 'thing',
  before: null,
  after: null,
  ...more,
})
