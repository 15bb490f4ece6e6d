import type { Gateway } from '../../../src/core/gateway.ts'
import { operator } from '../../../src/core/identity/actor.ts'
import { createScimUser } from '../../../src/core/identity/scim/users.ts'
import { type Asking, groupOf } from '../operations.ts'
import { GROUP_ID, PATCH_OP, SEARCH, USER_ID } from '../scim.ts'

const userOf = async (gateway: Gateway) =>
  (
    await createScimUser(gateway, operator(gateway), {
      schemas: [USER_ID],
      userName: 'ada@acme.example',
    })
  ).id

/** Builds a valid request of each operation of one kind of resource. */
const resources = (
  type: string,
  one: (gateway: Gateway) => Promise<string>,
  resource: object,
  path: string,
): Record<string, Asking> => {
  const ofOne =
    (body?: object): Asking =>
    async gateway => ({ params: { id: await one(gateway) }, ...(body ? { body } : {}) })
  const Operations = [{ op: 'replace', path, value: 'Others' }]
  return {
    [`listScim${type}Resources`]: async () => ({}),
    [`searchScim${type}Resources`]: async () => ({ body: { schemas: [SEARCH] } }),
    [`createScim${type}Resource`]: async () => ({ body: resource }),
    [`getScim${type}Resource`]: ofOne(),
    [`replaceScim${type}Resource`]: ofOne(resource),
    [`patchScim${type}Resource`]: ofOne({ schemas: [PATCH_OP], Operations }),
    [`deleteScim${type}Resource`]: ofOne(),
  }
}

/** A valid request of every operation of an identity provider, by operation id. */
export const PROVISIONING: Record<string, Asking> = {
  ...resources('User', userOf, { schemas: [USER_ID], userName: 'bob@acme.example' }, 'displayName'),
  ...resources('Group', groupOf, { schemas: [GROUP_ID], displayName: 'Bobs' }, 'displayName'),
  searchScim: async () => ({ body: { schemas: [SEARCH] } }),
  getScimServiceProviderConfig: async () => ({}),
  listScimResourceTypes: async () => ({}),
  getScimResourceType: async () => ({ params: { name: 'User' } }),
  listScimSchemas: async () => ({}),
  getScimSchema: async () => ({ params: { id: USER_ID } }),
}
