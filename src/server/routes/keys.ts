import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { KeyChange, KeyQuery, NewKey } from '../../core/identity/keys/schema.ts'
import { createKey, deleteKey, getKey, listKeys, updateKey } from '../../core/identity/keys.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const keysOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'API Keys', ...described })
const hash = { hash: 'The key’s hash: lowercase hexadecimal SHA-256 of the key' }

/** API keys: specification E2 and the rest of the resource. */
export const keys = (gateway: Gateway) =>
  new Elysia({ prefix: '/keys' })
    .use(managementKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listKeys(gateway, actor, readQuery(request.url, KeyQuery)),
      keysOperation({ id: 'list', summary: 'List API keys', query: KeyQuery, statuses: [200, 400, 401, 403, 500] }),
    )
    .post(
      '/',
      async ({ actor, request, set }) => {
        const created = await createKey(gateway, actor, await readBody(request, NewKey))
        set.status = 201
        return created
      },
      keysOperation({ id: 'createKeys', summary: 'Create an API key', body: NewKey, statuses: [201, 400, 401, 403, 500] }),
    )
    .get(
      '/:hash',
      ({ actor, params }) => getKey(gateway, actor, params.hash),
      keysOperation({ id: 'getKey', summary: 'Get an API key', params: hash, statuses: [200, 401, 403, 404, 500] }),
    )
    .patch(
      '/:hash',
      async ({ actor, params, request }) => updateKey(gateway, actor, params.hash, await readBody(request, KeyChange)),
      keysOperation({
        id: 'updateKeys',
        summary: 'Change an API key',
        params: hash,
        body: KeyChange,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .delete(
      '/:hash',
      ({ actor, params }) => deleteKey(gateway, actor, params.hash),
      keysOperation({ id: 'deleteKeys', summary: 'Delete an API key', params: hash, statuses: [200, 401, 403, 404, 500] }),
    )
