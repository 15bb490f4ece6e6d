import { afterAll, beforeAll, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  BadRequestResponseError,
  ForbiddenResponseError,
  NotFoundResponseError,
  UnauthorizedResponseError,
} from '@openrouter/sdk/models/errors'
import { type Server, startServer, runGateway as terminal } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

let server: Server
let checker: Wirecheck | null
let client: OpenRouter
let member: string

beforeAll(async () => {
  server = await startServer()
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  client = clientWith(server.management_key)
  const { stdout } = await terminal([
    'members',
    'create',
    '--email',
    'ada@acme.example',
    '--json',
    '--data',
    server.data,
  ])
  member = JSON.parse(stdout).data.id
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
})

const clientWith = (apiKey: string) =>
  new OpenRouter({
    apiKey,
    serverURL: `${checker?.url ?? server.url}/api/v1`,
    retryConfig: { strategy: 'none' },
  })

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const nameOf = (error: unknown) => (error instanceof Error ? error.constructor.name : 'none')

const create = async (slug: string, more: object = {}) =>
  (await client.workspaces.create({ createWorkspaceRequest: { name: 'Team', slug, ...more } })).data

test('workspaces are created, listed, read, updated and deleted', async () => {
  const made = await create('team', {
    ...{
      description: 'Ours',
      defaultTextModel: 'sandbox/echo',
      defaultImageModel: null,
      defaultProviderSort: 'price',
    },
    ...{
      ioLoggingSamplingRate: 1,
      ioLoggingApiKeyIds: null,
      isObservabilityBroadcastEnabled: false,
    },
    disabledServerTools: ['openrouter:web_search'],
  })
  expect(made).toMatchObject({
    slug: 'team',
    description: 'Ours',
    defaultTextModel: 'sandbox/echo',
    ioLoggingApiKeyIds: null,
  })
  const pages = await Array.fromAsync(await client.workspaces.list({ limit: 1 }))
  expect(pages.flatMap(page => page.result.data).map(one => one.slug)).toEqual(['default', 'team'])
  expect((await client.workspaces.get({ id: made.id })).data).toEqual(made)
  const { data: changed } = await client.workspaces.update({
    id: 'team',
    updateWorkspaceRequest: {
      name: 'Crew',
      slug: 'crew',
      defaultTextModel: null,
      disabledServerTools: null,
    },
  })
  expect(changed).toMatchObject({
    id: made.id,
    name: 'Crew',
    slug: 'crew',
    defaultTextModel: null,
    disabledServerTools: null,
  })
  expect(await client.workspaces.delete({ id: 'crew' })).toEqual({ deleted: true })
  expect(await failureOf(client.workspaces.get({ id: made.id }))).toBeInstanceOf(
    NotFoundResponseError,
  )
})

test('members are added to a workspace and removed', async () => {
  const team = await create('members')
  const people = (await Array.fromAsync(await client.organization.listMembers())).flatMap(
    page => page.result.data,
  )
  expect(people.map(one => [one.email, one.role])).toEqual([
    ['owner@localhost', 'org:admin'],
    ['ada@acme.example', 'org:member'],
  ])
  const added = await client.workspaces.bulkAddMembers({
    id: 'members',
    bulkAddWorkspaceMembersRequest: { userIds: [member] },
  })
  expect(added).toMatchObject({
    addedCount: 1,
    data: [{ userId: member, role: 'member', workspaceId: team.id }],
  })
  const listed = (
    await Array.fromAsync(await client.workspaces.listMembers({ id: team.id }))
  ).flatMap(page => page.result.data)
  expect(listed).toEqual(added.data)
  const everybody = (
    await Array.fromAsync(await client.workspaces.listMembers({ id: 'default' }))
  ).flatMap(page => page.result.data)
  expect(everybody.map(one => one.userId)).toEqual(people.map(one => one.id))
  const removing = { id: 'members', bulkRemoveWorkspaceMembersRequest: { userIds: [member] } }
  expect(await client.workspaces.bulkRemoveMembers(removing)).toEqual({ removedCount: 1 })
})

test('budgets are set, listed, read and deleted', async () => {
  const workspaceRef = (await create('spender')).id
  const monthly = await client.workspaces.setBudget({
    workspaceRef,
    interval: 'monthly',
    upsertWorkspaceBudgetRequest: { limitUsd: 500, includeByokInBudgets: true },
  })
  expect(monthly).toMatchObject({
    data: { limitUsd: 500, resetInterval: 'monthly', workspaceId: workspaceRef },
    includeByokInBudgets: true,
  })
  await client.workspaces.setBudget({
    workspaceRef,
    interval: 'lifetime',
    upsertWorkspaceBudgetRequest: { limitUsd: 5000 },
  })
  const listed = await client.workspaces.listBudgets({ workspaceRef: 'spender' })
  expect(listed.data.map(one => [one.resetInterval, one.limitUsd])).toEqual([
    [null, 5000],
    ['monthly', 500],
  ])
  expect(await client.workspaces.getBudget({ workspaceRef, interval: 'monthly' })).toEqual(monthly)
  const refused = await failureOf(
    client.workspaces.setBudget({
      workspaceRef,
      interval: 'weekly',
      upsertWorkspaceBudgetRequest: { limitUsd: 600 },
    }),
  )
  expect(refused).toBeInstanceOf(BadRequestResponseError)
  expect((refused as BadRequestResponseError).error.message).toBe(
    'Budget limits must be strictly decreasing as scope narrows: ' +
      'the monthly limit ($500) must be greater than the weekly limit ($600).',
  )
  expect(await client.workspaces.deleteBudget({ workspaceRef, interval: 'monthly' })).toEqual({
    deleted: true,
  })
  expect(
    await failureOf(client.workspaces.getBudget({ workspaceRef, interval: 'monthly' })),
  ).toBeInstanceOf(NotFoundResponseError)
})

/** Lists every operation of this client on this workspace. */
const operationsOf = (
  { workspaces, organization }: OpenRouter,
  id: string,
): Record<string, () => PromiseLike<unknown>> => ({
  listWorkspaces: () => workspaces.list(),
  createWorkspace: () =>
    workspaces.create({ createWorkspaceRequest: { name: 'x', slug: `new-${id}` } }),
  getWorkspace: () => workspaces.get({ id }),
  updateWorkspace: () => workspaces.update({ id, updateWorkspaceRequest: { name: 'x' } }),
  deleteWorkspace: () => workspaces.delete({ id }),
  listWorkspaceMembers: () => workspaces.listMembers({ id }),
  bulkAddWorkspaceMembers: () =>
    workspaces.bulkAddMembers({ id, bulkAddWorkspaceMembersRequest: { userIds: [member] } }),
  bulkRemoveWorkspaceMembers: () =>
    workspaces.bulkRemoveMembers({ id, bulkRemoveWorkspaceMembersRequest: { userIds: [member] } }),
  listWorkspaceBudgets: () => workspaces.listBudgets({ workspaceRef: id }),
  getWorkspaceBudget: () => workspaces.getBudget({ workspaceRef: id, interval: 'daily' }),
  upsertWorkspaceBudget: () =>
    workspaces.setBudget({
      workspaceRef: id,
      interval: 'daily',
      upsertWorkspaceBudgetRequest: { limitUsd: 1 },
    }),
  deleteWorkspaceBudget: () => workspaces.deleteBudget({ workspaceRef: id, interval: 'daily' }),
  listOrganizationMembers: () => organization.listMembers(),
})

const OF_ALL = ['listWorkspaces', 'createWorkspace', 'listOrganizationMembers']

test('refusals arrive as typed errors, from every operation', async () => {
  const failures = async (of: OpenRouter, id: string, names?: string[]) => {
    const operations = Object.entries(operationsOf(of, id)).filter(
      ([name]) => names?.includes(name) ?? true,
    )
    return Promise.all(
      operations.map(async ([name, call]) => [name, nameOf(await failureOf(call()))]),
    )
  }
  const all = Object.keys(operationsOf(client, ''))
  const alike = (names: string[], error: { name: string }) => names.map(name => [name, error.name])
  expect(await failures(clientWith('gw-v1-nobody'), 'default')).toEqual(
    alike(all, UnauthorizedResponseError),
  )
  // The client types a 403 only for operations that document it. The answer is the same for all.
  const forbidden = [
    'createWorkspace',
    'updateWorkspace',
    'deleteWorkspace',
    'listWorkspaceMembers',
    'bulkAddWorkspaceMembers',
    'bulkRemoveWorkspaceMembers',
  ]
  expect(await failures(clientWith(server.inference_key), 'default', forbidden)).toEqual(
    alike(forbidden, ForbiddenResponseError),
  )
  const ofOne = all.filter(name => !OF_ALL.includes(name))
  expect(await failures(client, 'none', ofOne)).toEqual(alike(ofOne, NotFoundResponseError))
})

test('an impossible change is a 400, from every operation that documents it', async () => {
  await create('full')
  const { data } = await client.apiKeys.create({
    requestBody: { name: 'x', workspaceId: (await client.workspaces.get({ id: 'full' })).data.id },
  })
  const attempts = [
    client.workspaces.create({ createWorkspaceRequest: { name: 'x', slug: 'full' } }),
    client.workspaces.update({ id: 'full', updateWorkspaceRequest: { slug: 'default' } }),
    client.workspaces.delete({ id: 'full' }),
    client.workspaces.delete({ id: 'default' }),
    client.workspaces.bulkAddMembers({
      id: 'full',
      bulkAddWorkspaceMembersRequest: { userIds: ['nobody'] },
    }),
    client.workspaces.bulkRemoveMembers({
      id: 'full',
      bulkRemoveWorkspaceMembersRequest: { userIds: ['nobody'] },
    }),
    client.workspaces.getBudget({ workspaceRef: 'full', interval: 'yearly' as 'daily' }),
    client.workspaces.deleteBudget({ workspaceRef: 'full', interval: 'yearly' as 'daily' }),
    client.workspaces.setBudget({
      workspaceRef: 'full',
      interval: 'daily',
      upsertWorkspaceBudgetRequest: { limitUsd: 0 },
    }),
  ]
  expect(await Promise.all(attempts.map(async one => nameOf(await failureOf(one))))).toEqual(
    attempts.map(() => BadRequestResponseError.name),
  )
  await client.apiKeys.delete({ hash: data.hash })
  expect(await client.workspaces.delete({ id: 'full' })).toEqual({ deleted: true })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = (await checker?.report()) ?? { seen: {}, violations: [] }
    expect(violations).toEqual([])
    const expected = Object.keys(operationsOf(client, '')).flatMap(name => [
      `${name} ${name === 'createWorkspace' ? 201 : 200}`,
      `${name} 401`,
    ])
    const refused = [
      'createWorkspace 400',
      'createWorkspace 403',
      'updateWorkspace 400',
      'updateWorkspace 403',
      'updateWorkspace 404',
    ]
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        ...expected,
        ...refused,
        'deleteWorkspace 400',
        'deleteWorkspace 404',
      ]),
    )
  },
)
