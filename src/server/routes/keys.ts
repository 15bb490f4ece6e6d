import { KeyChange, KeyQuery, NewKey } from '../../resources/keys/schema.ts'
import { createKey, deleteKey, getKey, listKeys, updateKey } from '../../resources/keys.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { hash: 'The key’s hash: lowercase hexadecimal SHA-256 of the key' }

/** Creates the routes of API keys: specification E2 and the rest of the resource. */
export const createKeyRoutes = defineResource({ tag: 'API Keys', access: 'management', params }, [
  defineRoute('GET /keys', 'list', 'List API keys', listKeys, { query: KeyQuery }),
  defineRoute('POST /keys', 'createKeys', 'Create an API key', createKey, {
    body: NewKey,
    status: 201,
  }),
  defineRoute('GET /keys/:hash', 'getKey', 'Get an API key', getKey),
  defineRoute('PATCH /keys/:hash', 'updateKeys', 'Change an API key', updateKey, {
    body: KeyChange,
  }),
  defineRoute('DELETE /keys/:hash', 'deleteKeys', 'Delete an API key', deleteKey),
])
