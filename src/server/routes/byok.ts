import { ByokChange, ByokQuery, NewByokKey } from '../../resources/byok/schema.ts'
import {
  createByokKey,
  deleteByokKey,
  getByokKey,
  listByokKeys,
  updateByokKey,
} from '../../resources/byok.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { id: 'The provider key’s id' }

/** Creates the routes of callers' own provider keys (wire reference B.2). */
export const createByokRoutes = defineResource({ tag: 'BYOK', access: 'management', params }, [
  defineRoute('GET /byok', 'listBYOKKeys', 'List provider keys', listByokKeys, {
    query: ByokQuery,
  }),
  defineRoute('POST /byok', 'createBYOKKey', 'Add a provider key', createByokKey, {
    body: NewByokKey,
    status: 201,
  }),
  defineRoute('GET /byok/:id', 'getBYOKKey', 'Get a provider key', getByokKey),
  defineRoute('PATCH /byok/:id', 'updateBYOKKey', 'Change a provider key', updateByokKey, {
    body: ByokChange,
  }),
  defineRoute('DELETE /byok/:id', 'deleteBYOKKey', 'Delete a provider key', deleteByokKey),
])
