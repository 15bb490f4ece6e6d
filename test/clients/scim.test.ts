import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  BadRequestResponseError,
  ConflictResponseError,
  NotFoundResponseError,
  UnauthorizedResponseError,
} from '@openrouter/sdk/models/errors'
import { GROUP_ID, USER_ID } from '../support/scim.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

let server: Server
let checker: Wirecheck | undefined
let client: OpenRouter
let base: string
let groups: string[]
let workspaceId: string

beforeAll(async () => {
  server = await startServer()
  checker = hasWirecheck ? await startWirecheck(server.url) : undefined
  base = `${checker?.url ?? server.url}/api/v1`
  client = clientWith(server.management_key)
  const { token } = JSON.parse(
    (
      await runGateway([
        'scim',
        'token',
        'create',
        '--name',
        'idp',
        '--json',
        '--data',
        server.data,
      ])
    ).stdout,
  )
  const made = async (path: string, body: object) => {
    const response = await server.fetch(`/scim/v2${path}`, { key: token, json: body })
    return ((await response.json()) as { id: string }).id
  }
  const user = await made('/Users', { schemas: [USER_ID], userName: 'ada@acme.example' })
  groups = await Promise.all(
    ['A', 'B', 'C'].map(displayName =>
      made('/Groups', {
        schemas: [GROUP_ID],
        displayName,
        externalId: displayName,
        members: [{ value: user }],
      }),
    ),
  )
  const { data } = (await (
    await server.fetch('/workspaces', { key: server.management_key })
  ).json()) as { data: { id: string }[] }
  workspaceId = data[0]?.id ?? ''
})
afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
})

const clientWith = (apiKey: string) =>
  new OpenRouter({ apiKey, serverURL: base, retryConfig: { strategy: 'none' } })

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const map = (scimGroupId: string, role: 'admin' | 'member') =>
  client.scim.create({ createScimGroupMappingRequest: { scimGroupId, workspaceId, role } })

describe('the official client', () => {
  test('lists groups page by page', async () => {
    const names: string[] = []
    for await (const page of await client.scim.listGroups({ limit: 2 }))
      names.push(...page.result.data.map(one => one.displayName))
    expect(names.sort()).toEqual(['A', 'B', 'C'])
  })

  test('creates, reads, updates, lists and deletes mappings', async () => {
    const { data } = await map(groups[0] ?? '', 'member')
    expect((await map(groups[0] ?? '', 'member')).data.id).toBe(data.id)
    expect((await client.scim.read({ id: data.id })).data).toEqual(data)
    const changed = await client.scim.update({
      id: data.id,
      updateScimGroupMappingRequest: { role: 'admin' },
    })
    expect(changed.data).toMatchObject({
      id: data.id,
      role: 'admin',
      organizationId: expect.stringMatching(/^org_/),
    })
    await map(groups[1] ?? '', 'admin')
    const roles: string[] = []
    for await (const page of await client.scim.listMappings({ limit: 1 }))
      roles.push(...page.result.data.map(one => one.role))
    expect(roles).toEqual(['admin', 'admin'])
    expect(await client.scim.delete({ id: data.id, keepMembers: false })).toEqual({ deleted: true })
  })

  test('starts a sync job and waits for its end', async () => {
    const { headers, result } = await client.scim.createSyncJob()
    const { data } = result
    expect(headers.location).toEqual([`/api/v1/scim/sync-jobs/${data.id}`])
    expect(data).toMatchObject({ status: 'queued', syncedGroups: null })
    for (;;) {
      const { data: job } = await client.scim.getSyncJob({ id: data.id })
      if (job.status === 'succeeded')
        return expect(job).toMatchObject({ syncedGroups: 3, deletedGroups: 0, errorMessage: null })
      expect(['queued', 'running']).toContain(job.status)
    }
  })

  test('gets refusals as typed errors', async () => {
    expect(await failureOf(map(UNKNOWN, 'member'))).toBeInstanceOf(NotFoundResponseError)
    expect(await failureOf(map(groups[1] ?? '', 'member'))).toBeInstanceOf(ConflictResponseError)
    const wrong = { scimGroupId: groups[1] ?? '', workspaceId: 'x', role: 'member' as const }
    expect(
      await failureOf(client.scim.create({ createScimGroupMappingRequest: wrong })),
    ).toBeInstanceOf(BadRequestResponseError)
    expect(await failureOf(client.scim.read({ id: UNKNOWN }))).toBeInstanceOf(NotFoundResponseError)
    expect(
      await failureOf(
        client.scim.update({ id: UNKNOWN, updateScimGroupMappingRequest: { role: 'admin' } }),
      ),
    ).toBeInstanceOf(NotFoundResponseError)
    expect(await failureOf(client.scim.delete({ id: UNKNOWN, keepMembers: true }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(client.scim.getSyncJob({ id: UNKNOWN }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    const nobody = clientWith('nobody').scim
    const doors = [
      nobody.listGroups(),
      nobody.listMappings(),
      nobody.createSyncJob(),
      nobody.read({ id: UNKNOWN }),
    ]
    for (const failure of await Promise.all(doors.map(failureOf)))
      expect(failure).toBeInstanceOf(UnauthorizedResponseError)
  })

  test.skipIf(!hasWirecheck)('every answer matches the public schema', async () => {
    const report = await checker?.report()
    expect(report?.violations).toEqual([])
    expect(Object.keys(report?.seen ?? {})).toEqual(
      expect.arrayContaining([
        ...[200, 401].flatMap(status => [
          `listScimGroups ${status}`,
          `listScimGroupMappings ${status}`,
        ]),
        ...[201, 400, 404, 409].map(status => `createScimGroupMapping ${status}`),
        ...[200, 401, 404].map(status => `getScimGroupMapping ${status}`),
        ...[200, 404].flatMap(status => [
          `updateScimGroupMapping ${status}`,
          `deleteScimGroupMapping ${status}`,
        ]),
      ]),
    )
  })
})
