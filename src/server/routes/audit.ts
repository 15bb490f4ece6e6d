import { AuditQuery, listAudit } from '../../resources/audit.ts'
import { defineResource, defineRoute } from '../resource.ts'

/** Creates the route of the audit trail, which is read-only. */
export const createAuditRoutes = defineResource({ tag: 'Audit', access: 'management' }, [
  defineRoute('GET /audit', 'listAudit', 'List changes, newest first', listAudit, {
    query: AuditQuery,
  }),
])
