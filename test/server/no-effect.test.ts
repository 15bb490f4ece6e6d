import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { INPUT_AUDIO } from '../support/recording.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * Nothing is accepted and ignored: what has no effect yet is a 400 that names the field, and what
 * asks for nothing is fine.
 */

let server: LocalServer
let workspace: string

beforeAll(async () => {
  server = await startLocalServer()
  const key = server.management_key
  const { data } = (await (await server.fetch('/workspaces', { key })).json()) as {
    data: [{ id: string }]
  }
  workspace = data[0].id
})
afterAll(() => server[Symbol.asyncDispose]())

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const PATHS = [
  '/chat/completions',
  '/messages',
  '/presets/p/chat/completions',
  '/presets/p/messages',
]
const BASE = { model: 'sandbox/echo', messages: MESSAGES }

async function send(path: string, body: object, headers: Record<string, string> = {}) {
  const response = await server.fetch(path, { headers, json: { ...BASE, ...body } })
  const { error, metadata } = (await response.json().catch(() => ({}))) as {
    error?: { message: string; metadata?: { field?: string } }
    metadata?: { field?: string }
  }
  return {
    status: response.status,
    field: error?.metadata?.field ?? metadata?.field,
    message: error?.message ?? '',
  }
}

describe.each(PATHS)('%s', path => {
  test.each([
    ['an unknown plugin', { plugins: [{ id: 'magic' }] }, 'plugins.0.id'],
    ['an unknown plugin, off', { plugins: [{ id: 'magic', enabled: false }] }, 'plugins.0.id'],
    [
      'a preset of fusion that the config lacks',
      {
        plugins: [
          { id: 'web', enabled: false },
          { id: 'fusion', preset: 'general-high' },
        ],
      },
      'plugins.1.preset',
    ],
    ['an option of web', { plugins: [{ id: 'web', depth: 1 }] }, 'plugins.0'],
    ['an option of a router', { plugins: [{ id: 'auto-router', depth: 1 }] }, 'plugins.0.depth'],
    ['an option of the free router', { plugins: [{ id: 'free-router', depth: 1 }] }, 'plugins.0'],
    [
      'stop conditions that are none',
      { stop_server_tools_when: [{ type: 'step_count_is' }] },
      'stop_server_tools_when.0.step_count',
    ],
    ['a server tool that is not ours', { tools: [{ type: 'gateway:magic' }] }, 'tools.0.type'],
  ])('%s is a 400', async (_, body, field) => {
    expect(await send(path, body)).toMatchObject({ status: 400, field })
  })

  test('stop conditions need no tools: a preset or a plugin may bring some', async () => {
    const stop_server_tools_when = [{ type: 'step_count_is', step_count: 1 }]
    expect(await send(path, { stop_server_tools_when })).toMatchObject({ status: 200 })
  })

  test('what asks for nothing is fine', async () => {
    const { status } = await send(path, {
      plugins: [
        { id: 'moderation', enabled: false },
        { id: 'web', enabled: false },
      ],
      stop_server_tools_when: null,
      tools: [],
    })
    expect(status).toBe(200)
  })
})

const BODIES: Record<string, object> = {
  '/embeddings': { model: 'sandbox/embed', input: 'Hello' },
  '/rerank': { model: 'sandbox/embed', query: 'Hello', documents: ['Hi'] },
  '/audio/transcriptions': {
    model: 'sandbox/transcribe',
    input_audio: INPUT_AUDIO,
    messages: undefined,
    max_tokens: undefined,
  },
  '/audio/speech': {
    model: 'sandbox/speech',
    input: 'Hello',
    messages: undefined,
    max_tokens: undefined,
  },
  '/videos': {
    model: 'sandbox/video',
    prompt: 'Hello',
    messages: undefined,
    max_tokens: undefined,
  },
  '/images': {
    model: 'sandbox/image',
    prompt: 'Hello',
    messages: undefined,
    max_tokens: undefined,
  },
}

describe.each([
  '/chat/completions',
  '/messages',
  '/embeddings',
  '/rerank',
  '/images',
  '/videos',
  '/audio/speech',
  '/audio/transcriptions',
])('%s', path => {
  const body = BODIES[path] ?? {}

  test.each([
    ['X-OpenRouter-Cache-TTL', '60'],
    ['X-Gateway-Cache-Clear', 'true'],
  ])('%s: %s is a 400', async (name, value) => {
    expect(await send(path, body, { [name]: value })).toMatchObject({
      status: 400,
      field: name.toLowerCase(),
    })
  })

  test('a cache is refused where answers are not kept', async () => {
    const { status } = await send(path, body, { 'X-OpenRouter-Cache': 'true' })
    expect(status).toBe(/rerank|images|audio|videos/.test(path) ? 400 : 200)
  })

  test('a cache may be switched off', async () => {
    const headers = { 'X-OpenRouter-Cache': 'False', 'X-OpenRouter-Cache-TTL': '60' }
    expect((await send(path, body, headers)).status).toBe(path === '/videos' ? 202 : 200)
  })
})

test('a server tool that does not work here is a 400', async () => {
  const tools = [{ type: 'openrouter:bash', parameters: { engine: 'openrouter' } }]
  for (const path of ['/chat/completions', '/messages'])
    expect(await send(path, { tools })).toMatchObject({ status: 400, field: 'tools.0.type' })
})

test('transforms are a plugin by its older name', async () => {
  const at = '/chat/completions'
  for (const transforms of ['middle-out', ['inside-out'], [7], {}])
    expect((await send(at, { transforms })).field).toBe('transforms')
  for (const transforms of [['middle-out'], [], null])
    expect((await send(at, { transforms })).status).toBe(200)
})

test('a server tool that the workspace has disabled is a 403', async () => {
  const change = (disabled_server_tools: string[]) =>
    server.fetch(`/workspaces/${workspace}`, {
      method: 'PATCH',
      key: server.management_key,
      json: { disabled_server_tools },
    })
  expect((await change(['openrouter:bash'])).status).toBe(200)
  for (const path of ['/chat/completions', '/messages'])
    for (const type of ['openrouter:bash', 'gateway:bash'])
      expect((await send(path, { tools: [{ type }] })).status).toBe(403)
  await change([])
  expect((await send('/chat/completions', { tools: [{ type: 'gateway:bash' }] })).status).toBe(200)
})

describe('presets are checked by the rules of their own endpoint', () => {
  const models = (count: number) => Array.from({ length: count }, () => ({ model: 'sandbox/echo' }))
  const pairs = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${i}`, 'value']))

  test.each([
    ['messages', { fallbacks: models(4) }, 'fallbacks'],
    ['messages', { fallbacks: models(1), models: ['sandbox/echo'] }, 'fallbacks'],
    ['messages', { fallbacks: [{ model: 'sandbox/echo', max_tokens: 1 }] }, 'fallbacks.0'],
    ['messages', { cache_ttl_seconds: 86_401 }, 'cache_ttl_seconds'],
    ['responses', { store: true }, 'store'],
    ['responses', { previous_response_id: 'resp_1' }, 'previous_response_id'],
    ['responses', { metadata: pairs(17) }, 'metadata'],
    ['responses', { metadata: { ['k'.repeat(65)]: 'v' } }, 'metadata'],
    ['responses', { metadata: { 'a[b]': 'v' } }, 'metadata'],
    ['responses', { metadata: { key: 'v'.repeat(513) } }, 'metadata.key'],
    ['responses', { stop_server_tools_when: [{}] }, 'stop_server_tools_when.0.type'],
  ])('%s %#', async (form, body, field) => {
    expect(await send(`/presets/p/${form}`, body)).toMatchObject({ status: 400, field })
  })

  test.each([
    ['messages', { fallbacks: models(3) }],
    ['messages', { cache_enabled: false, cache_ttl_seconds: 60 }],
    ['responses', { store: false, previous_response_id: null, metadata: pairs(16) }],
  ])('%s %# is fine', async (form, body) => {
    expect((await send(`/presets/fine/${form}`, body)).status).toBe(200)
  })
})

test('a key of nobody is refused', async () => {
  const response = await server.fetch('/keys', {
    key: server.management_key,
    json: { name: 'x', creator_user_id: 'user_nobody' },
  })
  const { error } = (await response.json()) as { error: { metadata: { field: string } } }
  expect([response.status, error.metadata.field]).toEqual([400, 'creator_user_id'])
})
