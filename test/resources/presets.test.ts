import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { getOperator } from '../../src/resources/actor.ts'
import {
  createPreset,
  getPreset,
  getPresetVersion,
  listPresets,
  listPresetVersions,
  requireUsablePreset,
  updatePreset,
} from '../../src/resources/presets.ts'
import { createApi } from '../support/api.ts'
import { openDatabase } from '../support/database.ts'
import { createOtherWorkspace, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'

let clock: TestClock
let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.inference)
})

const OTHER = '019aa000-0000-7000-8000-0000000000aa'
const MESSAGES = [{ role: 'user', content: 'Hi' }]
const ASKED = { model: 'acme/small', messages: MESSAGES }

const create = (slug: string, body: object = {}, dialect = 'messages', key?: string) =>
  ask('POST', `/presets/${slug}/${dialect}`, {
    body: { ...ASKED, ...body },
    ...(key === undefined ? {} : { key }),
  })

const UUID = /^[0-9a-f-]{36}$/

describe('E6 POST /presets/{slug}/messages', () => {
  test('E6 creates a missing slug, with that name, active, at version 1', async () => {
    const { status, json } = await create('my-Preset_1.0', {
      max_tokens: 100,
      temperature: 0.5,
      system: 'Be brief',
    })
    const { user_id, workspace_id } = gateway.memory.owner
    const at = '2026-03-04T05:06:07.000Z'
    const { id, designated_version_id } = json.data
    expect(status).toBe(200)
    expect([id, designated_version_id]).toEqual([
      expect.stringMatching(UUID),
      expect.stringMatching(UUID),
    ])
    expect(json).toEqual({
      data: {
        ...{
          id,
          workspace_id,
          slug: 'my-Preset_1.0',
          name: 'my-Preset_1.0',
          description: null,
          status: 'active',
          status_updated_at: null,
        },
        ...{ creator_user_id: user_id, designated_version_id, created_at: at, updated_at: at },
        designated_version: {
          ...{
            id: designated_version_id,
            preset_id: id,
            version: 1,
            creator_id: user_id,
            system_prompt: 'Be brief',
          },
          ...{
            config: { model: 'acme/small', max_tokens: 100, temperature: 0.5 },
            created_at: at,
            updated_at: at,
          },
        },
      },
    })
  })

  test('E6 adds a version to an existing slug, and uses it from then on', async () => {
    const first = await create('p', { temperature: 0 })
    clock.pass(1_000)
    const second = await create('p', { max_tokens: 5, system: 'Two' })
    const { data } = second.json
    expect(data).toMatchObject({
      id: first.json.data.id,
      created_at: '2026-03-04T05:06:07.000Z',
      updated_at: '2026-03-04T05:06:08.000Z',
    })
    expect(data.designated_version).toMatchObject({
      version: 2,
      config: { model: 'acme/small', max_tokens: 5 },
      system_prompt: 'Two',
    })
    expect(data.designated_version_id).toBe(data.designated_version.id)
    expect(data.designated_version_id).not.toBe(first.json.data.designated_version_id)
    expect((await ask('GET', '/presets/p')).json).toEqual(second.json)
  })

  test('E6 keeps only fields of a config, and silently ignores the others', async () => {
    const ignored = {
      stream: true,
      prompt: 'x',
      user: 'ada',
      session_id: 's',
      trace: { a: 1 },
      metadata: { user_id: 'u' },
      nobody: 'knows',
    }
    const { status, json } = await create('p', { ...ignored, top_k: 5 })
    expect(status).toBe(200)
    expect(json.data.designated_version).toMatchObject({
      config: { model: 'acme/small', top_k: 5 },
      system_prompt: null,
    })
    expect(Object.keys(json.data.designated_version.config).sort()).toEqual(['model', 'top_k'])
  })

  test('a management key is refused, and the operator is not', async () => {
    expect((await create('p', {}, 'messages', keys.management)).status).toBe(403)
    expect(
      (await createPreset(gateway, getOperator(gateway), 'p', { system_prompt: null, config: {} }))
        .data.slug,
    ).toBe('p')
  })

  test('of two that create the same version at once, one gets a conflict', async () => {
    const make = () =>
      createPreset(gateway, getOperator(gateway), 'p', { system_prompt: null, config: {} })
    const outcomes = async () => (await Promise.allSettled([make(), make()])).map(one => one.status)
    expect(await outcomes()).toEqual(['fulfilled', 'rejected'])
    expect(await outcomes()).toEqual(['fulfilled', 'rejected'])
    gateway.memory.presets.delete(`${gateway.memory.owner.workspace_id}/p`)
    const { status, json } = await create('p')
    expect([status, json.error.message]).toEqual([
      409,
      'It was changed at the same moment. Please try again.',
    ])
  })

  test('a disabled preset gets a version and stays disabled; an archived one fails', async () => {
    await create('p')
    const statusOf = async (status: 'disabled' | 'archived') => {
      await updatePreset(gateway, getOperator(gateway), 'p', { status })
      return create('p')
    }
    expect((await statusOf('disabled')).json.data).toMatchObject({
      status: 'disabled',
      designated_version: { version: 2 },
    })
    const archived = await statusOf('archived')
    expect([archived.status, archived.json.error.message]).toEqual([404, 'This preset is archived'])
  })

  test.each([
    ['a dot', '.hidden'],
    ['a space', 'a%20b'],
    ['a quote', `a'b`],
    ['an umlaut', '%C3%BC'],
    ['an at sign', '@preset'],
    ['101 characters', 'a'.repeat(101)],
  ])('a slug with %s is refused in every route', async (_, slug) => {
    const asked = [
      create(slug),
      ask('GET', `/presets/${slug}`),
      ask('GET', `/presets/${slug}/versions`),
      ask('GET', `/presets/${slug}/versions/1`),
    ]
    for (const { status, json } of await Promise.all(asked))
      expect([status, json.error.metadata.field]).toEqual([400, 'slug'])
  })

  test('a slug may have 100 characters', async () => {
    expect((await create('a'.repeat(100))).status).toBe(200)
  })

  test.each<[name: string, dialect: string, body: unknown, field: string | undefined]>([
    ['a temperature that is none', 'messages', { ...ASKED, temperature: 3 }, 'temperature'],
    ['no messages', 'messages', { model: 'acme/small' }, 'messages'],
    ['no model', 'messages', { messages: MESSAGES }, 'model'],
    ['a list', 'messages', [], 'body'],
    ['no JSON', 'messages', '{', undefined],
    ['nothing', 'messages', '', undefined],
    ['a temperature that is none', 'chat/completions', { ...ASKED, temperature: 3 }, 'temperature'],
    ['messages that are none', 'chat/completions', { ...ASKED, messages: 'Hi' }, 'messages'],
    [
      'wishes that contradict',
      'chat/completions',
      { ...ASKED, reasoning: { effort: 'low', max_tokens: 5 } },
      'reasoning',
    ],
    [
      'no provider at all',
      'chat/completions',
      { ...ASKED, provider: { only: [] } },
      'provider.only',
    ],
    [
      'more models than are tried',
      'chat/completions',
      { ...ASKED, models: [...'abcdefgh'] },
      'models',
    ],
    [
      'an answer kept for no time',
      'chat/completions',
      { ...ASKED, cache_ttl_seconds: 0 },
      'cache_ttl_seconds',
    ],
    ['a word for yes', 'messages', { ...ASKED, cache_enabled: 'yes' }, 'cache_enabled'],
    ['a preset for a model', 'messages', { ...ASKED, model: '@preset/other' }, 'model'],
    [
      'a model at a preset',
      'chat/completions',
      { ...ASKED, model: 'acme/small@preset/other' },
      'model',
    ],
    [
      'a preset among the models',
      'chat/completions',
      { ...ASKED, models: ['@preset/other'] },
      'model',
    ],
    [
      'a preset among the fallbacks',
      'messages',
      { ...ASKED, fallbacks: [{ model: '@preset/other' }] },
      'model',
    ],
    ['a preset of its own', 'chat/completions', { ...ASKED, preset: 'other' }, 'preset'],
    ['a preset of its own', 'responses', { preset: 'other' }, 'preset'],
    ['a limit that is none', 'responses', { max_output_tokens: 0 }, 'max_output_tokens'],
    ['a tool without a name', 'responses', { tools: [{ type: 'function' }] }, 'tools.0.name'],
    [
      'a form without a schema',
      'responses',
      { text: { format: { type: 'json_schema', name: 'x' } } },
      'text.format.schema',
    ],
    ['instructions that are none', 'responses', { instructions: 5 }, 'instructions'],
  ])('%s is refused in %s, and creates nothing', async (_, dialect, body, field) => {
    const { status, json } = await ask('POST', `/presets/p/${dialect}`, { body })
    expect([status, json.error.metadata.field]).toEqual([400, field])
    expect((await ask('GET', '/presets/p')).status).toBe(404)
  })

  test('a config that is too large is refused, and one byte less is not', async () => {
    const bytes = 256 * 1024 - JSON.stringify({ model: 'acme/small' }).length
    const sent = async (system: string) => (await create('p', { system })).status
    expect([await sent('x'.repeat(bytes + 1)), await sent('x'.repeat(bytes))]).toEqual([400, 200])
    expect([await sent('ü'.repeat(bytes / 2 + 1))]).toEqual([400])
  })

  test('a workspace has at most 1000 presets, which still get new versions', async () => {
    const draft = { system_prompt: null, config: {} }
    for (let i = 0; i < 1_000; i++)
      await createPreset(gateway, getOperator(gateway), `p${i}`, draft)
    expect([(await create('one-more')).status, (await create('p7')).status]).toEqual([403, 200])
    expect(
      (
        await create(
          'elsewhere',
          {},
          'messages',
          (
            await createOtherWorkspace(gateway, OTHER, 'inference')
          ).key,
        )
      ).status,
    ).toBe(200)
  })
})

describe('the config is in the chat API’s terms', () => {
  const configOf = async (dialect: string, body: object) => {
    const { json } = await ask('POST', `/presets/p/${dialect}`, { body })
    return {
      config: json.data.designated_version.config,
      system_prompt: json.data.designated_version.system_prompt,
    }
  }
  const parameters = { type: 'object', properties: {} }

  test('for a chat request, unchanged', async () => {
    const kept = {
      ...{
        model: 'acme/small',
        models: ['acme/large'],
        provider: { order: ['local'] },
        plugins: [{ id: 'web' }],
        route: 'fallback',
      },
      ...{
        stop: 'END',
        max_completion_tokens: 9,
        reasoning: { effort: 'low' },
        tools: [{ type: 'function', function: { name: 'f' } }],
      },
      ...{ cache_enabled: false, cache_ttl_seconds: 60, response_format: { type: 'json_object' } },
    }
    const system = [
      { role: 'system', content: 'One' },
      { role: 'developer', content: [{ type: 'text', text: 'Two' }] },
    ]
    const messages = [...system, ...MESSAGES, { role: 'system', content: 'Later' }]
    expect(await configOf('chat/completions', { ...kept, temperature: null, messages })).toEqual({
      config: kept,
      system_prompt: 'One\n\nTwo',
    })
  })

  test('for a chat request with functions, as tools', async () => {
    const functions = [{ name: 'f', parameters }]
    expect(
      await configOf('chat/completions', { prompt: 'x', functions, function_call: { name: 'f' } }),
    ).toEqual({
      config: {
        tools: [{ type: 'function', function: functions[0] }],
        tool_choice: { type: 'function', function: { name: 'f' } },
      },
      system_prompt: null,
    })
  })

  test('for a request in Anthropic’s format', async () => {
    const search = { type: 'web_search_20250305', name: 'web_search' }
    const body = {
      ...ASKED,
      fallbacks: [{ model: 'acme/large' }],
      system: [
        { type: 'text', text: 'One' },
        { type: 'text', text: 'Two' },
      ],
      stop_sequences: ['END'],
      thinking: { type: 'enabled', budget_tokens: 2048 },
      output_config: { format: { type: 'json_schema', schema: parameters } },
      tools: [
        {
          name: 'f',
          description: 'F',
          input_schema: parameters,
          cache_control: { type: 'ephemeral' },
        },
        search,
      ],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      speed: 'fast',
    }
    expect(await configOf('messages', body)).toEqual({
      config: {
        model: 'acme/small',
        models: ['acme/large'],
        service_tier: 'priority',
        stop: ['END'],
        reasoning: { enabled: true, max_tokens: 2048 },
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'answer', strict: true, schema: parameters },
        },
        tools: [
          {
            type: 'function',
            function: { name: 'f', description: 'F', parameters },
            cache_control: { type: 'ephemeral' },
          },
          search,
        ],
        tool_choice: 'required',
        parallel_tool_calls: false,
      },
      system_prompt: 'One\n\nTwo',
    })
  })

  test('for a Responses request', async () => {
    const body = {
      ...{
        model: 'acme/small',
        input: 'Hi',
        instructions: 'Be brief',
        max_output_tokens: 50,
        top_p: 0.5,
        store: false,
        include: [],
      },
      text: {
        format: { type: 'json_schema', name: 'x', schema: parameters, strict: true },
        verbosity: 'low',
      },
      tools: [{ type: 'function', name: 'f', parameters, strict: null }, { type: 'web_search' }],
      tool_choice: { type: 'function', name: 'f' },
      reasoning: { effort: 'low' },
      prompt: { id: 'stored' },
      seed: 5,
    }
    expect(await configOf('responses', body)).toEqual({
      config: {
        ...{
          model: 'acme/small',
          max_tokens: 50,
          top_p: 0.5,
          verbosity: 'low',
          reasoning: { effort: 'low' },
        },
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'x', schema: parameters, strict: true },
        },
        tools: [{ type: 'function', function: { name: 'f', parameters } }, { type: 'web_search' }],
        tool_choice: { type: 'function', function: { name: 'f' } },
      },
      system_prompt: 'Be brief',
    })
  })
})

describe('GET /presets', () => {
  test('lists the last updated first, in pages, without versions', async () => {
    for (const slug of ['a', 'b', 'c', 'a']) {
      await create(slug)
      clock.pass(1_000)
    }
    const slugs = async (query: string) => {
      const { status, json } = await ask('GET', `/presets${query}`)
      return {
        status,
        slugs: json.data.map((one: { slug: string }) => one.slug),
        total: json.total_count,
      }
    }
    expect(await slugs('')).toEqual({ status: 200, slugs: ['a', 'c', 'b'], total: 3 })
    expect(await slugs('?offset=1&limit=1')).toEqual({ status: 200, slugs: ['c'], total: 3 })
    expect(await slugs('?offset=9')).toEqual({ status: 200, slugs: [], total: 3 })
    expect((await ask('GET', '/presets')).json.data[0]).not.toHaveProperty('designated_version')
  })

  test.each(['?limit=0', '?limit=101', '?limit=x', '?offset=-1', '?offset=1.5'])(
    '%s is refused',
    async query => {
      await create('p')
      expect([
        (await ask('GET', `/presets${query}`)).status,
        (await ask('GET', `/presets/p/versions${query}`)).status,
      ]).toEqual([400, 400])
    },
  )
})

describe('GET /presets/{slug}/versions', () => {
  test('lists the oldest first, in pages, and returns each of them', async () => {
    for (let i = 1; i <= 3; i++) await create('p', { max_tokens: i })
    const numbers = async (query: string) => {
      const { json } = await ask('GET', `/presets/p/versions${query}`)
      return {
        numbers: json.data.map((one: { version: number }) => one.version),
        total: json.total_count,
      }
    }
    expect(await numbers('')).toEqual({ numbers: [1, 2, 3], total: 3 })
    expect(await numbers('?offset=1&limit=1')).toEqual({ numbers: [2], total: 3 })
    const second = (await ask('GET', '/presets/p/versions/2')).json.data
    expect(second).toMatchObject({ version: 2, config: { max_tokens: 2 } })
    expect((await ask('GET', '/presets/p/versions?offset=1&limit=1')).json.data).toEqual([second])
    expect((await ask('GET', '/presets/p/versions/4')).status).toBe(404)
  })

  test.each(['0', '01', '-1', '1.5', 'latest', '9999999999'])(
    'the version %s is refused as a number',
    async version => {
      await create('p')
      const { status, json } = await ask('GET', `/presets/p/versions/${version}`)
      expect([status, json.error.metadata.field]).toEqual([400, 'version'])
    },
  )
})

const OPERATIONS: [method: string, path: string][] = [
  ['GET', '/presets'],
  ['GET', '/presets/p'],
  ['GET', '/presets/p/versions'],
  ['GET', '/presets/p/versions/1'],
  ['POST', '/presets/p/chat/completions'],
  ['POST', '/presets/p/messages'],
  ['POST', '/presets/p/responses'],
]

describe('permissions', () => {
  test.each(OPERATIONS)('a request without a valid key: %s %s', async (method, path) => {
    const asked = [ask(method, path, { key: null }), ask(method, path, { key: 'gw-v1-nobody' })]
    expect((await Promise.all(asked)).map(one => one.status)).toEqual([401, 401])
  })

  test('another workspace sees nothing, and has its own preset of the same slug', async () => {
    await create('p', { max_tokens: 1 })
    const { key } = await createOtherWorkspace(gateway, OTHER, 'inference')
    const seen = ['/presets/p', '/presets/p/versions', '/presets/p/versions/1'].map(path =>
      ask('GET', path, { key }),
    )
    expect((await Promise.all(seen)).map(one => one.status)).toEqual([404, 404, 404])
    expect((await ask('GET', '/presets', { key })).json).toEqual({ data: [], total_count: 0 })
    expect(
      (await create('p', { max_tokens: 2 }, 'messages', key)).json.data.designated_version.version,
    ).toBe(1)
    expect((await ask('GET', '/presets/p')).json.data.designated_version).toMatchObject({
      version: 1,
      config: { max_tokens: 1 },
    })
  })

  test.each(OPERATIONS)('a store failure is a 500 without details: %s %s', async (method, path) => {
    gateway.memory.presets = new Proxy(gateway.memory.presets, {
      get() {
        throw new Error('secret of the store')
      },
    })
    const { status, json } = await ask(method, path, method === 'POST' ? { body: ASKED } : {})
    expect([status, json.error.message]).toEqual([500, 'Internal Server Error'])
  })

  test('a management key may read', async () => {
    await create('p')
    const asked = OPERATIONS.filter(([method]) => method === 'GET').map(([method, path]) =>
      ask(method, path, { key: keys.management }),
    )
    expect((await Promise.all(asked)).map(one => one.status)).toEqual([200, 200, 200, 200])
  })
})

describe('a status', () => {
  test('says whether calls may use the preset, and when it changed', async () => {
    await create('p')
    const failure = () => {
      try {
        return requireUsablePreset(gateway, getOperator(gateway), 'p').slug
      } catch (thrown) {
        const { type, message } = GatewayError.from(thrown)
        return [type, message]
      }
    }
    expect(failure()).toBe('p')
    clock.pass(1_000)
    for (const status of ['disabled', 'archived'] as const) {
      const { data } = await updatePreset(gateway, getOperator(gateway), 'p', { status })
      expect(data).toMatchObject({
        status,
        status_updated_at: '2026-03-04T05:06:08.000Z',
        updated_at: '2026-03-04T05:06:08.000Z',
      })
      expect(failure()).toEqual(['not_found', `This preset is ${status}`])
    }
    expect((await ask('GET', '/presets/p')).json.data.status).toBe('archived')
    await updatePreset(gateway, getOperator(gateway), 'p', { status: 'active' })
    expect(failure()).toBe('p')
  })
})

describe('with another process', () => {
  let data: string
  let server: Gateway
  let terminal: Gateway
  const draft = { system_prompt: null, config: {} }

  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    server = await openGateway({ data })
    terminal = await openGateway({ data })
  })

  afterEach(async () => {
    await Promise.all([server.close(), terminal.close()])
    rmSync(data, { recursive: true, force: true })
  })

  const versionAt = (where: Gateway, slug: string) =>
    getPreset(where, getOperator(where), slug).data.designated_version.version
  const made = (where: Gateway, slug = 'p') => createPreset(where, getOperator(where), slug, draft)

  test('its changes are known as soon as this one has caught up', async () => {
    await made(terminal)
    await made(terminal)
    await updatePreset(terminal, getOperator(terminal), 'p', { status: 'disabled' })
    await server.catchUp()
    expect(getPreset(server, getOperator(server), 'p')).toEqual(
      getPreset(terminal, getOperator(terminal), 'p'),
    )
    expect(versionAt(server, 'p')).toBe(2)
  })

  test('a version that the other created meanwhile is a conflict; a retry succeeds', async () => {
    await made(server)
    await terminal.catchUp()
    await made(terminal)
    expect(GatewayError.from(await made(server).catch(thrown => thrown)).type).toBe('conflict')
    await server.catchUp()
    expect((await made(server)).data.designated_version.version).toBe(3)
  })

  test('changes by this process during a reload are kept', async () => {
    await made(terminal, 'theirs')
    const { all } = server.store.presets
    server.store.presets.all = async () => {
      const read = await all()
      await made(server, 'ours')
      return read
    }
    await server.catchUp()
    expect(
      listPresets(server, getOperator(server), {})
        .data.map(one => one.slug)
        .sort(),
    ).toEqual(['ours', 'theirs'])
  })

  test('presets survive a restart', async () => {
    await made(server)
    const again = await openGateway({ data })
    expect(getPreset(again, getOperator(again), 'p')).toEqual(
      getPreset(server, getOperator(server), 'p'),
    )
    await again.close()
  })
})

describe('credentials in a preset', () => {
  const tool = {
    type: 'mcp',
    server_label: 'files',
    server_url: 'https://user:hunter2-by-url@mcp.example/sse?k=0123456789abcdef0123456789abcdef',
    headers: { 'X-Own': 'plain-words-as-header' },
    authorization: 'short',
  }
  const SECRETS = [
    ...['hunter2-by-url', '0123456789abcdef0123456789abcdef', 'plain-words-as-header'],
    'sk-proj-in-the-prompt-Ab3dEf6hIj9kLmN0',
  ]
  const system_prompt = `Use ${SECRETS[3]}`
  const config = { model: 'acme/small', tools: [tool], temperature: 0.5 }

  /** Reads every file of the directory as one text. */
  const readAll = (data: string): string =>
    readdirSync(data)
      .map(name => readFileSync(join(data, name), 'latin1'))
      .join()

  const readWhole = (gateway: Gateway, slug: string) =>
    requireUsablePreset(gateway, getOperator(gateway), slug).designated_version

  test('are masked for everybody, and used whole', async () => {
    const gateway = await testGateway()
    const operator = getOperator(gateway)
    const texts = [
      await createPreset(gateway, operator, 'p', { system_prompt, config }),
      getPreset(gateway, operator, 'p'),
      await updatePreset(gateway, operator, 'p', { status: 'active' }),
      await listPresetVersions(gateway, operator, 'p', {}),
      await getPresetVersion(gateway, operator, 'p', '1'),
      listPresets(gateway, operator, {}),
    ].map(answer => JSON.stringify(answer))
    for (const text of texts)
      for (const secret of [...SECRETS, '"short"']) expect(text).not.toContain(secret)
    expect(texts[1]).toContain('https://user:hunt...-url@mcp.example/sse?k=0123...cdef')
    expect(readWhole(gateway, 'p')).toMatchObject({ system_prompt, config })
  })

  test('that were read masked and are sent again stay, at their address alone', async () => {
    const gateway = await testGateway()
    const operator = getOperator(gateway)
    await createPreset(gateway, operator, 'p', { system_prompt, config })
    const shown = getPreset(gateway, operator, 'p').data.designated_version
    const next = { ...shown.config, temperature: 0.9 }
    await createPreset(gateway, operator, 'p', { ...shown, config: next })
    expect(readWhole(gateway, 'p')).toMatchObject({
      system_prompt,
      config: { ...config, temperature: 0.9 },
    })
    const [masked] = shown.config.tools as object[]
    const moved = { ...masked, server_url: 'https://evil.example/sse' }
    const refused = await createPreset(gateway, operator, 'p', {
      system_prompt: null,
      config: { ...config, tools: [moved] },
    }).catch(GatewayError.from)
    expect(refused).toMatchObject({ status: 400, message: expect.stringContaining('again') })
    expect(refused).toMatchObject({ metadata: { field: expect.stringContaining('tools.0.') } })
    // With new ones it may move.
    const own = { ...moved, headers: { 'X-Own': 'another-value' }, authorization: 'new' }
    await createPreset(gateway, operator, 'p', {
      system_prompt: null,
      config: { ...config, tools: [own] },
    })
    expect(readWhole(gateway, 'p').config.tools).toEqual([own])
  })

  test('are sealed at rest, and are whole again in memory and after a restart', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-preset-'))
    for (const restart of [false, true]) {
      const opened = await openGateway({ data })
      if (!restart) await createPreset(opened, getOperator(opened), 'p', { system_prompt, config })
      expect(readWhole(opened, 'p')).toMatchObject({ system_prompt, config })
      await opened.close()
      const files = readAll(data)
      expect(files).toContain('acme/small')
      for (const secret of SECRETS) expect(files).not.toContain(secret)
      expect(files).not.toContain('"authorization":"short"')
    }
    rmSync(data, { recursive: true })
  })

  test('stay sealed with another secret, and in another version', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-preset-'))
    const first = await openGateway({ data, secret: 'one' })
    await createPreset(first, getOperator(first), 'p', { system_prompt, config })
    await first.close()
    const db = openDatabase(data)
    const { config: stored } = db.query('select config from preset_versions').get() as {
      config: string
    }
    db.close()
    const copied = await openGateway({ data, secret: 'one' })
    await createPreset(copied, getOperator(copied), 'q', {
      system_prompt: null,
      config: JSON.parse(stored),
    })
    for (const slug of ['p', 'q']) {
      const text = JSON.stringify(readWhole(copied, slug))
      expect([slug, text.includes('plain-words')]).toEqual([slug, slug === 'p'])
    }
    await copied.close()
    const other = await openGateway({ data, secret: 'two' })
    const text = JSON.stringify(readWhole(other, 'p'))
    for (const secret of SECRETS) expect(text).not.toContain(secret)
    await other.close()
    rmSync(data, { recursive: true })
  })
})
