import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { parseExact } from '../../src/base/json.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { createAuditEntry } from '../../src/resources/audit/entry.ts'
import { type AuditQuery, listAudit } from '../../src/resources/audit.ts'
import { createByokKey, deleteByokKey, updateByokKey } from '../../src/resources/byok.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createPreset, updatePreset } from '../../src/resources/presets.ts'
import { createFirstKeys } from '../../src/resources/workspaces.ts'
import { createApi } from '../support/api.ts'
import { createOtherWorkspace, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'

const SECRET = 'sk-canary-51d7-0123456789'
const OTHER = '00000000-0000-7000-8000-0000000000aa'
const FINGERPRINT = expect.stringMatching(/^hmac-sha256:[0-9a-f]{64}$/)

let clock: TestClock
let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

const list = (query: AuditQuery = {}, actor: Actor = getOperator(gateway)) =>
  listAudit(gateway, actor, query)
const newest = async () => (await list({ limit: 1 })).data[0]
const actions = async (query: AuditQuery = {}) => (await list(query)).data.map(one => one.action)

describe('GET /audit', () => {
  test('returns the actor, the resource before and after, and the changed fields', async () => {
    await updateKey(gateway, getOperator(gateway), keys.hash, { limit: 2.5, name: 'renamed' })
    const { status, json } = await ask('GET', '/audit?limit=1')
    expect(status).toBe(200)
    const common = {
      hash: keys.hash,
      kind: 'inference',
      disabled: false,
      external_user: null,
      external_api_key: null,
    }
    expect(json).toEqual({
      data: [
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          created_at: '2026-03-04T05:06:07.000Z',
          actor: 'operator',
          user_id: gateway.memory.owner.user_id,
          key_hash: null,
          workspace_id: gateway.memory.owner.workspace_id,
          action: 'keys.update',
          resource_id: keys.hash,
          before: expect.objectContaining({ ...common, name: 'inference', limit: null }),
          after: expect.objectContaining({ ...common, name: 'renamed', limit: 2.5 }),
          changed: ['name', 'limit', 'updated_at'],
        },
      ],
      total_count: 3,
    })
  })

  test('is paged, the newest first', async () => {
    for (const name of ['a', 'b', 'c']) await createKey(gateway, getOperator(gateway), { name })
    const named = async (query: string) =>
      ((await ask('GET', `/audit${query}`)).json.data as { after: { name: string } }[]).map(
        ({ after }) => after.name,
      )
    expect(await named('')).toEqual(['c', 'b', 'a', 'inference', 'management'])
    expect(await named('?limit=2')).toEqual(['c', 'b'])
    expect(await named('?offset=1&limit=2')).toEqual(['b', 'a'])
    expect(await named('?offset=9')).toEqual([])
    expect((await ask('GET', '/audit?offset=9')).json.total_count).toBe(5)
  })

  test('applies each filter, and all of them together', async () => {
    const { id } = (
      await createByokKey(gateway, getOperator(gateway), { provider: 'openai', key: SECRET })
    ).data
    await deleteByokKey(gateway, getOperator(gateway), id)
    const by: Actor = {
      kind: 'management',
      user_id: 'user_9',
      workspace_id: gateway.memory.owner.workspace_id,
      key_hash: 'h9',
    }
    await updateKey(gateway, by, keys.hash, { disabled: true })
    expect(await actions({ action: 'byok.create' })).toEqual(['byok.create'])
    expect(await actions({ resource_id: id })).toEqual(['byok.delete', 'byok.create'])
    expect(await actions({ user_id: 'user_9' })).toEqual(['keys.update'])
    expect(await actions({ key_hash: 'h9' })).toEqual(['keys.update'])
    expect(await actions({ workspace_id: gateway.memory.owner.workspace_id })).toHaveLength(5)
    expect(await actions({ workspace_id: OTHER })).toEqual([])
    expect(await actions({ resource_id: keys.hash, action: 'keys.create' })).toEqual([
      'keys.create',
    ])
    expect(await actions({ resource_id: keys.hash, user_id: 'nobody' })).toEqual([])
  })

  test('returns changes from one moment on and before another', async () => {
    clock.pass(1_000)
    await createKey(gateway, getOperator(gateway), { name: 'later' })
    const within = async (since: string, until: string) =>
      (await ask('GET', `/audit?since=${since}&until=${until}`)).json.total_count
    expect(await within('2026-03-04T05:06:07Z', '2026-03-04T05:06:08Z')).toBe(2)
    expect(await within('2026-03-04T05:06:08Z', '2026-03-04T05:06:08.001Z')).toBe(1)
    expect(await within('2026-03-04T05:06:07.000000001Z', '2026-03-05T00:00:00Z')).toBe(3)
    expect(await within('2026-03-04T05:06:08.001Z', '2026-03-05T00:00:00Z')).toBe(0)
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=x', 'limit'],
    ['offset=-1', 'offset'],
    ['since=yesterday', 'since'],
    ['since=2026-03-04T05:06Z', 'since'],
    ['until=2026-02-30T00:00:00Z', 'until'],
    ['workspace_id=default', 'workspace_id'],
    ['action=', 'action'],
    [`user_id=${'x'.repeat(1001)}`, 'user_id'],
  ])('refuses %s with 400 and names the field', async (query, field) => {
    const { status, json } = await ask('GET', `/audit?${query}`)
    expect([status, json.error.metadata.field]).toEqual([400, field])
  })

  test('is for management keys: 401 without a key, 403 for another kind', async () => {
    expect((await ask('GET', '/audit', { key: null })).status).toBe(401)
    expect((await ask('GET', '/audit', { key: 'gw-v1-nobody' })).status).toBe(401)
    const { status, json } = await ask('GET', '/audit', { key: keys.inference })
    expect([status, json.error.message]).toEqual([
      403,
      'Only management keys can perform this operation',
    ])
  })

  test('answers 500 without details when the store fails', async () => {
    gateway.store.audit.listPage = () => Promise.reject(new Error('canary: the disk is gone'))
    const { status, json } = await ask('GET', '/audit')
    expect([status, json.error.message]).toEqual([500, 'Internal Server Error'])
  })

  test('shows a key of another workspace only the changes in that workspace', async () => {
    const { key, data } = await createOtherWorkspace(gateway, OTHER)
    const inOther = async (query = '') =>
      ((await ask('GET', `/audit${query}`, { key })).json.data as { resource_id: string }[]).map(
        one => one.resource_id,
      )
    expect(await inOther()).toEqual([data.hash])
    expect(await inOther(`?workspace_id=${OTHER}`)).toEqual([data.hash])
    expect(await inOther(`?workspace_id=${gateway.memory.owner.workspace_id}`)).toEqual([])
    expect(await inOther(`?resource_id=${keys.hash}`)).toEqual([])
    expect((await ask('GET', '/audit', { key })).json.total_count).toBe(1)
    expect((await ask('GET', '/audit')).json.total_count).toBe(3)
  })

  test('shows changes without a workspace only to keys that manage everything', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const entry = createAuditEntry(
      gateway,
      getOperator(gateway),
      'things.create',
      { id: 'thing', workspace_id: null },
      null,
      {},
    )
    await gateway.store.audit.append(entry)
    expect((await ask('GET', '/audit?action=things.create', { key })).json.data).toEqual([])
    expect((await ask('GET', '/audit?action=things.create')).json.data).toHaveLength(1)
  })
})

describe('the audit trail', () => {
  test('keeps the entries of deleted resources', async () => {
    await deleteKey(gateway, getOperator(gateway), keys.hash)
    const { data } = await list({ resource_id: keys.hash })
    expect(
      data.map(({ action, before, after }) => [action, before === null, after === null]),
    ).toEqual([
      ['keys.delete', false, true],
      ['keys.create', true, false],
    ])
  })

  test('contains the first keys of a data directory, created by the operator', async () => {
    const fresh = await testGateway()
    await createFirstKeys(fresh)
    const { data } = await listAudit(fresh, getOperator(fresh), {})
    expect(data.map(({ action, actor, key_hash }) => [action, actor, key_hash])).toEqual([
      ['keys.create', 'operator', null],
      ['keys.create', 'operator', null],
    ])
  })

  test('contains changes only the terminal can make, such as disabling a preset', async () => {
    await createPreset(gateway, getOperator(gateway), 'brief', { system_prompt: null, config: {} })
    await updatePreset(gateway, getOperator(gateway), 'brief', { status: 'disabled' })
    expect(await newest()).toMatchObject({
      action: 'presets.update',
      changed: ['status', 'status_updated_at'],
    })
  })

  test('contains the whole preset before and after a new version', async () => {
    await createPreset(gateway, getOperator(gateway), 'brief', {
      system_prompt: 'Be brief',
      config: { temperature: 0 },
    })
    await createPreset(gateway, getOperator(gateway), 'brief', {
      system_prompt: 'Be brief',
      config: { temperature: 1 },
    })
    expect(await newest()).toMatchObject({
      before: { slug: 'brief', designated_version: { version: 1, config: { temperature: 0 } } },
      after: { slug: 'brief', designated_version: { version: 2, config: { temperature: 1 } } },
      changed: ['designated_version_id', 'designated_version'],
    })
  })
})

describe('a secret', () => {
  const keyTold = async () =>
    (await list({ limit: 1 })).data.map(({ after }) => (after as { key: string }).key)[0]

  test('of a provider is a fingerprint, equal for equal keys in any workspace', async () => {
    await createOtherWorkspace(gateway, OTHER)
    const create = async (input: object) =>
      (
        await createByokKey(gateway, getOperator(gateway), {
          provider: 'openai',
          key: SECRET,
          ...input,
        })
      ).data
    const { id } = await create({})
    const first = await keyTold()
    expect(first).toEqual(FINGERPRINT)
    await create({ workspace_id: OTHER, key: ` ${SECRET}\n` })
    expect(await keyTold()).toBe(first)
    await updateByokKey(gateway, getOperator(gateway), id, { key: `${SECRET}x` })
    expect(await newest()).toMatchObject({ before: { key: first }, changed: ['label', 'key'] })
    expect(await keyTold()).not.toBe(first)
    await updateByokKey(gateway, getOperator(gateway), id, { name: 'mine' })
    expect((await newest())?.changed).toEqual(['name'])
    expect(JSON.stringify(await list())).not.toContain('canary')
  })

  test('of a partner is a fingerprint too, and not the hash that identifies it', async () => {
    const external = { user: 'ada', api_key: 'canary-partner-key-0123456789-0123456789' }
    await createKey(gateway, getOperator(gateway), { name: 'ci', external })
    const hash = new Bun.CryptoHasher('sha256').update(external.api_key).digest('hex')
    const text = JSON.stringify(await newest())
    expect((await newest())?.after).toMatchObject({
      external_user: 'ada',
      external_api_key: FINGERPRINT,
    })
    expect([text.includes(hash), text.includes('canary')]).toEqual([false, false])
  })

  test('deep in a preset is a fingerprint too; other such values are not changed', async () => {
    const tool = {
      type: 'mcp',
      server_url: 'https://acme.example',
      authorization: 'canary-1',
      headers: { 'X-Acme': 'canary-2', Cookie: 'canary-3' },
    }
    const schema = { type: 'object', properties: { password: { type: 'string' } } }
    const parameters = parseExact('{"minimum":900719925474099312}')
    const config = {
      tools: [tool, { type: 'function', function: { name: 'login', parameters: schema } }],
      max_tokens: 5,
      audio: parameters,
    }
    await createPreset(gateway, getOperator(gateway), 'brief', { system_prompt: null, config })
    const entry = await newest()
    expect(entry?.after).toMatchObject({
      designated_version: {
        config: {
          tools: [
            {
              server_url: 'https://acme.example',
              authorization: FINGERPRINT,
              headers: { 'X-Acme': FINGERPRINT, Cookie: FINGERPRINT },
            },
            { function: { name: 'login', parameters: schema } },
          ],
          max_tokens: 5,
        },
      },
    })
    expect(JSON.stringify(entry)).toContain('900719925474099312')
    expect(JSON.stringify(entry)).not.toContain('canary')
  })
})

describe('with a data directory', () => {
  let data: string
  const opened: Gateway[] = []
  const open = async () => {
    const one = await openGateway({ data })
    opened.push(one)
    return one
  }

  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  })
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close()
    rmSync(data, { recursive: true, force: true })
  })

  test('the server reads what the terminal changes', async () => {
    const [server, terminal] = [await open(), await open()]
    await createKey(terminal, getOperator(terminal), { name: 'ci' })
    expect((await listAudit(server, getOperator(server), {})).data.map(one => one.action)).toEqual([
      'keys.create',
    ])
  })

  test('a fingerprint survives a restart; keys can be disabled without the secret', async () => {
    const before = await open()
    const { id } = (
      await createByokKey(before, getOperator(before), { provider: 'openai', key: SECRET })
    ).data
    const external = { user: 'ada', api_key: 'x'.repeat(32) }
    const { hash } = (await createKey(before, getOperator(before), { name: 'ci', external })).data
    const again = await open()
    await updateByokKey(again, getOperator(again), id, { key: SECRET })
    const told = (await listAudit(again, getOperator(again), { resource_id: id })).data.map(
      one => (one.after as { key: string }).key,
    )
    expect(told).toEqual([told[1] ?? '', told[1] ?? ''])
    writeFileSync(join(data, 'secret.key'), 'too short')
    const broken = await open()
    await deleteByokKey(broken, getOperator(broken), id)
    await deleteKey(broken, getOperator(broken), hash)
    const { data: entries } = await listAudit(broken, getOperator(broken), { limit: 2 })
    expect(entries.map(({ action, before: was }) => [action, was])).toMatchObject([
      ['keys.delete', { external_api_key: 'unknown' }],
      ['byok.delete', { key: null }],
    ])
  })
})
