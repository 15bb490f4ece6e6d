import type { Actor } from '../actor.ts'
import { createKey, deleteKey, getKey, listKeys, updateKey } from '../keys.ts'
import { defineNoun, defineOperation, defineTerminalOperation } from '../operation.ts'
import type { IdentityWorld } from '../world.ts'
import type { rotateKey } from './rotation.ts'
import { KeyChange, KeyListQuery, KeyQuery, KeyRotation, NewKey } from './schema.ts'

const params = { hash: 'The key’s hash: lowercase hexadecimal SHA-256 of the key' }

/** Gives a key a new secret. What that needs is loaded with the first one. */
const rotate: typeof rotateKey = async (...asked) =>
  (await import('./rotation.ts')).rotateKey(...asked)

/** What can be done with API keys (specification E2). */
export const keys = defineNoun(
  { tag: 'API Keys', access: 'management', members: true, params },
  {
    list: defineOperation('GET /keys', 'list', 'List API keys', listKeys, {
      query: KeyQuery,
      terminal: KeyListQuery,
    }),
    create: defineOperation('POST /keys', 'createKeys', 'Create an API key', createKey, {
      body: NewKey,
      status: 201,
    }),
    createManagement: defineTerminalOperation(
      (world: IdentityWorld, actor: Actor, input: NewKey) =>
        createKey(world, actor, input, 'management'),
      NewKey,
    ),
    get: defineOperation('GET /keys/:hash', 'getKey', 'Get an API key', getKey),
    update: defineOperation('PATCH /keys/:hash', 'updateKeys', 'Change an API key', updateKey, {
      body: KeyChange,
    }),
    rotate: defineOperation('POST /keys/:hash/rotate', 'rotateKey', 'Rotate an API key', rotate, {
      body: KeyRotation,
      refusals: [409],
    }),
    delete: defineOperation('DELETE /keys/:hash', 'deleteKeys', 'Delete an API key', deleteKey),
  },
)
