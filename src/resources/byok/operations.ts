import { createByokKey, deleteByokKey, getByokKey, listByokKeys, updateByokKey } from '../byok.ts'
import { defineNoun, defineOperation } from '../operation.ts'
import { ByokChange, ByokQuery, NewByokKey } from './schema.ts'

const params = { id: 'The provider key’s id' }

/** What can be done with callers' own provider keys (wire reference B.2). */
export const byok = defineNoun(
  { tag: 'BYOK', access: 'management', params },
  {
    list: defineOperation('GET /byok', 'listBYOKKeys', 'List provider keys', listByokKeys, {
      query: ByokQuery,
    }),
    create: defineOperation('POST /byok', 'createBYOKKey', 'Add a provider key', createByokKey, {
      body: NewByokKey,
      status: 201,
    }),
    get: defineOperation('GET /byok/:id', 'getBYOKKey', 'Get a provider key', getByokKey),
    update: defineOperation(
      'PATCH /byok/:id',
      'updateBYOKKey',
      'Change a provider key',
      updateByokKey,
      {
        body: ByokChange,
      },
    ),
    delete: defineOperation(
      'DELETE /byok/:id',
      'deleteBYOKKey',
      'Delete a provider key',
      deleteByokKey,
    ),
  },
)
