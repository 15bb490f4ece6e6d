import { Elysia } from 'elysia'
import { ByokChange, ByokQuery, NewByokKey } from '../../core/catalog/byok/schema.ts'
import { createByokKey, deleteByokKey, getByokKey, listByokKeys, updateByokKey } from '../../core/catalog/byok.ts'
import type { Gateway } from '../../core/gateway.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const byokOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'BYOK', ...described })
const id = { id: 'The provider key’s id' }

/** Callers' own provider keys (wire reference B.2). */
export const byok = (gateway: Gateway) =>
  new Elysia({ prefix: '/byok' })
    .use(managementKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listByokKeys(gateway, actor, readQuery(request.url, ByokQuery)),
      byokOperation({ id: 'listBYOKKeys', summary: 'List provider keys', query: ByokQuery, statuses: [200, 400, 401, 403, 500] }),
    )
    .post(
      '/',
      async ({ actor, request, set }) => {
        const created = await createByokKey(gateway, actor, await readBody(request, NewByokKey))
        set.status = 201
        return created
      },
      byokOperation({ id: 'createBYOKKey', summary: 'Add a provider key', body: NewByokKey, statuses: [201, 400, 401, 403, 500] }),
    )
    .get(
      '/:id',
      ({ actor, params }) => getByokKey(gateway, actor, params.id),
      byokOperation({ id: 'getBYOKKey', summary: 'Get a provider key', params: id, statuses: [200, 401, 403, 404, 500] }),
    )
    .patch(
      '/:id',
      async ({ actor, params, request }) => updateByokKey(gateway, actor, params.id, await readBody(request, ByokChange)),
      byokOperation({
        id: 'updateBYOKKey',
        summary: 'Change a provider key',
        params: id,
        body: ByokChange,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .delete(
      '/:id',
      ({ actor, params }) => deleteByokKey(gateway, actor, params.id),
      byokOperation({ id: 'deleteBYOKKey', summary: 'Delete a provider key', params: id, statuses: [200, 401, 403, 404, 500] }),
    )
