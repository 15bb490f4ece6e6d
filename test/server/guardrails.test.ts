import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { buildRoutesConfig, readText, sendChat, waitUntil } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { request } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { readRefusedLimit } from '../support/shortage.ts'
import { completion, startUpstream, stream, type Upstream } from '../support/upstream.ts'

let server: Server
let first: Upstream
let second: Upstream
let key: string
let hash: string
let owner: string
let guardrail: string

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  const config = buildRoutesConfig({
    'acme/small': { first: first.url, second: second.url },
    'anthropic/claude-opus-4.5': { first: first.url },
    'acme/plain': { second: second.url },
  })
  server = await startServer({
    config: {
      ...config,
      server: { trusted_proxies: ['127.0.0.0/8'] },
      regions: { europe: ['eu.example.com'], us: ['us.example.com'] },
      default_model: 'acme/plain',
    },
  })
  const made = (await (
    await server.fetch('/keys', { key: server.management_key, json: { name: 'held' } })
  ).json()) as Created
  key = made.key
  hash = made.data.hash
  owner = made.data.creator_user_id
  guardrail = (await manage('POST', '/guardrails', { name: 'rules' })).data.id
  await manage('POST', `/guardrails/${guardrail}/assignments/keys`, { key_hashes: [hash] })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

beforeEach(() => {
  for (const upstream of [first, second]) {
    upstream.hits.length = 0
    upstream.answer(({ json }) =>
      (json as { stream?: boolean }).stream ? stream(['Hel', 'lo']) : completion('Hello'),
    )
  }
})

interface Created {
  key: string
  data: { hash: string; creator_user_id: string }
}

async function manage(method: string, path: string, json?: object) {
  const response = await server.fetch(path, {
    method,
    key: server.management_key,
    ...(json ? { json } : {}),
  })
  return (await response.json()) as { data: { id: string } }
}

test('a UUID names the same guardrail and workspace in any case', async () => {
  const id = guardrail.toUpperCase()
  const { data } = await manage('GET', `/guardrails/${id}`)
  expect(data.id).toBe(guardrail)
  const { workspace_id } = data as unknown as { workspace_id: string }
  const scope = workspace_id.toUpperCase()
  const listed = await manage('GET', `/guardrails?workspace_id=${scope}`)
  expect(listed.data).toEqual([expect.objectContaining({ id: guardrail })] as never)
  const made = await manage('POST', '/guardrails', { name: 'other', workspace_id: scope })
  expect(made.data).toMatchObject({ workspace_id })
  await manage('DELETE', `/guardrails/${made.data.id.toUpperCase()}`)
  const shown = await runCommand(['guardrails', 'get', id, '--data', server.data, '--json'])
  expect(JSON.parse(shown.stdout).data.id).toBe(guardrail)
})

const CLEAR = {
  allowed_models: null,
  ignored_models: null,
  allowed_providers: null,
  ignored_providers: null,
  allowed_data_regions: null,
  limit_usd: null,
  reset_interval: null,
}

/** Sets these fields of the key's guardrail and clears all others. */
const rule = (change: object) =>
  manage('PATCH', `/guardrails/${guardrail}`, { ...CLEAR, ...change })

const ask = (body: object = {}, headers: Record<string, string> = {}, path = '/chat/completions') =>
  sendChat(server, body, { key, headers, path }).outcome()

const hits = () => [first.hits.length, second.hits.length]

describe('a rule about models', () => {
  const NAMES = [
    'anthropic/claude-opus-4.5',
    'anthropic/claude-opus-4-5',
    'anthropic/claude-opus-4-5-20251101',
  ]
  const messages = [{ role: 'user', content: 'Hi' }]
  /** Every way to call a model, by path, with a body for this model. */
  const WAYS: [path: string, body: (model: string) => object][] = [
    ['/chat/completions', model => ({ model })],
    ['/chat/completions', model => ({ model, stream: true })],
    ['/chat/completions', model => ({ model: undefined, models: [model] })],
    ['/completions', model => ({ model, messages: undefined, prompt: 'Hi' })],
    ['/messages', model => ({ model, max_tokens: 9, messages })],
    ['/messages', model => ({ model, max_tokens: 9, messages, stream: true })],
  ]

  test.each(WAYS)('applies at %s under every name of the model', async (path, body) => {
    await rule({ ignored_models: ['anthropic/claude-opus-4.5'] })
    for (const name of NAMES) {
      const { status, body: text } = await ask(body(name), {}, path)
      expect([status, text]).toEqual([
        404,
        expect.stringContaining('excluded by ignored_models of a guardrail'),
      ])
    }
    expect(hits()).toEqual([0, 0])
    await rule({ allowed_models: ['anthropic/claude-opus-4-5'] })
    for (const name of NAMES) expect((await ask(body(name), {}, path)).status).toBe(200)
    expect(hits()).toEqual([NAMES.length, 0])
  })

  test('X-16 applies to fallbacks, presets and the default model', async () => {
    await rule({ ignored_models: ['acme/small', 'acme/plain'] })
    const fallback = await ask({
      model: 'acme/small',
      models: ['anthropic/claude-opus-4.5', 'acme/plain'],
    })
    expect([readText(fallback), JSON.parse(fallback.body).model, hits()]).toEqual([
      'Hello',
      'anthropic/claude-opus-4.5',
      [1, 0],
    ])
    await ask({ model: 'acme/small' }, {}, '/presets/held/chat/completions')
    expect((await ask({ model: '@preset/held' })).status).toBe(404)
    expect((await ask({ model: 'anthropic/claude-opus-4.5@preset/held' })).status).toBe(200)
    expect((await ask({ model: undefined })).status).toBe(404)
  })

  test('applies to embeddings', async () => {
    const embed = () =>
      ask({ model: 'sandbox/embed', messages: undefined, input: 'Hi' }, {}, '/embeddings')
    await rule({ ignored_models: ['sandbox/embed'] })
    expect((await embed()).status).toBe(404)
    await rule({})
    expect((await embed()).status).toBe(200)
  })

  test('filters GET /models/user, but keeps routers, which pick from what it allows', async () => {
    await rule({ allowed_models: ['acme/small'] })
    const { data } = (await (await server.fetch('/models/user', { key })).json()) as {
      data: { id: string }[]
    }
    expect(data.map(model => model.id)).toEqual([
      'acme/small',
      ...[
        'gateway/auto',
        'gateway/auto-beta',
        'gateway/switchyard',
        'gateway/bodybuilder',
        '@preset/held',
      ],
    ])
  })

  test('applies to no other key', async () => {
    await rule({ ignored_models: ['acme/small'] })
    expect((await sendChat(server).outcome()).status).toBe(200)
  })
})

describe('a rule about providers', () => {
  test('leaves the other providers', async () => {
    await rule({ ignored_providers: ['first'] })
    expect((await ask()).status).toBe(200)
    expect(hits()).toEqual([0, 1])
  })

  test('names in the answer what excluded each endpoint', async () => {
    await rule({ allowed_providers: ['sandbox'] })
    const { status, body } = await ask()
    expect([status, JSON.parse(body).error]).toEqual([
      404,
      {
        code: 404,
        message: 'No endpoints found for acme/small: excluded by allowed_providers of a guardrail.',
        metadata: expect.objectContaining({
          error_type: 'not_found',
          excluded_by: ['allowed_providers'],
          guardrails: [{ guardrail_id: guardrail, field: 'allowed_providers' }],
          availability: {
            code: 'constraint_filtered',
            retryable: false,
            requested_models: ['acme/small'],
            excluded_by: ['allowed_providers'],
          },
        }),
      },
    ])
  })
})

describe('a rule about regions', () => {
  const from = (host: string, more: Record<string, string> = {}, path?: string, body = {}) =>
    ask(body, { host, ...more }, path)

  test('X-17 refuses calls through another region with 403, and only Host decides it', async () => {
    await rule({ allowed_data_regions: ['europe'] })
    expect((await from('eu.example.com')).status).toBe(200)
    expect((await from('EU.example.com:8443')).status).toBe(200)
    for (const forwarded of ['x-forwarded-host', 'forwarded', 'x-host', 'x-original-host'])
      expect(
        (
          await from('gateway.example.com', {
            [forwarded]: forwarded === 'forwarded' ? 'host=eu.example.com' : 'eu.example.com',
          })
        ).status,
      ).toBe(403)
    const { status, body } = await from('us.example.com')
    expect([status, JSON.parse(body).error]).toEqual([
      403,
      {
        code: 403,
        message: 'allowed_data_regions of guardrails: expected europe, found the us region',
        metadata: expect.objectContaining({
          error_type: 'permission_denied',
          excluded_by: ['data_region'],
          availability: { code: 'region_restricted', retryable: false },
        }),
      },
    ])
    expect(hits()).toEqual([2, 0])
  })

  test('refuses in Anthropic’s form, streams and embeddings too', async () => {
    await rule({ allowed_data_regions: ['us'] })
    const messages = await from('gateway.example.com', {}, '/messages', { max_tokens: 9 })
    expect([messages.status, JSON.parse(messages.body).error.type]).toEqual([
      403,
      'permission_error',
    ])
    expect((await from('gateway.example.com', {}, undefined, { stream: true })).status).toBe(403)
    expect(
      (
        await from('gateway.example.com', {}, '/embeddings', {
          model: 'sandbox/embed',
          input: 'Hi',
        })
      ).status,
    ).toBe(403)
  })

  test('is shown by GET /key, in any region', async () => {
    const regions = async () => {
      const { data } = JSON.parse(
        (
          await request(`${server.base}/key`, {
            headers: { authorization: `Bearer ${key}` },
          }).outcome()
        ).body,
      )
      return data.allowed_data_regions
    }
    await rule({ allowed_data_regions: ['us', 'europe'] })
    expect(await regions()).toEqual(['europe', 'us'])
    await rule({})
    expect(await regions()).toEqual(['global', 'europe', 'us'])
  })
})

describe('a budget', () => {
  const OVER = 'Guardrail daily budget of $0.000001 exceeded. Contact your org admin.'

  test('of the key’s guardrail answers 402 before any attempt, for this key only', async () => {
    await rule({ limit_usd: 0.000001, reset_interval: 'daily' })
    const { status, body } = await ask()
    expect([status, readRefusedLimit(JSON.parse(body).error.message), hits()]).toEqual([
      402,
      OVER,
      [0, 0],
    ])
    expect((await sendChat(server).outcome()).status).toBe(200)
    await rule({ limit_usd: 1, reset_interval: 'daily' })
    expect((await ask()).status).toBe(200)
  })

  test('of a member’s guardrail counts every key that they made', async () => {
    await rule({})
    const { data } = await manage('POST', '/guardrails', {
      name: 'small',
      limit_usd: 0.000001,
      reset_interval: 'daily',
    })
    const member_user_ids = [owner]
    await manage('POST', `/guardrails/${data.id}/assignments/members`, { member_user_ids })
    for (const outcome of [await ask(), await sendChat(server).outcome()])
      expect([outcome.status, readRefusedLimit(JSON.parse(outcome.body).error.message)]).toEqual([
        402,
        OVER,
      ])
    await manage('POST', `/guardrails/${data.id}/assignments/members/remove`, { member_user_ids })
    expect((await ask()).status).toBe(200)
  })
})

test('changes from the terminal apply to the server’s next calls', async () => {
  await rule({})
  const run = (args: string[]) =>
    runCommand(['guardrails', ...args, '--data', server.data, '--json'])
  expect((await ask()).status).toBe(200)
  const changed = await run(['update', guardrail, '--ignore-models', 'acme/small'])
  expect(JSON.parse(changed.stdout).data.ignored_models).toEqual(['acme/small'])
  await waitUntil(async () => (await ask()).status === 404)
  await run(['unassign', guardrail, '--keys', hash])
  await waitUntil(async () => (await ask()).status === 200)
  await run(['update', 'default', '--allow-models', 'sandbox/echo'])
  await waitUntil(async () => (await ask()).status === 404)
  await run(['update', 'default', '--allow-models', 'none'])
  await waitUntil(async () => (await ask()).status === 200)
})
