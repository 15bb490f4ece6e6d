import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { createDestination, getDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApi } from '../support/api.ts'
import { createOtherWorkspace, createTestKeys, testGateway } from '../support/gateway.ts'

const SECRET = 'sk-canary-51d7-0123456789'
const OTHER = '00000000-0000-7000-8000-0000000000aa'
const PATH = '/observability/destinations'
const LANGFUSE = { publicKey: 'pk-lf-0123456789', secretKey: SECRET }
const HOOK = {
  type: 'webhook',
  name: 'hook',
  config: { url: 'https://hooks.example.com/a', headers: { Authorization: `Bearer ${SECRET}` } },
}

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let api: ReturnType<typeof createApi>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  api = createApi(gateway, keys.management)
})
afterEach(() => gateway.close())

/** Calls the API as the management key. No answer has a secret. */
async function ask(...asked: Parameters<typeof api>) {
  const answer = await api(...asked)
  expect(JSON.stringify(answer)).not.toContain('canary')
  return answer
}
const create = (body: object = {}) => ask('POST', PATH, { body: { ...HOOK, ...body } })
const update = (id: string, body: object) => ask('PATCH', `${PATH}/${id}`, { body })
const getOpened = (id: string) => gateway.memory.destinations.get(id)

describe('POST /observability/destinations', () => {
  test('answers 201 with every field, and secrets masked', async () => {
    const { status, json } = await create()
    expect(status).toBe(201)
    expect(json.data).toEqual({
      id: expect.any(String),
      workspace_id: gateway.memory.owner.workspace_id,
      type: 'webhook',
      name: 'hook',
      config: {
        url: 'https://hooks.example.com/a',
        method: 'POST',
        headers: { Authorization: 'Bear...6789' },
      },
      enabled: true,
      api_key_hashes: null,
      regions: ['global'],
      broadcast_generation_cost: false,
      broadcast_generation_identity: false,
      broadcast_generation_request_context: false,
      filter_rules: null,
      privacy_mode: false,
      sampling_rate: 1,
      created_at: '2026-03-04T05:06:07.000Z',
      warning: expect.stringContaining('is_observability_broadcast_enabled is off'),
      updated_at: '2026-03-04T05:06:07.000Z',
    })
    const langfuse = await create({ type: 'langfuse', name: 'team', config: LANGFUSE })
    expect(langfuse.json.data.config).toEqual({
      baseUrl: 'https://us.cloud.langfuse.com',
      publicKey: expect.any(String),
      secretKey: 'sk-c...6789',
    })
    expect(await ask('GET', PATH)).toMatchObject({
      json: { total_count: 2, data: [json.data, langfuse.json.data] },
    })
    expect((await ask('GET', `${PATH}/${json.data.id}`)).json).toEqual(json)
  })

  test('keeps every setting; eu is europe', async () => {
    const settings = {
      enabled: false,
      api_key_hashes: [keys.hash],
      broadcast_generation_cost: true,
      broadcast_generation_identity: true,
      broadcast_generation_request_context: true,
      filter_rules: {
        enabled: false,
        groups: [
          { logic: 'or', rules: [{ field: 'model', operator: 'regex', value: '^(a|b)+$' }] },
          { rules: [{ field: 'total_cost', operator: 'gte', value: 0.5 }] },
        ],
      },
      privacy_mode: true,
      sampling_rate: 0.0001,
    }
    const { json } = await create({ ...settings, regions: ['eu', 'us', 'europe'] })
    expect(json.data).toMatchObject({ ...settings, regions: ['europe', 'us'] })
  })

  const rule = (field: string, operator: string, value?: unknown) => ({
    filter_rules: { groups: [{ rules: [{ field, operator, value }] }] },
  })
  const RULE = 'filter_rules.groups.0.rules.0'
  const config = (more: object) => ({ config: { url: 'https://hooks.example.com/a', ...more } })

  test.each<[string, object, string]>([
    ['no name', { name: undefined }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a long name', { name: 'x'.repeat(256) }, 'name'],
    ['a name of another type', { name: 7 }, 'name'],
    ['an unknown type', { type: 'fax' }, 'type'],
    ['no type', { type: undefined }, 'type'],
    ['no config', { config: undefined }, 'config'],
    ['a config that is a list', { config: [] }, 'config'],
    [
      'an unknown field',
      { broadcast_generation_cost_allocation: true },
      'broadcast_generation_cost_allocation',
    ],
    ['a switch that is a word', { enabled: 'yes' }, 'enabled'],
    ['a rate of 0', { sampling_rate: 0 }, 'sampling_rate'],
    ['a rate below the least', { sampling_rate: 0.00009 }, 'sampling_rate'],
    ['a rate above 1', { sampling_rate: 1.0001 }, 'sampling_rate'],
    ['a negative rate', { sampling_rate: -1 }, 'sampling_rate'],
    ['a rate that is a text', { sampling_rate: '1' }, 'sampling_rate'],
    ['no hashes', { api_key_hashes: [] }, 'api_key_hashes'],
    ['an unknown hash', { api_key_hashes: ['a'.repeat(64)] }, 'api_key_hashes'],
    ['a hash in another form', { api_key_hashes: ['A'] }, 'api_key_hashes.0'],
    ['no regions', { regions: [] }, 'regions'],
    ['an unknown region', { regions: ['mars'] }, 'regions.0'],
    ['a workspace that does not exist', { workspace_id: OTHER }, 'workspace_id'],
    [
      'an unknown field of rules',
      { filter_rules: { groups: [], logic: 'or' } },
      'filter_rules.logic',
    ],
    [
      'a group without rules',
      { filter_rules: { groups: [{ rules: [] }] } },
      'filter_rules.groups.0.rules',
    ],
    [
      'an unknown logic',
      {
        filter_rules: {
          groups: [{ logic: 'xor', rules: [{ field: 'model', operator: 'exists' }] }],
        },
      },
      'filter_rules.groups.0.logic',
    ],
    ['an unknown field in a rule', rule('colour', 'equals', 'x'), `${RULE}.field`],
    ['an unknown operator', rule('model', 'like', 'x'), `${RULE}.operator`],
    ['a text operator on a number', rule('total_cost', 'contains', '1'), `${RULE}.operator`],
    ['exists on a number', rule('total_tokens', 'exists'), `${RULE}.operator`],
    ['a number operator on a text', rule('model', 'gt', 1), `${RULE}.operator`],
    ['a number for a text', rule('model', 'equals', 1), `${RULE}.value`],
    ['a text for a number', rule('total_cost', 'gt', '1'), `${RULE}.value`],
    ['no value', rule('model', 'equals'), `${RULE}.value`],
    ['a value where none belongs', rule('model', 'exists', 'x'), `${RULE}.value`],
    ['an invalid pattern', rule('model', 'regex', '(a'), `${RULE}.value`],
    ['an unknown field of the config', config({ uri: 'x' }), 'config.uri'],
    ['no URL', { config: {} }, 'config.url'],
    ['a URL that is none', config({ url: 'hooks' }), 'config.url'],
    ['a URL with credentials', config({ url: 'https://a:b@hooks.example.com' }), 'config.url'],
    ['a URL with a fragment', config({ url: 'https://hooks.example.com/#a' }), 'config.url'],
    ['a URL into this machine', config({ url: 'http://127.0.0.1/x' }), 'config.url'],
    ['a URL to localhost', config({ url: 'http://localhost/x' }), 'config.url'],
    ['a URL to metadata', config({ url: 'http://[::ffff:169.254.169.254]/x' }), 'config.url'],
    [
      'a URL at the port of a database',
      config({ url: 'http://hooks.example.com:5432/x' }),
      'config.url',
    ],
    ['a URL of a file', config({ url: 'file:///etc/passwd' }), 'config.url'],
    ['an unknown method', config({ method: 'GET' }), 'config.method'],
    [
      'a header with a line break',
      config({ headers: { 'X-A': 'a\r\nX-B: c' } }),
      'config.headers.X-A',
    ],
    ['a header that is a number', config({ headers: { 'X-A': 1 } }), 'config.headers.X-A'],
    ['a header with a space in its name', config({ headers: { 'X A': 'a' } }), 'config.headers'],
    ['a header of the connection', config({ headers: { Host: 'a' } }), 'config.headers'],
  ])('D-13 refuses %s with 400 and names the field', async (_, body, field) => {
    const { status, json } = await create(body)
    expect([status, json.error?.metadata?.field]).toEqual([400, field])
  })

  test('D-11 allows five of one type in a workspace, also when more come at once', async () => {
    const made = await Promise.all(
      Array.from({ length: 50 }, () => api('POST', PATH, { body: HOOK })),
    )
    const statuses = made.map(({ status }) => status)
    expect([201, 409].map(status => statuses.filter(one => one === status).length)).toEqual([5, 45])
    expect(
      (await create({ type: 'otel-collector', config: { endpoint: 'https://o.example.com' } }))
        .status,
    ).toBe(201)
    await createOtherWorkspace(gateway, OTHER)
    expect((await create({ workspace_id: OTHER })).status).toBe(201)
    const [{ id = '' } = {}] = (await ask('GET', PATH)).json.data
    expect((await ask('DELETE', `${PATH}/${id}`)).json).toEqual({ deleted: true })
    expect((await ask('GET', `${PATH}/${id}`)).status).toBe(404)
    expect((await create()).status).toBe(201)
    expect((await create()).status).toBe(409)
  })
})

describe('PATCH /observability/destinations/{id}', () => {
  const made = async (body: object = {}): Promise<string> => (await create(body)).json.data.id

  test('changes only the fields that are sent; null clears keys and rules', async () => {
    const id = await made({ api_key_hashes: [keys.hash], regions: ['us'], sampling_rate: 0.5 })
    const { json } = await update(id, { name: 'other', privacy_mode: true })
    expect(json.data).toMatchObject({
      name: 'other',
      privacy_mode: true,
      regions: ['us'],
      sampling_rate: 0.5,
    })
    expect(
      (await update(id, { api_key_hashes: null, filter_rules: null })).json.data.api_key_hashes,
    ).toBeNull()
  })

  test('merges the config, and keeps what equals its mask', async () => {
    const id = await made({ type: 'langfuse', config: { ...LANGFUSE, headers: { 'X-Team': 'a' } } })
    await update(id, { config: { publicKey: 'pk-lf-other-key-1', secretKey: 'sk-c...6789' } })
    expect(getOpened(id)?.config).toEqual({
      baseUrl: 'https://us.cloud.langfuse.com',
      publicKey: 'pk-lf-other-key-1',
      secretKey: SECRET,
      headers: { 'X-Team': 'a' },
    })
    await update(id, { config: { headers: null } })
    expect(getOpened(id)?.config).not.toHaveProperty('headers')
    const hook = await made()
    const shown = (await ask('GET', `${PATH}/${hook}`)).json.data.config
    await update(hook, { config: shown })
    expect(getOpened(hook)?.config).toMatchObject(HOOK.config)
  })

  test('masks the value of every header that is not known to be none', async () => {
    const headers = { 'X-Team': 'a-word-that-is-one', Accept: 'text/plain' }
    const id = await made({ config: { ...HOOK.config, headers } })
    const { json } = await update(id, { name: 'other' })
    expect(json.data.config.headers).toEqual({
      'X-Team': 'a-wo...-one',
      Accept: 'text/plain',
    })
    const moved = { config: { url: 'https://evil.example.com/a' } }
    expect((await update(id, moved)).status).toBe(400)
  })

  test('D-12 sends a secret to no other host than it was given for', async () => {
    const id = await made()
    const moved = { url: 'https://evil.example.com/a' }
    const refused = await update(id, { config: moved })
    expect([refused.status, refused.json.error.metadata.field]).toEqual([400, 'config.headers'])
    const masked = { ...moved, headers: { Authorization: 'Bear...6789' } }
    expect((await update(id, { config: masked })).status).toBe(400)
    expect((await update(id, { config: { url: 'https://hooks.example.com/b' } })).status).toBe(200)
    const again = { ...moved, headers: { Authorization: `Bearer ${SECRET}` } }
    expect((await update(id, { config: again })).status).toBe(200)
    const langfuse = await made({ type: 'langfuse', config: LANGFUSE })
    const elsewhere = await update(langfuse, { config: { baseUrl: 'https://evil.example.com' } })
    expect(elsewhere.status).toBe(400)
    expect(elsewhere.json.error.metadata.field).toMatch(/^config\.(public|secret)Key$/)
  })

  test.each<[string, object, string]>([
    ['its type', { type: 'webhook' }, 'type'],
    ['its workspace', { workspace_id: OTHER }, 'workspace_id'],
    ['a missing region', { regions: [] }, 'regions'],
    ['null regions', { regions: null }, 'regions'],
    ['a config without its URL', { config: { url: null } }, 'config.url'],
    ['an unknown field of the config', { config: { apiKey: 'x' } }, 'config.apiKey'],
  ])('refuses %s with 400', async (_, body, field) => {
    const { status, json } = await update(await made(), body)
    expect([status, json.error.metadata.field]).toEqual([400, field])
  })
})

describe('secrets', () => {
  test('are sealed on disk, and appear in no answer, list or entry of the audit trail', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-destinations-'))
    const house = await openGateway({ data })
    const operator = getOperator(house)
    const made = await createDestination(house, operator, HOOK as never)
    await createDestination(house, operator, {
      type: 'langfuse',
      name: 'team',
      config: LANGFUSE,
    })
    expect(JSON.stringify(made)).not.toContain('canary')
    const again = await openGateway({ data })
    expect(getDestination(again, getOperator(again), made.data.id)).toEqual(made)
    expect(again.memory.destinations.get(made.data.id)?.config).toMatchObject(HOOK.config)
    await again.close()
    await house.close()
    for (const file of readdirSync(data).filter(name => name.startsWith('gateway.db')))
      expect(readFileSync(join(data, file)).includes('canary')).toBe(false)
    const stranger = await openGateway({ data, secret: 'another secret' })
    expect(stranger.memory.destinations.listUnreadable()).toHaveLength(2)
    await stranger.close()
    rmSync(data, { recursive: true })
  })
})

test('rooms are separate: keys of another workspace see and name nothing', async () => {
  const house = await testGateway()
  const operator = getOperator(house)
  const own = await createDestination(house, operator, HOOK as never)
  const { key } = await createOtherWorkspace(house, OTHER)
  const foreign = createApi(house, key)
  for (const [method, body] of [['GET'], ['PATCH', { name: 'x' }], ['DELETE']] as const)
    expect((await foreign(method, `${PATH}/${own.data.id}`, { body })).status).toBe(404)
  expect((await foreign('GET', PATH)).json).toEqual({ data: [], total_count: 0 })
  const { data: mine } = await createKey(house, operator, { name: 'mine' })
  const stolen = await foreign('POST', PATH, { body: { ...HOOK, api_key_hashes: [mine.hash] } })
  expect(stolen.json.error.metadata.field).toBe('api_key_hashes')
  const made = await foreign('POST', PATH, { body: HOOK })
  expect(made.json.data.workspace_id).toBe(OTHER)
  expect((await house.store.destinations.all()).map(({ workspace_id }) => workspace_id)).toEqual([
    house.memory.owner.workspace_id,
    OTHER,
  ])
  await house.close()
})
