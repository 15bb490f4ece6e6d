import { AuditQuery, listAudit } from '../../core/identity/audit.ts'
import { defineResource, route } from '../resource.ts'

/** What was changed, and by whom. It is read here, and changed nowhere. */
export const audit = defineResource({ tag: 'Audit', access: 'management' }, [
  route('GET /audit', 'listAudit', 'List what was changed, the newest first', listAudit, {
    query: AuditQuery,
  }),
])
