import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { buildRoutesConfig, fetchGeneration, readGenerationId, sendChat } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

let server: Server
let upstream: Upstream
let claude: Upstream

beforeAll(async () => {
  ;[upstream, claude] = await Promise.all([startUpstream(), startUpstream()])
  const config = buildRoutesConfig({
    'acme/small': { local: upstream.url },
    'acme/large': { local: upstream.url, other: upstream.url },
    'acme/claude': { claude: claude.url },
  })
  Object.assign(config.providers.claude ?? {}, { protocol: 'anthropic-messages' })
  server = await startServer({ config })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([upstream.close(), claude.close()])
})

beforeEach(() => {
  upstream.plan(completion('Hello'))
  upstream.hits.length = 0
})

/** Creates the next version of a preset, and designates it. Throws when it is refused. */
async function preset(slug: string, body: object, dialect = 'chat/completions'): Promise<string> {
  const response = await server.fetch(`/presets/${slug}/${dialect}`, {
    key: server.inference_key,
    json: body,
  })
  if (response.status !== 200) throw new Error(await response.text())
  return ((await response.json()) as { data: { id: string } }).data.id
}

/** Returns what the provider received of a call with these fields. The call must succeed. */
async function sent(body: object, path = '/chat/completions'): Promise<Record<string, unknown>> {
  const outcome = await sendChat(server, body, { path }).outcome()
  expect([outcome.status, upstream.hits.length]).toEqual([200, 1])
  return upstream.hits[0]?.json as Record<string, unknown>
}

const user = { role: 'user', content: 'Hi' }
const weather = (description: string) => ({
  type: 'function',
  function: { name: 'get_weather', description },
})
const time = { type: 'function', function: { name: 'get_time' } }

describe('a preset is used', () => {
  test.each([
    ['for its model', { model: '@preset/named' }],
    ['at a model', { model: 'acme/large@preset/named' }],
    ['with a model', { model: 'acme/large', preset: 'named' }],
    ['named twice', { model: '@preset/named', preset: 'named' }],
    ['without a model', { model: undefined, preset: 'named' }],
  ])('%s', async (_, naming) => {
    const id = await preset('named', { model: 'acme/small', temperature: 0.5 })
    const outcome = await sendChat(server, naming).outcome()
    const model = naming.model?.startsWith('acme/large') ? 'acme/large' : 'acme/small'
    expect(upstream.hits.map(hit => hit.json)).toEqual([
      { model: 'test-model', messages: [user], temperature: 0.5 },
    ])
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      model,
      preset_id: id,
    })
  })

  test('by its newest version, streamed too', async () => {
    await preset('newest', { model: 'acme/small', temperature: 0.5, seed: 1 })
    await preset('newest', { model: 'acme/small', top_p: 0.5 })
    expect(await sent({ model: '@preset/newest' })).toEqual({
      model: 'test-model',
      messages: [user],
      top_p: 0.5,
    })
    upstream.hits.length = 0
    expect(await sent({ model: '@preset/newest', stream: true })).toMatchObject({
      stream: true,
      top_p: 0.5,
    })
  })

  test('and a call without one has none in its record', async () => {
    expect(
      await fetchGeneration(server, readGenerationId(await sendChat(server).outcome())),
    ).toMatchObject({
      preset_id: null,
    })
  })

  test('on /completions', async () => {
    await preset('old', {
      model: 'acme/small',
      max_tokens: 7,
      messages: [{ role: 'system', content: 'Go on' }],
    })
    expect(
      await sent({ model: '@preset/old', messages: undefined, prompt: 'Once' }, '/completions'),
    ).toEqual({
      model: 'test-model',
      messages: [
        { role: 'system', content: 'Go on' },
        { role: 'user', content: 'Once' },
      ],
      max_tokens: 7,
    })
  })

  test('with the default model, when neither it nor the call names one', async () => {
    await preset('modelless', { temperature: 0.5 })
    const { body } = await sendChat(server, { model: '@preset/modelless' }).outcome()
    expect(JSON.parse(body).model).toBe('sandbox/echo')
  })

  test('as soon as the terminal has created it', async () => {
    const file = `${server.data}/body.json`
    await Bun.write(file, JSON.stringify({ model: 'acme/small', temperature: 0.25 }))
    expect(
      (await runCommand(['presets', 'create', 'terminal', '--body', file, '--data', server.data]))
        .code,
    ).toBe(0)
    let outcome = await sendChat(server, { model: '@preset/terminal' }).outcome()
    for (let tries = 0; outcome.status === 404 && tries < 100; tries++) {
      await Bun.sleep(50)
      outcome = await sendChat(server, { model: '@preset/terminal' }).outcome()
    }
    expect([outcome.status, upstream.hits.at(-1)?.json]).toMatchObject([200, { temperature: 0.25 }])
  })
})

describe('field by field', () => {
  test('the call takes precedence, under any name of a field, and null sets nothing', async () => {
    await preset('ruled', {
      model: 'acme/small',
      max_completion_tokens: 100,
      temperature: 0.5,
      top_p: 0.5,
      stop: 'END',
    })
    expect(
      await sent({ model: '@preset/ruled', max_tokens: 50, temperature: 0, top_p: null }),
    ).toEqual({
      ...{
        model: 'test-model',
        messages: [user],
        max_tokens: 50,
        temperature: 0,
        top_p: 0.5,
        stop: ['END'],
      },
    })
  })

  test('an object is one field: the call’s replaces the preset’s', async () => {
    await preset('whole', {
      model: 'acme/large',
      provider: { order: ['other'], allow_fallbacks: false },
    })
    const providerOf = async (more: object) =>
      JSON.parse((await sendChat(server, { model: '@preset/whole', ...more }).outcome()).body)
        .provider
    expect([
      await providerOf({}),
      await providerOf({ provider: { allow_fallbacks: true } }),
    ]).toEqual(['other', 'local'])
  })

  test('the preset’s other models are tried after the call’s own', async () => {
    await preset('models', { model: 'acme/none', models: ['acme/small'] })
    const { status, body } = await sendChat(server, {
      model: 'acme/claude@preset/models',
      provider: { only: ['local'] },
    }).outcome()
    expect([status, JSON.parse(body).model]).toEqual([200, 'acme/small'])
    const named = await sendChat(server, {
      model: 'acme/claude@preset/models',
      models: ['acme/large'],
      provider: { only: ['local'] },
    }).outcome()
    expect(JSON.parse(named.body).model).toBe('acme/large')
  })

  test('tools are merged: the preset’s first, replaced by the call’s of their name', async () => {
    await preset('tools', {
      model: 'acme/small',
      tools: [weather('preset'), time],
      tool_choice: 'required',
    })
    const own = { type: 'function', function: { name: 'own' } }
    expect(await sent({ model: '@preset/tools', tools: [own, weather('call')] })).toMatchObject({
      tools: [weather('call'), time, own],
      tool_choice: 'required',
    })
  })

  test('the system prompt precedes the call’s own', async () => {
    await preset('system', {
      model: 'acme/small',
      messages: [{ role: 'system', content: 'Preset' }, user],
    })
    const system = { role: 'system', content: 'Call' }
    expect(await sent({ model: '@preset/system', messages: [system, user] })).toMatchObject({
      messages: [{ role: 'system', content: 'Preset' }, system, user],
    })
  })

  test('fields that concern only a cache reach no provider', async () => {
    await preset('cached', {
      model: 'acme/small',
      cache_enabled: false,
      cache_ttl_seconds: 60,
      plugins: [{ id: 'moderation', enabled: false }],
    })
    expect(await sent({ model: '@preset/cached' })).toEqual({
      model: 'test-model',
      messages: [user],
    })
  })
})

describe('the dialect does not matter:', () => {
  const inAnthropics = {
    ...{
      model: 'acme/small',
      max_tokens: 9,
      messages: [user],
      system: 'Be brief',
      stop_sequences: ['END'],
    },
    tools: [{ name: 'get_time', input_schema: { type: 'object' } }],
    output_config: { effort: 'low' },
  }
  const inChats = {
    ...{ model: 'acme/small', max_tokens: 9, stop: 'END', reasoning: { effort: 'low' } },
    messages: [{ role: 'system', content: 'Be brief' }, user],
    tools: [{ type: 'function', function: { name: 'get_time', parameters: { type: 'object' } } }],
  }
  const inResponses = {
    ...{
      model: 'acme/small',
      max_output_tokens: 9,
      instructions: 'Be brief',
      input: 'Hi',
      reasoning: { effort: 'low' },
    },
    tools: [{ type: 'function', name: 'get_time', parameters: { type: 'object' } }],
  }

  test.each([
    ['messages', inAnthropics, ['END']],
    ['chat/completions', inChats, ['END']],
    ['responses', inResponses, undefined],
  ])('a preset created in %s is used in every dialect', async (dialect, body, stop) => {
    await preset('spoken', body, dialect)
    const expected = {
      ...{ model: 'test-model', max_tokens: 9, tools: inChats.tools, reasoning_effort: 'low' },
      messages: [{ role: 'system', content: 'Be brief' }, user],
      ...(stop ? { stop } : {}),
    }
    expect(await sent({ model: '@preset/spoken' })).toEqual(expected)
    upstream.hits.length = 0
    expect(await sent({ model: '@preset/spoken' }, '/messages')).toEqual(expected)
  })

  test('a provider’s own tool reaches it as if the call had it', async () => {
    const search = { type: 'web_search_20250305', name: 'web_search' }
    await preset(
      'search',
      {
        model: 'acme/claude',
        max_tokens: 9,
        messages: [user],
        tools: [search],
        thinking: { type: 'disabled' },
      },
      'messages',
    )
    claude.plan(completion('no answer of Anthropic’s'))
    await sendChat(
      server,
      { model: '@preset/search', tools: [{ ...search, max_uses: 1 }] },
      { path: '/messages' },
    ).outcome()
    expect(claude.hits.at(-1)?.json).toMatchObject({
      tools: [{ ...search, max_uses: 1 }],
      max_tokens: 9,
    })
    claude.hits.length = 0
    await sendChat(server, { model: '@preset/search' }, { path: '/messages' }).outcome()
    expect(claude.hits.at(-1)?.json).toMatchObject({ tools: [search] })
  })
})

describe('a call is refused', () => {
  const refusal = ({ status, body }: Outcome) => {
    const { error } = JSON.parse(body)
    return [status, error.message, error.metadata?.field]
  }

  test.each([
    ['an unknown preset', { model: '@preset/none' }, [404, 'Preset not found', undefined]],
    ['an invalid slug', { model: '@preset/' }, [404, 'Preset not found', undefined]],
    ['an unknown preset with a model', { preset: 'none' }, [404, 'Preset not found', undefined]],
    ['a property of every object', { preset: '__proto__' }, [404, 'Preset not found', undefined]],
    [
      'two',
      { model: '@preset/a', preset: 'b' },
      [400, 'preset: expected the one that model names, or none', 'preset'],
    ],
    ['an empty name', { preset: '' }, [400, expect.stringContaining('preset: expected'), 'preset']],
    ['a number', { preset: 5 }, [400, expect.stringContaining('preset: expected'), 'preset']],
    [
      'a preset among the other models',
      { models: ['@preset/a'] },
      [400, '"@preset/a" is not a valid model ID', 'model'],
    ],
  ])('that names %s', async (_, naming, expected) => {
    for (const path of ['/chat/completions', '/completions'])
      expect(
        refusal(
          await sendChat(
            server,
            path === '/completions' ? { ...naming, messages: undefined, prompt: 'x' } : naming,
            { path },
          ).outcome(),
        ),
      ).toEqual(expected)
    expect(upstream.hits).toHaveLength(0)
  })

  test.each(['disabled', 'archived'])('that names a preset that is %s', async status => {
    await preset(status, { model: 'acme/small' })
    expect(
      (await runCommand(['presets', 'update', status, '--status', status, '--data', server.data]))
        .code,
    ).toBe(0)
    let outcome = await sendChat(server, { model: `@preset/${status}` }).outcome()
    for (let tries = 0; outcome.status === 200 && tries < 100; tries++) {
      await Bun.sleep(50)
      outcome = await sendChat(server, { model: `@preset/${status}` }).outcome()
    }
    expect(refusal(outcome)).toEqual([404, `This preset is ${status}`, undefined])
  })

  test('in Anthropic’s form if the call came in that', async () => {
    const { status, body } = await sendChat(
      server,
      { model: '@preset/none' },
      { path: '/messages' },
    ).outcome()
    expect([status, JSON.parse(body)]).toMatchObject([
      404,
      { type: 'error', error: { type: 'not_found_error', message: 'Preset not found' } },
    ])
  })

  test('for embeddings, as presets are for conversations', async () => {
    await preset('vectors', { model: 'sandbox/embed' })
    const { status, body } = await sendChat(
      server,
      { model: '@preset/vectors', input: 'x', messages: undefined },
      { path: '/embeddings' },
    ).outcome()
    expect([status, JSON.parse(body).error.message]).toEqual([
      400,
      '"@preset/vectors" is not a valid model ID',
    ])
  })
})
