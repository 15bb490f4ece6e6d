import { beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { assignKeys, assignMembers, unassignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember } from '../../src/resources/members.ts'
import { getOrganizationId } from '../../src/resources/organization.ts'
import { createApi } from '../support/api.ts'
import {
  createOtherWorkspace,
  createTestKeys,
  type TestClock,
  testGateway,
} from '../support/gateway.ts'

const OTHER = '019aa000-0000-7000-8000-0000000000aa'

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

const create = async (more: object = {}) =>
  (await createGuardrail(gateway, getOperator(gateway), { name: 'rules', ...more })).data.id
const newKey = async (more: object = {}) =>
  (await createKey(gateway, getOperator(gateway), { name: 'k', ...more })).data
const newMember = async (email: string) =>
  (await addMember(gateway, getOperator(gateway), { email })).id

const stored = async () =>
  [...(await gateway.store.assignments.all())]
    .map(one => [one.kind, one.assignee, one.guardrail_id])
    .toSorted()

describe('assigning keys', () => {
  test('returns how many changed, and a key has at most one guardrail', async () => {
    const [first, second] = [await create(), await create()]
    const [a, b] = [await newKey(), await newKey()]
    const assign = async (id: string, ...key_hashes: string[]) =>
      (await ask('POST', `/guardrails/${id}/assignments/keys`, { body: { key_hashes } })).json
    expect(await assign(first, a.hash, b.hash, a.hash)).toEqual({ assigned_count: 2 })
    expect(await assign(first, a.hash)).toEqual({ assigned_count: 0 })
    expect(await assign(second, a.hash, b.hash)).toEqual({ assigned_count: 2 })
    expect(await assign(first, b.hash)).toEqual({ assigned_count: 1 })
    const expected = [
      ['key', a.hash, second],
      ['key', b.hash, first],
    ].toSorted()
    expect(await stored()).toEqual(expected)
    expect(
      [...gateway.memory.assignments.values()]
        .map(one => [one.kind, one.assignee, one.guardrail_id])
        .toSorted(),
    ).toEqual(expected)
  })

  test('with an unknown one assigns none, and says how many are unknown', async () => {
    const id = await create()
    await createOtherWorkspace(gateway, OTHER)
    const theirs = await newKey({ workspace_id: OTHER })
    const body = { key_hashes: [keys.hash, '0'.repeat(64), theirs.hash] }
    const { status, json } = await ask('POST', `/guardrails/${id}/assignments/keys`, { body })
    expect([status, json.error.message]).toEqual([
      400,
      'key_hashes: expected API keys of the guardrail’s workspace; 2 of 3 are not',
    ])
    expect(json.error.metadata.field).toBe('key_hashes')
    expect(await stored()).toEqual([])
  })

  test.each([
    {},
    { key_hashes: [] },
    { key_hashes: [''] },
    { key_hashes: [1] },
    { key_hashes: 'a' },
    { key_hashes: Array(1001).fill('a') },
  ])('refuses %j', async body => {
    const id = await create()
    expect((await ask('POST', `/guardrails/${id}/assignments/keys`, { body })).status).toBe(400)
    expect((await ask('POST', `/guardrails/${id}/assignments/keys/remove`, { body })).status).toBe(
      400,
    )
  })

  test('assigns a thousand at once', async () => {
    const id = await create()
    const key_hashes: string[] = []
    for (let i = 0; i < 1000; i++) key_hashes.push((await newKey()).hash)
    expect(
      (await ask('POST', `/guardrails/${id}/assignments/keys`, { body: { key_hashes } })).json,
    ).toEqual({ assigned_count: 1000 })
    expect(
      (await ask('POST', `/guardrails/${id}/assignments/keys/remove`, { body: { key_hashes } }))
        .json,
    ).toEqual({
      unassigned_count: 1000,
    })
  })

  test('ends with the key', async () => {
    const id = await create()
    const { hash } = await newKey()
    await assignKeys(gateway, getOperator(gateway), id, { key_hashes: [hash] })
    await deleteKey(gateway, getOperator(gateway), hash)
    expect(await stored()).toEqual([])
    expect((await ask('GET', '/guardrails/assignments/keys')).json).toEqual({
      data: [],
      total_count: 0,
    })
  })

  test('answers 409 when the guardrail is gone meanwhile, 500 when the store fails', async () => {
    const id = await create()
    const { assign } = gateway.store.assignments
    gateway.store.assignments.assign = async (assignments, entry) => {
      await gateway.store.guardrails.remove(id, { ...entry, id: 'another' })
      await assign(assignments, entry)
    }
    const body = { key_hashes: [keys.hash] }
    expect((await ask('POST', `/guardrails/${id}/assignments/keys`, { body })).status).toBe(409)
    gateway.store.assignments.assign = () => Promise.reject(new Error('disk'))
    expect((await ask('POST', `/guardrails/${id}/assignments/keys`, { body })).status).toBe(500)
    expect(gateway.memory.assignments.size).toBe(0)
  })
})

describe('unassigning keys', () => {
  test('returns how many had it, without other and unknown keys', async () => {
    const [first, second] = [await create(), await create()]
    const [a, b] = [await newKey(), await newKey()]
    await assignKeys(gateway, getOperator(gateway), first, { key_hashes: [a.hash] })
    await assignKeys(gateway, getOperator(gateway), second, { key_hashes: [b.hash] })
    const body = { key_hashes: [a.hash, a.hash, b.hash, 'nobody'] }
    const take = async () =>
      (await ask('POST', `/guardrails/${first}/assignments/keys/remove`, { body })).json
    expect(await take()).toEqual({ unassigned_count: 1 })
    expect(await take()).toEqual({ unassigned_count: 0 })
    expect(await stored()).toEqual([['key', b.hash, second]])
  })
})

describe('members', () => {
  const path = (id: string, more = '') => `/guardrails/${id}/assignments/members${more}`

  test('are assigned one guardrail each, and it can be removed', async () => {
    const [first, second] = [await create(), await create()]
    const [ada, bob] = [await newMember('ada@example.com'), await newMember('bob@example.com')]
    const member_user_ids = [ada, bob, gateway.memory.owner.user_id]
    expect((await ask('POST', path(first), { body: { member_user_ids } })).json).toEqual({
      assigned_count: 3,
    })
    expect((await ask('POST', path(second), { body: { member_user_ids: [ada] } })).json).toEqual({
      assigned_count: 1,
    })
    expect((await ask('POST', path(first, '/remove'), { body: { member_user_ids } })).json).toEqual(
      { unassigned_count: 2 },
    )
    expect(await stored()).toEqual([['member', ada, second]])
  })

  test('unknown or removed are refused with their number', async () => {
    const id = await create()
    const [ada, gone] = [await newMember('ada@example.com'), await newMember('gone@example.com')]
    await deactivateMember(gateway, getOperator(gateway), gone)
    const { status, json } = await ask('POST', path(id), {
      body: { member_user_ids: [ada, gone, 'user_nobody'] },
    })
    expect([status, json.error.message]).toEqual([
      400,
      'member_user_ids: expected members of the organization; 2 of 3 are not',
    ])
    expect(await stored()).toEqual([])
    for (const body of [{}, { member_user_ids: [] }, { member_user_ids: [7] }]) {
      expect((await ask('POST', path(id), { body })).status).toBe(400)
      expect((await ask('POST', path(id, '/remove'), { body })).status).toBe(400)
    }
  })

  test('belong to the organization: other workspaces’ keys cannot assign to them', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const id = await create({ workspace_id: OTHER })
    const body = { member_user_ids: [gateway.memory.owner.user_id] }
    expect((await ask('POST', path(id), { body, key })).status).toBe(403)
    expect((await ask('POST', path(id, '/remove'), { body, key })).status).toBe(403)
    expect((await ask('POST', path(id), { body })).json).toEqual({ assigned_count: 1 })
    expect((await ask('GET', path(id), { key })).json.total_count).toBe(1)
  })

  test('bind members in all workspaces: other workspaces’ keys cannot loosen or delete them', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const id = await create({ workspace_id: OTHER, allowed_models: ['sandbox/echo'] })
    const body = { member_user_ids: [gateway.memory.owner.user_id] }
    const loosen = (by: object) =>
      ask('PATCH', `/guardrails/${id}`, { body: { allowed_models: null }, ...by })
    expect((await loosen({ key })).status).toBe(200)
    await ask('POST', path(id), { body })
    expect((await loosen({ key })).status).toBe(403)
    expect((await ask('DELETE', `/guardrails/${id}`, { key })).status).toBe(403)
    expect((await loosen({})).status).toBe(200)
    await ask('POST', path(id, '/remove'), { body })
    expect((await ask('DELETE', `/guardrails/${id}`, { key })).status).toBe(200)
  })
})

describe('the lists', () => {
  test('page through keys, by guardrail and overall, oldest assignment first', async () => {
    const [first, second] = [await create(), await create()]
    const made = [
      await newKey({ name: 'a' }),
      await newKey({ name: 'b' }),
      await newKey({ name: 'c' }),
    ]
    for (const [i, { hash }] of made.entries()) {
      await assignKeys(gateway, getOperator(gateway), i === 1 ? second : first, {
        key_hashes: [hash],
      })
      ;(gateway.clock as TestClock).pass(1000)
    }
    const { json } = await ask('GET', `/guardrails/${first}/assignments/keys`)
    expect(json).toEqual({
      data: [0, 2].map(i => ({
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        guardrail_id: first,
        key_hash: made[i]?.hash,
        key_name: made[i]?.name,
        key_label: made[i]?.label,
        assigned_by: gateway.memory.owner.user_id,
        created_at: `2026-03-04T05:06:0${7 + i}.000Z`,
      })),
      total_count: 2,
    })
    const names = async (query: string) =>
      (await ask('GET', `/guardrails/assignments/keys${query}`)).json.data.map(
        (one: { key_name: string }) => one.key_name,
      )
    expect([await names(''), await names('?offset=1&limit=1'), await names('?offset=5')]).toEqual([
      ['a', 'b', 'c'],
      ['b'],
      [],
    ])
    for (const query of ['limit=0', 'limit=101', 'offset=-1', 'offset=x'])
      for (const path of [
        '/guardrails/assignments/keys',
        '/guardrails/assignments/members',
        `/guardrails/${first}/assignments/keys`,
      ])
        expect((await ask('GET', `${path}?${query}`)).status).toBe(400)
  })

  test('show members with their organization', async () => {
    const id = await create()
    await assignMembers(gateway, getOperator(gateway), id, {
      member_user_ids: [gateway.memory.owner.user_id],
    })
    const expected = {
      data: [
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          guardrail_id: id,
          user_id: gateway.memory.owner.user_id,
          organization_id: getOrganizationId(gateway),
          assigned_by: gateway.memory.owner.user_id,
          created_at: '2026-03-04T05:06:07.000Z',
        },
      ],
      total_count: 1,
    }
    expect((await ask('GET', '/guardrails/assignments/members')).json).toEqual(expected)
    expect((await ask('GET', `/guardrails/${id}/assignments/members`)).json).toEqual(expected)
    expect((await ask('GET', `/guardrails/${id}/assignments/keys`)).json).toEqual({
      data: [],
      total_count: 0,
    })
  })

  test('show a key of another workspace only its own', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const [ours, theirs] = [await create(), await create({ workspace_id: OTHER })]
    const other = await newKey({ workspace_id: OTHER })
    await assignKeys(gateway, getOperator(gateway), ours, { key_hashes: [keys.hash] })
    await assignKeys(gateway, getOperator(gateway), theirs, { key_hashes: [other.hash] })
    const listed = async (more: object) =>
      (await ask('GET', '/guardrails/assignments/keys', more)).json.total_count
    expect([await listed({}), await listed({ key })]).toEqual([2, 1])
  })
})

test('changes of another process take effect', async () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const server = await openGateway({ data })
  const { data: key } = await createKey(server, getOperator(server), { name: 'k' })
  const terminal = await openGateway({ data })
  const { data: made } = await createGuardrail(terminal, getOperator(terminal), { name: 'rules' })
  const assigned = () => [...server.memory.assignments.values()].map(one => one.assignee)
  await assignKeys(terminal, getOperator(terminal), made.id, { key_hashes: [key.hash] })
  await server.catchUp()
  expect(assigned()).toEqual([key.hash])
  await unassignKeys(terminal, getOperator(terminal), made.id, { key_hashes: [key.hash] })
  await server.catchUp()
  expect(assigned()).toEqual([])
  await Promise.all([server.close(), terminal.close()])
  rmSync(data, { recursive: true })
})
