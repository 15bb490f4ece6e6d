import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createSyncJob } from '../../src/resources/scim/operations.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { type IdentityProvider, openIdentityProvider } from '../support/scim.ts'
import { removeWorkspaceMember } from '../support/workspace-members.ts'

const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

let clock: TestClock
let gateway: Gateway
let app: ReturnType<typeof createApp>
let idp: IdentityProvider
let keys: Awaited<ReturnType<typeof createTestKeys>>
let workspace_id: string

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  app = createApp(gateway)
  idp = await openIdentityProvider(gateway)
  keys = await createTestKeys(gateway)
  workspace_id = (
    await createWorkspace(gateway, getOperator(gateway), { name: 'Other', slug: 'other' })
  ).data.id
})

async function ask(
  method: string,
  path: string,
  json?: unknown,
  key: string | null = keys.management,
) {
  const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` }
  const body = json === undefined ? {} : { body: JSON.stringify(json) }
  const response = await app.handle(
    new Request(`http://gateway.test/api/v1/scim${path}`, { method, headers, ...body }),
  )
  // biome-ignore lint/suspicious/noExplicitAny: a client reads JSON without types.
  return { status: response.status, body: (await response.json()) as any }
}

const map = async (scim_group_id: string, role = 'member') =>
  (await ask('POST', '/group-mappings', { scim_group_id, workspace_id, role })).body.data
const inWorkspace = async () =>
  (await gateway.store.members.listInWorkspace(workspace_id)).map(
    one => `${one.role} ${one.source}`,
  )

describe('a group mapping', () => {
  test('E1 is created with every field, and is applied: 201', async () => {
    const group = await idp.group('E', await idp.user('ada'))
    const { status, body } = await ask('POST', '/group-mappings', {
      scim_group_id: group,
      workspace_id,
      role: 'admin',
    })
    const time = '2026-03-04T05:06:07.000Z'
    const organization_id = gateway.memory.owner.user_id.replace('user_', 'org_')
    const mapping = {
      id: expect.any(String),
      organization_id,
      scim_group_id: group,
      workspace_id,
      role: 'admin',
      created_at: time,
      updated_at: time,
    }
    expect([status, body]).toEqual([201, { data: mapping }])
    expect(await inWorkspace()).toEqual(['admin scim'])
    expect((await ask('GET', `/group-mappings/${body.data.id}`)).body).toEqual(body)
  })

  test('E1 with the same role is applied again, and with another is 409', async () => {
    const group = await idp.group('E')
    const { id } = await map(group)
    expect(await map(group)).toMatchObject({ id, role: 'member' })
    const { status, body } = await ask('POST', '/group-mappings', {
      scim_group_id: group,
      workspace_id,
      role: 'admin',
    })
    expect([status, body.error.message]).toEqual([
      409,
      'This group already has another role in this workspace',
    ])
  })

  test('changes its role, and is deleted with or without its members', async () => {
    const group = await idp.group('E', await idp.user('ada'))
    const { id } = await map(group)
    clock.pass(1_000)
    const path = `/group-mappings/${id}`
    const refused = await ask('PATCH', path, { role: 'admin', workspace_id: UNKNOWN })
    expect([refused.status, refused.body.error.metadata.field]).toEqual([400, 'workspace_id'])
    const { status, body } = await ask('PATCH', path, { role: 'admin' })
    expect([status, body.data]).toMatchObject([
      200,
      { id, role: 'admin', workspace_id, updated_at: '2026-03-04T05:06:08.000Z' },
    ])
    expect(await inWorkspace()).toEqual(['admin scim'])
    expect((await ask('DELETE', `/group-mappings/${id}?keep_members=true`)).body).toEqual({
      deleted: true,
    })
    expect(await inWorkspace()).toEqual(['admin manual'])
  })

  test('is listed in pages, the oldest first, as groups are', async () => {
    const groups = [await idp.group('1'), await idp.group('2'), await idp.group('3')]
    for (const group of groups) await map(group)
    const page = (await ask('GET', '/group-mappings?offset=1&limit=1')).body
    expect([
      page.total_count,
      page.data.map((one: { scim_group_id: string }) => one.scim_group_id),
    ]).toEqual([3, [groups[1]]])
    const { data, total_count } = (await ask('GET', '/groups?limit=2')).body
    expect([total_count, data.length]).toEqual([3, 2])
    const time = '2026-03-04T05:06:07.000Z'
    const organization_id = gateway.memory.owner.user_id.replace('user_', 'org_')
    expect(data[0]).toEqual({
      id: groups[0],
      display_name: '1',
      external_id: null,
      organization_id,
      created_at: time,
      updated_at: time,
    })
  })
})

describe('refusals', () => {
  test('400: invalid values, and a deletion that does not say if members stay', async () => {
    const group = await idp.group('E')
    const { id } = await map(group)
    const good = { scim_group_id: group, workspace_id, role: 'member' }
    for (const [field, json] of [
      ['scim_group_id', { ...good, scim_group_id: 'x' }],
      ['workspace_id', { ...good, workspace_id: 5 }],
      ['role', { ...good, role: 'owner' }],
      ['role', { scim_group_id: group, workspace_id }],
    ] as const)
      expect((await ask('POST', '/group-mappings', json)).body.error).toMatchObject({
        code: 400,
        metadata: { field },
      })
    expect((await ask('PATCH', `/group-mappings/${id}`, {})).body.error).toMatchObject({
      code: 400,
      metadata: { field: 'role' },
    })
    for (const query of ['', '?keep_members=', '?keep_members=yes', '?keep_members=1'])
      expect((await ask('DELETE', `/group-mappings/${id}${query}`)).body.error).toMatchObject({
        code: 400,
        metadata: { field: 'keep_members' },
      })
    for (const query of ['limit=0', 'limit=101', 'offset=-1', 'offset=x'])
      for (const path of ['/groups', '/group-mappings'])
        expect((await ask('GET', `${path}?${query}`)).status).toBe(400)
    expect(await gateway.store.scim.mappings.count()).toBe(1)
  })

  test('404: a group, a workspace, a mapping and a job that do not exist', async () => {
    const group = await idp.group('E')
    const good = { scim_group_id: group, workspace_id, role: 'member' }
    expect((await ask('POST', '/group-mappings', { ...good, scim_group_id: UNKNOWN })).status).toBe(
      404,
    )
    expect((await ask('POST', '/group-mappings', { ...good, workspace_id: UNKNOWN })).status).toBe(
      404,
    )
    for (const id of [UNKNOWN, 'x', "'; drop table scim_groups; --"]) {
      expect((await ask('GET', `/group-mappings/${encodeURIComponent(id)}`)).status).toBe(404)
      expect(
        (await ask('PATCH', `/group-mappings/${encodeURIComponent(id)}`, { role: 'admin' })).status,
      ).toBe(404)
      expect(
        (await ask('DELETE', `/group-mappings/${encodeURIComponent(id)}?keep_members=true`)).status,
      ).toBe(404)
      expect((await ask('GET', `/sync-jobs/${encodeURIComponent(id)}`)).status).toBe(404)
    }
  })

  const DOORS: [method: string, path: string, json?: object][] = [
    ['GET', '/group-mappings'],
    ['POST', '/group-mappings', { scim_group_id: UNKNOWN, workspace_id: UNKNOWN, role: 'member' }],
    ['GET', `/group-mappings/${UNKNOWN}`],
    ['PATCH', `/group-mappings/${UNKNOWN}`, { role: 'admin' }],
    ['DELETE', `/group-mappings/${UNKNOWN}?keep_members=true`],
    ['GET', '/groups'],
    ['POST', '/sync-jobs'],
    ['GET', `/sync-jobs/${UNKNOWN}`],
  ]

  test.each(DOORS)(
    '401 and 403: %s %s, without a key, with an inference key, and with a key of one workspace',
    async (method, path, json) => {
      const foreign = (
        await createKey(
          gateway,
          getOperator(gateway),
          { name: 'other', workspace_id },
          'management',
        )
      ).key
      expect((await ask(method, path, json, null)).status).toBe(401)
      expect((await ask(method, path, json, idp.token)).status).toBe(401)
      for (const key of [keys.inference, foreign])
        expect((await ask(method, path, json, key)).status).toBe(403)
    },
  )

  test.each(DOORS)(
    '500: %s %s, when the store fails, without details',
    async (method, path, json) => {
      const fails = () => Promise.reject(new Error('canary'))
      const { mappings, groups, jobs } = gateway.store.scim
      for (const store of [mappings, groups, jobs])
        for (const name of Object.keys(store)) Object.assign(store, { [name]: fails })
      expect(await ask(method, path, json)).toMatchObject({
        status: 500,
        body: { error: { code: 500, message: 'Internal Server Error' } },
      })
    },
  )
})

describe('a sync job', () => {
  const ended = async (id: string) => {
    for (;;) {
      const { body } = await ask('GET', `/sync-jobs/${id}`)
      if (!['queued', 'running'].includes(body.data.status)) return body.data
      await Bun.sleep(1)
    }
  }

  test('is started with 202, applies every mapping again, and reports how many', async () => {
    const [ada, bob] = [await idp.user('ada'), await idp.user('bob')]
    await map(await idp.group('E', ada, bob))
    await idp.group('F')
    const [gone] = await gateway.store.members.listInWorkspace(workspace_id)
    await removeWorkspaceMember(gateway, getOperator(gateway), workspace_id, gone?.user_id ?? '')
    expect(await inWorkspace()).toEqual(['member scim'])
    const { status, body } = await ask('POST', '/sync-jobs')
    const nothing = {
      synced_groups: null,
      deleted_groups: null,
      error_message: null,
      started_at: null,
      finished_at: null,
    }
    expect([status, body.data]).toEqual([
      202,
      {
        id: expect.any(String),
        status: 'queued',
        created_at: '2026-03-04T05:06:07.000Z',
        ...nothing,
      },
    ])
    expect(await ended(body.data.id)).toMatchObject({
      status: 'succeeded',
      synced_groups: 2,
      deleted_groups: 0,
      error_message: null,
    })
    expect(await inWorkspace()).toEqual(['member scim', 'member scim'])
  })

  test('that fails reports no internal details', async () => {
    await map(await idp.group('E'))
    gateway.store.scim.jobs.apply = () => Promise.reject(new Error('canary'))
    const { body } = await ask('POST', '/sync-jobs')
    expect(await ended(body.data.id)).toMatchObject({
      status: 'failed',
      error_message: 'Internal Server Error',
      synced_groups: null,
    })
  })

  test('whose process has ended has failed after a minute, and stays so', async () => {
    const { jobs } = gateway.store.scim
    const { update } = jobs
    jobs.update = () => new Promise(() => undefined)
    const { data } = await createSyncJob(gateway, getOperator(gateway))
    jobs.update = update
    clock.pass(60_000)
    expect((await ask('GET', `/sync-jobs/${data.id}`)).body.data.status).toBe('queued')
    clock.pass(1)
    const said = {
      status: 'failed',
      error_message: 'The gateway was stopped before the sync ended. Please start another.',
    }
    expect((await ask('GET', `/sync-jobs/${data.id}`)).body.data).toMatchObject(said)
    await jobs.update(data.id, { status: 'succeeded' })
    expect(await jobs.byId(data.id)).toMatchObject({
      ...said,
      finished_at: '2026-03-04T05:07:07.001Z',
    })
  })
})
