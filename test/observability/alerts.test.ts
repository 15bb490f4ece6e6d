import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { openReceiver } from '../../src/observability/alerts.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { deleteKey } from '../../src/resources/keys.ts'
import { createApi } from '../support/api.ts'
import { createOtherWorkspace, createTestKeys, testGateway } from '../support/gateway.ts'

const SECRET = 'whsec_Y2FuYXJ5LTUxZDctMDEyMzQ1Njc4OQ=='
const SLACK = 'https://hooks.slack.com/services/T0/B0/canary51d7'
const OTHER = '00000000-0000-7000-8000-0000000000aa'
const HOOK = { type: 'webhook', url: 'https://hooks.example.com/a', secret: SECRET }
const NEAR = { name: 'near', cause: 'limit_near', to: HOOK }

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
  expect(JSON.stringify(answer)).not.toContain(SECRET)
  return answer
}
const create = (body: object = {}) => ask('POST', '/alerts', { body: { ...NEAR, ...body } })
const update = (id: string, body: object) => ask('PATCH', `/alerts/${id}`, { body })
const readReceiver = (id: string) => {
  const alert = gateway.memory.alerts.get(id)
  return alert && openReceiver(gateway, alert)
}

describe('an alert', () => {
  test('is made with the defaults of its cause, listed, changed and deleted', async () => {
    const { status, json } = await create()
    expect(status).toBe(201)
    const made = {
      id: expect.any(String),
      workspace_id: gateway.memory.owner.workspace_id,
      ...{ name: 'near', cause: 'limit_near', thresholds: [0.8, 1], window: null },
      ...{ key_hash: null, provider: null, destination_id: null, disabled: false },
      ...{ created_at: '2026-03-04T05:06:07.000Z', updated_at: '2026-03-04T05:06:07.000Z' },
      to: { type: 'webhook', url: HOOK.url, secret: 'whse...OQ==' },
    }
    expect(json.data).toEqual(made)
    const { id } = json.data
    expect((await ask('GET', '/alerts')).json).toEqual({ data: [made], total_count: 1 })
    const change = { name: 'nearer', thresholds: [1, 0.5], key_hash: keys.hash, disabled: true }
    expect((await update(id, change)).json.data).toEqual({
      ...made,
      ...change,
      thresholds: [0.5, 1],
    })
    expect((await ask('GET', `/alerts/${id}`)).json.data.notices).toEqual({
      ...{ waiting: 0, delivered: 0, failed: 0, last_at: null, last_error: null },
    })
    expect((await ask('DELETE', `/alerts/${id}`)).json).toEqual({ deleted: true })
    expect((await ask('GET', `/alerts/${id}`)).status).toBe(404)
    expect(await gateway.store.alerts.all()).toEqual([])
  })

  test('keeps a secret that comes back as its mask, for the same host alone', async () => {
    const { id, to } = (await create()).json.data
    await update(id, { to: { ...to, url: 'https://hooks.example.com/b' } })
    expect(readReceiver(id)).toEqual({ ...HOOK, url: 'https://hooks.example.com/b' } as never)
    const moved = await update(id, { to: { ...to, url: 'https://other.example.com/b' } })
    expect([moved.status, moved.json.error.message]).toEqual([
      400,
      'to.secret: expected again, since requests go to another host from now on',
    ])
    const slack = (await update(id, { to: { type: 'slack', url: SLACK } })).json.data
    expect(slack.to).toEqual({ type: 'slack', url: 'https://hooks.slack.com/.../51d7' })
    await update(id, { to: slack.to })
    expect(readReceiver(id)).toEqual({ type: 'slack', url: SLACK })
    const trail = JSON.stringify(await gateway.store.audit.listPage({}, 0, 100))
    expect(trail).not.toContain('canary')
  })

  test('of a key or a destination that is deleted says that it tells nothing', async () => {
    const { id } = (await create({ key_hash: keys.hash })).json.data
    await deleteKey(gateway, getOperator(gateway), keys.hash)
    const { data } = (await ask('GET', `/alerts/${id}`)).json
    expect(data.warning).toBe('Nothing is told: its API key was deleted')
    expect((await update(id, { disabled: true })).status).toBe(200)
    expect((await update(id, { key_hash: null })).json.data.warning).toBeUndefined()
  })

  test('one of a hundred is the last, and only its own workspace sees it', async () => {
    for (let made = 0; made < 100; made++) expect((await create()).status).toBe(201)
    const { status, json } = await create()
    expect([status, json.error.message]).toEqual([409, 'This workspace has 100 alerts already'])
    const { key } = await createOtherWorkspace(gateway, OTHER)
    expect((await api('GET', '/alerts', { key })).json).toEqual({ data: [], total_count: 0 })
    const [id] = [...gateway.memory.alerts.keys()]
    for (const [method, path] of [
      ['GET', `/alerts/${id}`],
      ['PATCH', `/alerts/${id}`],
      ['DELETE', `/alerts/${id}`],
      ['POST', `/alerts/${id}/test`],
    ] as const)
      expect(
        (await api(method, path, { key, ...(method === 'PATCH' ? { body: {} } : {}) })).status,
      ).toBe(404)
  })
})

describe('POST /alerts refuses', () => {
  const REFUSED: [string, object, RegExp][] = [
    ['a misspelt field', { treshold: [1] }, /treshold/],
    ['an unknown cause', { cause: 'limit_far' }, /^cause: /],
    ['no thresholds', { thresholds: [] }, /^thresholds: /],
    ['a threshold of 0', { thresholds: [0] }, /^thresholds/],
    ['a negative threshold', { thresholds: [-0.5] }, /^thresholds/],
    [
      'a share of 1e9',
      { thresholds: [1e9] },
      /^thresholds: expected shares of a limit above 0 up to 1 for limit_near$/,
    ],
    ['a threshold that is no number', { thresholds: [null] }, /^thresholds/],
    ['the same threshold twice', { thresholds: [1, 1] }, /^thresholds/],
    ['days beyond a year', { cause: 'credential_ending', thresholds: [366] }, /^thresholds/],
    [
      'a threshold of what is or is not',
      { cause: 'provider_empty', thresholds: [1] },
      /^thresholds: expected none/,
    ],
    ['a window of a limit', { window: 'daily' }, /^window: expected none for limit_near/],
    ['an unknown window', { cause: 'error_rate', window: 'yearly' }, /^window/],
    ['a provider of a limit', { provider: 'openai' }, /^provider: expected none for limit_near/],
    [
      'an unknown provider',
      { cause: 'provider_empty', provider: 'opnai' },
      /^provider: expected the slug/,
    ],
    ['a key that does not exist', { key_hash: 'a'.repeat(64) }, /^key_hash: /],
    [
      'an unknown destination',
      { cause: 'destination_backlog', destination_id: OTHER },
      /^destination_id: /,
    ],
    ['a name with a line break', { name: 'near\r\nBcc: eve@example.com' }, /^name: /],
    ['an unknown receiver', { to: { type: 'pager', url: HOOK.url } }, /^to/],
    ['a webhook without a secret', { to: { type: 'webhook', url: HOOK.url } }, /^to\.secret/],
    ['a short secret', { to: { ...HOOK, secret: 'short' } }, /^to\.secret/],
    [
      'a private network',
      { to: { ...HOOK, url: 'http://169.254.169.254/a' } },
      /^to\.url: expected the URL of a public host/,
    ],
    [
      'this host',
      { to: { type: 'slack', url: 'http://localhost/a' } },
      /^to\.url: expected the URL of a public host/,
    ],
    [
      'another port',
      { to: { ...HOOK, url: 'https://hooks.example.com:6379/a' } },
      /^to\.url: expected a URL at port/,
    ],
    [
      'mail without a server',
      { to: { type: 'mail', addresses: ['ada@example.com'] } },
      /^to\.type: expected no mail/,
    ],
    [
      'an address with a line break',
      { to: { type: 'mail', addresses: ['ada@example.com\r\nBcc: eve@example.com'] } },
      /^to\.addresses/,
    ],
    [
      'two addresses in one',
      { to: { type: 'mail', addresses: ['ada@example.com,eve@example.com'] } },
      /^to\.addresses/,
    ],
    ['no address', { to: { type: 'mail', addresses: [] } }, /^to\.addresses/],
    ['another scheme', { to: { ...HOOK, url: 'file:///etc/passwd' } }, /^to\.url/],
  ]
  test.each(REFUSED)('%s', async (_, body, message) => {
    const { status, json } = await create(body)
    expect(status).toBe(400)
    expect(json.error.message).toMatch(message)
    expect(gateway.memory.alerts.size).toBe(0)
  })

  test('what is the installation’s from another workspace, and what another workspace has', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const refused = async (body: object) =>
      (await api('POST', '/alerts', { key, body: { ...NEAR, ...body } })).json.error.message
    expect(await refused({ cause: 'credits_low' })).toBe(
      'cause: expected the default workspace for credits_low',
    )
    expect(await refused({ key_hash: keys.hash })).toMatch(/^key_hash: /)
    const { data } = await createDestination(gateway, getOperator(gateway), {
      ...{ type: 'webhook', name: 'hook', config: { url: HOOK.url } },
    })
    expect(await refused({ cause: 'destination_backlog', destination_id: data.id })).toMatch(
      /^destination_id: /,
    )
  })
})
