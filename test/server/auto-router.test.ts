import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  parseStream,
  readGenerationId,
  sendChat,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  type Hit,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/**
 * Three priced models, the more expensive the more capable, each called by its own name upstream;
 * and a free one.
 */
const MODELS = {
  small: { usd_per_million_tokens: { prompt: 1, completion: 1, cache_read: 0.5 } },
  middle: { usd_per_million_tokens: { prompt: 10, completion: 10, cache_read: 5 } },
  large: { usd_per_million_tokens: { prompt: 100, completion: 100, cache_read: 50 } },
  'gift:free': { usd_per_million_tokens: { prompt: 0, completion: 0 } },
}
const AUTO = 'gateway/auto'

let upstream: Upstream
let server: LocalServer

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startLocalServer({
    default_model: AUTO,
    routing: { choice: 'listed', failures: 0 },
    limits: { free_models: { requests_per_day: 3 }, strict: false, wait_seconds: 0 },
    providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
    models: Object.entries(MODELS).map(([name, more]) => ({
      id: `acme/${name}`,
      context_length: 128_000,
      input_modalities: name === 'large' ? ['text', 'image'] : ['text'],
      endpoints: [{ provider: 'local', model: name, max_completion_tokens: 1_000, ...more }],
    })),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const answer = ({ json }: Hit) =>
  (json as { stream?: boolean }).stream ? stream(['Hello']) : completion('Hello')
beforeEach(() => {
  upstream.hits.length = 0
  upstream.answer(answer)
})

const plugin = (more: object) => ({ plugins: [{ id: 'auto-router', ...more }] })
const ask = (body: object = {}, path?: string): Promise<Outcome> =>
  sendChat(server, { model: AUTO, ...body }, path ? { path } : {}).outcome()
const asked = () => upstream.hits.map(hit => (hit.json as { model: string }).model)

async function modelOf(body: object = {}): Promise<string> {
  const { status: code, body: text } = await ask(body)
  return code === 200 ? JSON.parse(text).model : `${code}`
}

describe('a call for the auto router', () => {
  test.each<[name: string, body: object, model: string]>([
    ['without options', {}, 'acme/small'],
    ['without a model', { model: undefined }, 'acme/small'],
    ['by its public name', { model: 'openrouter/auto' }, 'acme/small'],
    ['in a tier', plugin({ cost_tier: 'xhigh' }), 'acme/large'],
    ['in a tier without models', plugin({ cost_tier: 'max' }), 'acme/large'],
    [
      'with the deprecated number',
      plugin({ cost_quality_tradeoff: 10, excluded_models: ['*small'] }),
      'acme/middle',
    ],
    ['among some', plugin({ allowed_models: ['ACME/L*'] }), 'acme/large'],
    [
      'with a disabled plugin',
      plugin({ enabled: false, allowed_models: ['acme/l*'] }),
      'acme/small',
    ],
    [
      'with another router’s plugin',
      { plugins: [{ id: 'auto-beta-router', allowed_models: ['acme/large'] }] },
      'acme/small',
    ],
    [
      'of the beta, with its plugin',
      {
        model: 'gateway/auto-beta',
        plugins: [{ id: 'auto-beta-router', allowed_models: ['acme/large'] }],
      },
      'acme/large',
    ],
    [
      'with a picture',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            ],
          },
        ],
      },
      'acme/large',
    ],
    [
      'under a price',
      { ...plugin({ excluded_models: ['acme/small'] }), provider: { max_price: { prompt: 10 } } },
      'acme/middle',
    ],
  ])('%s', async (_, body, model) => {
    expect(await modelOf(body)).toBe(model)
    expect(asked()).toEqual([model.slice(5)])
  })

  test('is recorded with the model that was chosen', async () => {
    const outcome = await ask(plugin({ allowed_models: ['acme/middle'] }))
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      model: 'acme/middle',
      router: AUTO,
    })
    const named = await ask({ model: 'acme/large', models: ['acme/large', 'openrouter/auto'] })
    expect(await fetchGeneration(server, readGenerationId(named))).toMatchObject({
      model: 'acme/large',
      router: null,
    })
    upstream.answer(hit =>
      (hit.json as { model: string }).model === 'large' ? status(500) : answer(hit),
    )
    const second = await ask({ model: 'acme/large', models: ['acme/large', 'openrouter/auto'] })
    expect(await fetchGeneration(server, readGenerationId(second))).toMatchObject({
      model: 'acme/small',
      router: 'openrouter/auto',
    })
  })

  test('streams, speaks Anthropic’s dialect, and gives the reason', async () => {
    const streamed = await ask({ stream: true, ...plugin({ allowed_models: ['acme/middle'] }) })
    expect(parseStream(streamed.body).events[0]).toMatchObject({ model: 'acme/middle' })
    const spoken = await ask(
      { max_tokens: 9, ...plugin({ allowed_models: ['acme/large'] }) },
      '/messages',
    )
    expect(JSON.parse(spoken.body)).toMatchObject({ type: 'message', model: 'acme/large' })
    const headers = { 'x-gateway-metadata': 'enabled' }
    const told = await sendChat(
      server,
      { model: AUTO, messages: [{ role: 'user', content: 'Löse die Gleichung' }] },
      { headers },
    ).outcome()
    expect(JSON.parse(told.body).gateway_metadata).toMatchObject({
      requested: AUTO,
      strategy: 'auto',
      pipeline: [
        {
          type: 'plugin',
          name: 'auto-router',
          data: { task_type: 'math', cost_ceiling: 18, candidates: 3, chosen: 'acme/small' },
        },
      ],
    })
  })

  test('falls back to the next candidate, and then to the next model', async () => {
    upstream.answer(hit =>
      (hit.json as { model: string }).model === 'large' ? status(500) : answer(hit),
    )
    expect(await modelOf(plugin({ cost_tier: 'xhigh' }))).toBe('acme/middle')
    upstream.hits.length = 0
    expect(
      await modelOf({ models: ['acme/middle'], ...plugin({ allowed_models: ['acme/large'] }) }),
    ).toBe('acme/middle')
    expect(asked()).toEqual(['large', 'middle'])
  })

  test('is pinned to the model of the last answer, without telling providers', async () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello', model: 'acme/large' },
      { role: 'user', content: 'And now?' },
    ]
    expect(await modelOf({ messages, ...plugin({ pin_model: true }) })).toBe('acme/large')
    const [hit] = upstream.hits
    expect(hit?.json).toMatchObject({
      messages: [messages[0], { role: 'assistant', content: 'Hello' }, messages[2]],
    })
    expect(hit?.body).not.toContain('acme/large')
    expect(await modelOf({ messages })).toBe('acme/small')
    // The beta's plugin has no such field.
    const beta = {
      model: 'gateway/auto-beta',
      plugins: [{ id: 'auto-beta-router', pin_model: true }],
    }
    expect((await ask({ messages, ...beta })).status).toBe(400)
    const spoken = await ask(
      { messages, max_tokens: 9, ...plugin({ pin_model: true }) },
      '/messages',
    )
    expect(JSON.parse(spoken.body)).toMatchObject({ model: 'acme/large' })
  })

  test('keeps the model of its session', async () => {
    const session_id = 'a-session'
    expect(await modelOf({ session_id, ...plugin({ allowed_models: ['acme/middle'] }) })).toBe(
      'acme/middle',
    )
    expect(await modelOf({ session_id })).toBe('acme/middle')
    expect(await modelOf({ session_id, ...plugin({ excluded_models: ['acme/middle'] }) })).toBe(
      'acme/small',
    )
    expect(await modelOf({ session_id: 'another' })).toBe('acme/small')
  })

  test('does not keep a model that was named beside it and not picked', async () => {
    const session_id = 'one-with-a-name'
    expect(await modelOf({ session_id, model: 'acme/large', models: ['acme/large', AUTO] })).toBe(
      'acme/large',
    )
    expect(await modelOf({ session_id })).toBe('acme/small')
  })
})

describe('a call for the auto router is refused', () => {
  test.each([[['nobody/*']], [[]]])(
    'when no candidate is left: %j is allowed',
    async allowed_models => {
      const { status: code, body } = await ask(plugin({ allowed_models }))
      const { error } = JSON.parse(body)
      expect([code, error.message]).toEqual([
        404,
        'No models match your request and model restrictions',
      ])
      expect(error.metadata).toMatchObject({
        error_type: 'not_found',
        excluded_by: expect.arrayContaining(['allowed_models']),
        availability: { code: 'constraint_filtered', requested_models: [AUTO] },
      })
      expect(upstream.hits).toEqual([])
    },
  )

  test.each<[field: string, said: object]>([
    ['allowed_models', { allowed_models: 'acme/*' }],
    ['allowed_models.0', { allowed_models: [1] }],
    ['allowed_models', { allowed_models: Array.from({ length: 1_025 }, () => 'a') }],
    ['allowed_models.0', { allowed_models: ['a'.repeat(1_025)] }],
    ['excluded_models', { excluded_models: Array.from({ length: 65 }, () => 'a'.repeat(1_024)) }],
    ['cost_tier', { cost_tier: 'free' }],
    ['cost_quality_tradeoff', { cost_quality_tradeoff: 11 }],
    ['cost_quality_tradeoff', { cost_quality_tradeoff: 1.5 }],
    ['pin_model', { pin_model: 'yes' }],
    ['enabled', { enabled: 'no' }],
  ])('for a plugin with an invalid %s', async (field, said) => {
    const { status: code, body } = await ask({
      plugins: [
        { id: 'moderation', enabled: false },
        { id: 'auto-router', ...said },
      ],
    })
    expect([code, JSON.parse(body).error.metadata.field]).toEqual([400, `plugins.1.${field}`])
    expect(upstream.hits).toEqual([])
  })

  test('at /embeddings', async () => {
    const response = await server.fetch('/embeddings', { json: { model: AUTO, input: 'Hi' } })
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('wrong_endpoint'),
    ])
  })
})

test('a preset’s plugin applies, and the request’s own overrides it', async () => {
  const json = { ...plugin({ allowed_models: ['acme/large'] }), model: AUTO, messages: [] }
  for (const [slug, body, dialect] of [
    ['tall', { ...json, messages: undefined }, 'chat/completions'],
    ['tall-messages', { ...json, messages: [{ role: 'user', content: 'Hi' }] }, 'messages'],
  ] as const)
    expect((await server.fetch(`/presets/${slug}/${dialect}`, { json: body })).status).toBe(200)
  for (const preset of ['tall', 'tall-messages']) {
    expect(await modelOf({ model: `@preset/${preset}` })).toBe('acme/large')
    expect(await modelOf({ preset, provider: { allow_fallbacks: true } })).toBe('acme/large')
    expect(await modelOf({ preset, ...plugin({ allowed_models: ['acme/middle'] }) })).toBe(
      'acme/middle',
    )
    expect(await modelOf({ preset, ...plugin({ enabled: false }) })).toBe('acme/small')
  }
})

test('a guardrail applies to what the router picks', async () => {
  const manage = async (path: string, json: object) =>
    (await server.fetch(path, { key: server.management_key, json })).json()
  const { key, data } = (await manage('/keys', { name: 'ruled' })) as {
    key: string
    data: { hash: string }
  }
  const rules = { name: 'only the large', allowed_models: ['acme/large'] }
  const { data: guardrail } = (await manage('/guardrails', rules)) as { data: { id: string } }
  await manage(`/guardrails/${guardrail.id}/assignments/keys`, { key_hashes: [data.hash] })
  const of = async (body: object) =>
    (await sendChat(server, { model: AUTO, ...body }, { key }).outcome()).body
  expect(JSON.parse(await of({})).model).toBe('acme/large')
  expect(JSON.parse(await of({ model: 'gateway/auto:floor' })).model).toBe('acme/large')
  const { error } = JSON.parse(await of(plugin({ allowed_models: ['acme/small'] })))
  expect(error).toMatchObject({
    code: 404,
    metadata: { guardrails: [{ guardrail_id: guardrail.id, field: 'allowed_models' }] },
  })
  expect(asked()).toEqual(['large', 'large'])
  const unknown = await server.fetch('/guardrails', {
    key: server.management_key,
    json: { name: 'x', allowed_models: [AUTO] },
  })
  expect(unknown.status).toBe(400)
})

test('a key with a limit of a cent spends no more than that', async () => {
  const key = await createLimitedKey(server, 0.01)
  const call = () =>
    sendChat(
      server,
      { model: AUTO, ...plugin({ cost_tier: 'xhigh', allowed_models: ['acme/*'] }) },
      { key },
    ).outcome()
  upstream.answer(() =>
    completion('Hello', { usage: { prompt_tokens: 10, completion_tokens: 50 } }),
  )
  expect(
    new Set((await Promise.all(Array.from({ length: 12 }, call))).map(({ status: code }) => code)),
  ).toEqual(new Set([402]))
  const cheap = () => sendChat(server, { model: AUTO }, { key }).outcome()
  upstream.answer(() =>
    completion('Hello', { usage: { prompt_tokens: 10, completion_tokens: 990 } }),
  )
  const statuses = (await Promise.all(Array.from({ length: 30 }, cheap))).map(
    ({ status: code }) => code,
  )
  expect(new Set(statuses)).toEqual(new Set([200, 402]))
  expect((await fetchKeyState(server, key)).usage).toBeWithin(0.001, 0.0101)
})

test('the routers are listed, and each is found by both of its names', async () => {
  const list = (await (await server.fetch('/models', { key: null })).json()) as {
    data: { id: string; pricing: object }[]
  }
  const found = (id: string) => list.data.find(model => model.id === id)
  expect(found(AUTO)).toMatchObject({
    pricing: { prompt: '-1', completion: '-1' },
    architecture: { tokenizer: 'Router' },
  })
  expect(found('gateway/free')?.pricing).toEqual({ prompt: '0', completion: '0' })
  const one = async (slug: string) => (await server.fetch(`/model/${slug}`, { key: null })).json()
  expect(await one(AUTO)).toMatchObject({ data: { id: AUTO, name: 'Auto Router' } })
  expect(await one('openrouter/auto')).toMatchObject({
    data: { id: 'openrouter/auto', alias_target: { slug: AUTO } },
  })
  expect(await one('gateway/free:zzz')).toMatchObject({ error: { code: 404 } })
  const endpoints = (await (
    await server.fetch(`/models/${AUTO}/endpoints`, { key: null })
  ).json()) as { data: { endpoints: unknown[] } }
  expect(endpoints.data.endpoints).toEqual([])
})

test('a workspace’s default model may be a router', async () => {
  const set = (default_text_model: string) =>
    server.fetch('/workspaces/default', {
      method: 'PATCH',
      key: server.management_key,
      json: { default_text_model },
    })
  expect((await set('gateway/nobody')).status).toBe(400)
  expect((await set('openrouter/auto')).status).toBe(200)
  expect(await modelOf({ model: undefined })).toBe('acme/small')
})

test('the free router’s calls count as free, whatever it picks', async () => {
  for (let i = 0; i < 3; i++)
    expect(await modelOf({ model: i === 0 ? 'openrouter/free' : 'gateway/free' })).toBe(
      'acme/gift:free',
    )
  expect(await modelOf({ model: 'gateway/free' })).toBe('429')
  expect(await modelOf(plugin({ allowed_models: ['acme/gift:free'] }))).toBe('404')
  expect(await modelOf()).toBe('acme/small')
})

test('the terminal lists the routers', async () => {
  const { code, stdout } = await runCommand([
    'models',
    'list',
    '--q',
    'router',
    '--data',
    server.data,
  ])
  expect([code, stdout]).toEqual([0, expect.stringContaining('gateway/free')])
})
