import type { Gateway } from '../../../src/app/gateway.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createScimUser } from '../../../src/resources/scim/users.ts'
import { makeGroup, type RequestBuilder } from '../operations.ts'
import { GROUP_ID, PATCH_OP, SEARCH, USER_ID } from '../scim.ts'

const makeUser = async (gateway: Gateway) =>
  (
    await createScimUser(gateway, getOperator(gateway), {
      schemas: [USER_ID],
      userName: 'ada@acme.example',
    })
  ).id

/** Builds a valid request of each operation of one kind of resource. */
const buildResourceRequests = (
  type: string,
  one: (gateway: Gateway) => Promise<string>,
  resource: object,
  path: string,
): Record<string, RequestBuilder> => {
  const buildRequest =
    (body?: object): RequestBuilder =>
    async gateway => ({ params: { id: await one(gateway) }, ...(body ? { body } : {}) })
  const Operations = [{ op: 'replace', path, value: 'Others' }]
  return {
    [`listScim${type}Resources`]: async () => ({}),
    [`searchScim${type}Resources`]: async () => ({ body: { schemas: [SEARCH] } }),
    [`createScim${type}Resource`]: async () => ({ body: resource }),
    [`getScim${type}Resource`]: buildRequest(),
    [`replaceScim${type}Resource`]: buildRequest(resource),
    [`patchScim${type}Resource`]: buildRequest({ schemas: [PATCH_OP], Operations }),
    [`deleteScim${type}Resource`]: buildRequest(),
  }
}

/** A valid request of every operation of an identity provider, by operation id. */
export const PROVISIONING: Record<string, RequestBuilder> = {
  ...buildResourceRequests(
    'User',
    makeUser,
    { schemas: [USER_ID], userName: 'bob@acme.example' },
    'displayName',
  ),
  ...buildResourceRequests(
    'Group',
    makeGroup,
    { schemas: [GROUP_ID], displayName: 'Bobs' },
    'displayName',
  ),
  searchScim: async () => ({ body: { schemas: [SEARCH] } }),
  getScimServiceProviderConfig: async () => ({}),
  listScimResourceTypes: async () => ({}),
  getScimResourceType: async () => ({ params: { name: 'User' } }),
  listScimSchemas: async () => ({}),
  getScimSchema: async () => ({ params: { id: USER_ID } }),
}
