import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { AuditQuery, listAudit } from '../../core/identity/audit.ts'
import { managementKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { operation } from '../operation.ts'

/** What was changed, and by whom. It is read here, and changed nowhere. */
export const audit = (gateway: Gateway) =>
  new Elysia({ prefix: '/audit' }).use(managementKey(gateway)).get(
    '/',
    ({ actor, request }) => listAudit(gateway, actor, readQuery(request.url, AuditQuery)),
    operation({
      id: 'listAudit',
      tag: 'Audit',
      summary: 'List what was changed, the newest first',
      query: AuditQuery,
      statuses: [200, 400, 401, 403, 500],
    }),
  )
