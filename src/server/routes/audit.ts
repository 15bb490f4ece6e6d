import { AuditQuery, listAudit } from '../../core/identity/audit.ts'
import { defineResource, route } from '../resource.ts'

/** Creates the route of the audit trail, which is read-only. */
export const audit = defineResource({ tag: 'Audit', access: 'management' }, [
  route('GET /audit', 'listAudit', 'List changes, newest first', listAudit, {
    query: AuditQuery,
  }),
])
