import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { RecordedRequest } from '../../scripts/agents/recorder.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { systemClock } from '../../src/base/clock.ts'
import { type Json, parseObject, readObject, readObjects } from '../../src/base/json.ts'
import { AGENTS } from '../../src/cli/commands/agent.ts'
import { AwsEventStreamScanner } from '../../src/network/part-stream.ts'
import { createApp } from '../../src/server/app.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import type { ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { assembleResponse, parseEvents } from '../support/response-events.ts'

/*
 * What agents send by default reaches every model: translated, or left out by name. Their requests
 * are those that they were seen to send.
 */

const PROTOCOLS = [
  ...['openai-chat', 'anthropic-messages', 'gemini', 'bedrock-converse', 'cohere-chat'],
  'openai-responses',
]
const FOREIGN = PROTOCOLS.slice(0, 5)

let answer: ScriptedAnswer
let heard: Parameters<Scenario>[0][]
let upstream: FakeProviderServer
let search: ReturnType<typeof Bun.serve>
let gateway: Gateway
let app: ReturnType<typeof createApp>
let keys: Awaited<ReturnType<typeof createTestKeys>>

beforeAll(async () => {
  upstream = startFakeProviders({
    m: received => {
      heard.push(received)
      const isDone = received.results.some(({ text }) => text.includes('found-by-engine'))
      return { answer: isDone ? { text: 'Found', finish: 'stop' } : answer }
    },
  })
  search = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    fetch: () =>
      Response.json({
        results: [{ url: 'https://a.example/', title: 'A', content: 'found-by-engine' }],
      }),
  })
  ;({ gateway, app, keys } = await open())
})

afterAll(async () => {
  await gateway.close()
  await search.stop(true)
  await upstream.close()
})

beforeEach(() => {
  answer = { text: 'Hello', finish: 'stop' }
  heard = []
})

const model = (id: string, provider: string, more: Json = {}) => ({
  ...{ id, endpoints: [{ provider, model: 'm', ...more }] },
})

async function open(more: Json = {}) {
  const opened = await testGateway({
    clock: systemClock,
    config: {
      providers: {
        ...Object.fromEntries(
          PROTOCOLS.map(protocol => [
            protocol,
            { protocol, base_url: upstream.getBaseUrl(protocol), api_key: 'k' },
          ]),
        ),
        openai: {
          api_key: 'k',
          protocols: ['openai-chat', 'openai-responses'].map(protocol => ({
            ...{ protocol, base_url: upstream.getBaseUrl(protocol) },
          })),
        },
        both: {
          api_key: 'k',
          protocols: [
            { protocol: 'openai-chat', base_url: upstream.getBaseUrl('openai-chat') },
            { protocol: 'anthropic-messages', base_url: upstream.getBaseUrl('anthropic-messages') },
            { protocol: 'openai-responses', base_url: upstream.getBaseUrl('openai-responses') },
          ],
        },
      },
      models: [
        ...PROTOCOLS.map(name => model(`acme/${name}`, name)),
        model('openai/m', 'openai'),
        model('acme/both', 'both'),
        model('acme/fixed', 'both', { protocol: 'openai-chat' }),
      ],
      ...more,
    },
  })
  return { gateway: opened, app: createApp(opened), keys: await createTestKeys(opened) }
}

const withEngine = () => ({
  web_search: { engines: { searxng: { base_url: `http://127.0.0.1:${search.port}` } } },
})

interface Answered {
  status: number
  headers: Headers
  text: string
  json: Json
}

async function ask(
  path: string,
  body: Json,
  headers: Record<string, string> = {},
  at = { app, keys },
): Promise<Answered> {
  const response = await at.app.handle(
    new Request(`http://localhost${path.startsWith('/') ? '' : '/api/v1/'}${path}`, {
      method: 'POST',
      headers: {
        ...{ 'content-type': 'application/json', authorization: `Bearer ${at.keys.inference}` },
        ...headers,
      },
      body: JSON.stringify(body),
    }),
  )
  const text = await readText(response)
  return { status: response.status, headers: response.headers, text, json: parseObject(text) ?? {} }
}

/** Reads an answer; one of frames as the events that are in them. */
async function readText(response: Response): Promise<string> {
  if (response.headers.get('content-type') !== 'application/vnd.amazon.eventstream')
    return response.text()
  const frames = new AwsEventStreamScanner().feed(await response.bytes())
  return frames
    .map(({ data }) => Buffer.from(String(JSON.parse(data).bytes), 'base64').toString())
    .map(data => `data: ${data}\n\n`)
    .join('')
}

const outputOf = ({ json }: Answered) => readObjects(json.output)
const errorOf = ({ json }: Answered) => readObject(json, 'error')

/** Returns what stands in a body at a path of members. */
const readPath = (body: Json, path: string): unknown =>
  path.split('.').reduce<unknown>((found, name) => (found as Json | undefined)?.[name], body)

/** What each agent was seen to send by `bun run agents`, shortened: a line for each request. */
const FIXTURES = resolve(import.meta.dir, '../fixtures/agents')
const recorded = Object.entries(AGENTS).flatMap(([agent, { version }]) => {
  const text = readFileSync(join(FIXTURES, `${agent}-${version}.data.json`), 'utf8')
  return (JSON.parse(text) as RecordedRequest[]).map((request, i) => ({ agent, i, request }))
})

test('each agent was recorded until its task was done, in the version that is named', () => {
  const names = Object.entries(AGENTS).map(
    ([agent, { version }]) => `${agent}-${version}.data.json`,
  )
  expect(readdirSync(FIXTURES).toSorted()).toEqual(names.toSorted())
  const done = recorded.filter(({ request }) => JSON.stringify(request).includes('step-3-done'))
  expect([...new Set(done.map(({ agent }) => agent))]).toEqual(Object.keys(AGENTS))
})

describe.each([...FOREIGN.map(name => `acme/${name}`), 'openai/m', 'acme/openai-responses'])(
  'requests of agents to %s',
  slug => {
    test.each(recorded)('$agent $i is answered, and what is left out is named', async recording => {
      const { body } = recording.request
      // A door has the model in its path, as one segment behind it, and not in the body.
      const named = recording.request.path
      const path = named.replace(/\{model\}[:/]/, `${encodeURIComponent(slug)}/`)
      const isDoor = path !== named
      const { status, headers, text } = await ask(path, isDoor ? body : { ...body, model: slug })
      expect([status, text.slice(0, 300)]).toMatchObject([200, expect.stringContaining('data:')])
      expect(readStream(path, text)).toBe('Hello')
      const declared = readObjects(body.tools).map(({ type }) => type)
      const isNative = slug.startsWith('openai/') || slug.endsWith('responses')
      const isNamed = !isNative && declared.includes('web_search')
      const ignored = headers.get('x-gateway-ignored')?.split(', ') ?? []
      expect(ignored.filter(name => name === 'web_search')).toEqual(isNamed ? ['web_search'] : [])
      const parameters = ignored.filter(name => name !== 'web_search')
      expect(parameters.filter(name => readPath(body, name) == null)).toEqual([])
      const history = JSON.stringify(body)
      if (declared.length > 0) expect(heard[0]?.tools.length).toBeGreaterThan(1)
      if (!history.includes('step-3-done')) return
      expect(heard[0]?.results.map(result => result.text).join()).toMatch(
        /step-1-done.*step-2-done.*step-3-done/s,
      )
    })
  },
)

/** Reads the text of a streamed answer. */
function readStream(path: string, text: string): unknown {
  if (path === 'responses') return assembleResponse(parseEvents(text)).output_text
  const events = [...text.matchAll(/^data: (\{.+)$/gm)].map(
    ([, data = '']) => parseObject(data) ?? {},
  )
  return events
    .flatMap(event => [
      readObject(event, 'delta'),
      readObject(readObjects(event.choices)[0] ?? {}, 'delta'),
      ...readObjects(readObject(readObjects(event.candidates)[0] ?? {}, 'content').parts),
    ])
    .map(delta => delta.text ?? delta.content ?? '')
    .join('')
}

const NAMESPACE = {
  ...{ type: 'namespace', name: 'mcp__weather', description: 'Weather' },
  tools: [
    { type: 'function', name: 'get', parameters: { type: 'object', properties: {} } },
    { type: 'custom', name: 'note' },
  ],
}
const call = (name: string, input = '{}', id = 'call_1') => ({ id, name, input })

describe.each(FOREIGN)('over %s', protocol => {
  const send = (body: Json) => ask('responses', { model: `acme/${protocol}`, input: 'Hi', ...body })

  test('D01, D02 namespace tools work, and calls come back under their namespace', async () => {
    answer = {
      calls: [call('mcp__weather__get'), call('mcp__weather__note', '{"input":"x"}', 'call_2')],
      finish: 'tool_calls',
    }
    const answered = await send({ tools: [NAMESPACE] })
    expect([answered.status, heard[0]?.tools]).toEqual([
      200,
      ['mcp__weather__get', 'mcp__weather__note'],
    ])
    expect(outputOf(answered)).toMatchObject([
      { type: 'function_call', namespace: 'mcp__weather', name: 'get', arguments: '{}' },
      { type: 'custom_tool_call', namespace: 'mcp__weather', name: 'note', input: 'x' },
    ])
    answer = { text: 'Sunny', finish: 'stop' }
    const results = outputOf(answered).map(({ type, call_id }) => ({
      ...{ type: `${type}_output`, call_id, output: 'ok' },
    }))
    const input = [{ role: 'user', content: 'Hi' }, ...outputOf(answered), ...results]
    const next = await send({ tools: [NAMESPACE], input })
    expect([next.status, heard.at(-1)?.calls.map(({ name }) => name)]).toEqual([
      200,
      ['mcp__weather__get', 'mcp__weather__note'],
    ])
    expect(heard.at(-1)?.results.map(({ text }) => text)).toEqual(['ok', 'ok'])
  })

  test('D03 an additional_tools item gives tools to the model', async () => {
    const item = { type: 'additional_tools', role: 'developer', tools: [NAMESPACE] }
    const { status } = await send({ input: [item, { role: 'user', content: 'Hi' }] })
    expect([status, heard[0]?.tools.length]).toEqual([200, 2])
  })

  test('D06 empty arguments are {}, and a result of texts and pictures is whole', async () => {
    const image_url = 'data:image/png;base64,iVBORw0KGgo='
    const output = [
      { type: 'input_text', text: 'one' },
      { type: 'input_image', image_url, detail: 'auto' },
    ]
    const { status } = await send({
      input: [
        { role: 'user', content: 'Hi' },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '' },
        { type: 'function_call_output', call_id: 'c', output },
      ],
    })
    expect(status).toBe(200)
    expect(heard[0]?.calls.map(({ input }) => input)).toEqual(['{}'])
    expect(JSON.stringify(heard[0])).toContain('one')
  })

  test('D08 a history whose turns repeat a call id goes on', async () => {
    const turn = (n: number) => [
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_0', output: `result ${n}` },
    ]
    const { status } = await send({
      input: [{ role: 'user', content: 'Hi' }, ...turn(1), ...turn(2)],
    })
    expect([status, heard[0]?.results.map(({ text }) => text)]).toEqual([
      200,
      ['result 1', 'result 2'],
    ])
    const ids = heard[0]?.calls.map(({ id }) => id) ?? []
    expect(new Set(ids).size).toBe(protocol === 'gemini' ? new Set(ids).size : 2)
  })

  test('T01 a conversation that Claude began goes on', async () => {
    const { status, json } = await ask('messages', {
      ...{ model: `acme/${protocol}`, max_tokens: 100 },
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'Let me see', signature: 'EqQB' },
            { type: 'redacted_thinking', data: 'EqQB' },
            { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
            { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
            { type: 'text', text: 'Found' },
            { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
          ],
        },
        {
          role: 'user',
          content: [
            {
              ...{ type: 'tool_result', tool_use_id: 'toolu_1' },
              content: [{ type: 'tool_reference', tool_name: 'g' }],
            },
          ],
        },
      ],
    })
    expect([status, readObjects(json.content)[0]?.text]).toEqual([200, 'Hello'])
  })

  test('a compaction is made and goes on', async () => {
    answer = { text: 'Files a.ts and b.ts are done', finish: 'stop' }
    const input = [
      { role: 'user', content: 'Do it' },
      { role: 'assistant', content: 'Done' },
    ]
    const asked = await send({ input: [...input, { type: 'compaction_trigger' }] })
    expect(outputOf(asked)).toMatchObject([{ type: 'compaction' }])
    expect(heard[0]?.lines.at(-1)).toContain('summary')
    const next = await send({ input: [...outputOf(asked), { role: 'user', content: 'Next' }] })
    expect([next.status, heard.at(-1)?.lines.join()]).toEqual([
      200,
      expect.stringContaining('Files a.ts and b.ts are done'),
    ])
    const compacted = await ask('responses/compact', { model: `acme/${protocol}`, input })
    expect(compacted.json).toMatchObject({
      object: 'response.compaction',
      output: [{ role: 'user', content: 'Do it' }, { type: 'compaction' }],
    })
  })

  test('a provider’s own tool is left out, and the answer says so', async () => {
    const tools = [{ type: 'code_interpreter' }, { type: 'function', name: 'f', parameters: {} }]
    const { status, headers, json } = await send({ tools, tool_choice: 'auto' })
    expect([status, headers.get('x-gateway-ignored')]).toEqual([200, 'code_interpreter'])
    const record = await gateway.store.generations.byId(String(json.id))
    expect(record?.provider_responses).toMatchObject([{ ignored: ['code_interpreter'] }])
  })

  test('one that must be used is refused, with the setting that mends it', async () => {
    for (const [type, setting] of [
      ['web_search_preview', 'web_search.engines'],
      ['code_interpreter', `providers.${protocol}.protocols`],
    ]) {
      const answered = await send({ tools: [{ type }], tool_choice: { type } })
      const { param, message } = errorOf(answered)
      expect([answered.status, param]).toEqual([400, 'tool_choice'])
      expect(String(message)).toContain(setting ?? '')
      expect(String(message)).toContain(type ?? '')
    }
    expect(heard).toEqual([])
  })
})

describe('what was left out', () => {
  const body = (more: Json = {}) => ({
    ...{ model: 'acme/openai-chat', input: 'Hi', tools: [{ type: 'file_search' }], ...more },
  })

  test('stands in the routing metadata, under the name that was asked for', async () => {
    const { headers, json } = await ask('responses', body(), {
      'x-openrouter-metadata': 'enabled',
    })
    expect(headers.get('x-openrouter-ignored')).toBe('file_search')
    expect(json.openrouter_metadata).toMatchObject({ ignored: ['file_search'] })
    const stream = await ask('responses', body({ stream: true }), {
      'x-gateway-metadata': 'enabled',
    })
    expect(stream.headers.get('x-gateway-ignored')).toBe('file_search')
    const last = readObject(parseEvents(stream.text).at(-1) ?? {}, 'response')
    expect(last.gateway_metadata).toMatchObject({ ignored: ['file_search'] })
  })

  test('is nothing where nothing was', async () => {
    const { headers, json } = await ask('responses', body({ tools: [] }), {
      'x-gateway-metadata': 'enabled',
    })
    expect(headers.get('x-gateway-ignored')).toBeNull()
    expect(json.gateway_metadata).not.toHaveProperty('ignored')
  })

  test('is printable, and short', async () => {
    const tools = [...Array(100).keys()].map(i => ({ type: `höhe, ${'x'.repeat(40)}${i}` }))
    const { status, headers } = await ask('responses', body({ tools }))
    const named = headers.get('x-gateway-ignored') ?? ''
    expect(status).toBe(200)
    expect(named).toMatch(/^[\x20-\x7e]+, \.\.\.$/)
    expect(named.length).toBeLessThanOrEqual(1_024)
    expect(named.split(', ')[0]).toBe(`h_he__${'x'.repeat(40)}0`)
  })

  test('is shown to pages of other sites, and in the list of calls', async () => {
    const at = await open({ service_name: 'acme', server: { cors: ['*'] } })
    const { headers, json } = await ask('responses', body(), { origin: 'https://a.example' }, at)
    expect(headers.get('x-acme-ignored')).toBe('file_search')
    const { app: other, keys: otherKeys } = at
    const shown = await other.handle(
      new Request(`http://localhost/api/v1/generation?id=${json.id}`, {
        headers: { authorization: `Bearer ${otherKeys.inference}`, origin: 'https://a.example' },
      }),
    )
    expect(await shown.json()).toMatchObject({ data: { ignored: ['file_search'] } })
    await at.gateway.close()
  })

  test('names parameters, too', async () => {
    const at = await open({
      models: [model('acme/few', 'openai-chat', { supported_parameters: ['max_tokens', 'tools'] })],
    })
    const asked = { model: 'acme/few', messages: [{ role: 'user', content: 'Hi' }], seed: 7 }
    const { headers } = await ask('chat/completions', asked, {}, at)
    expect(headers.get('x-gateway-ignored')).toBe('seed')
    await at.gateway.close()
  })

  test('names parameters that the API of the provider does not have', async () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    for (const stream of [false, true]) {
      const asked = { model: 'acme/cohere-chat', messages, n: 2, min_p: 0.1, top_a: 0, stream }
      const { status, headers } = await ask('chat/completions', asked)
      expect([status, headers.get('x-gateway-ignored')]).toEqual([200, 'min_p, n'])
    }
  })
})

describe('a search engine of the gateway', () => {
  const SEARCH: ScriptedAnswer = {
    calls: [call('web_search', '{"query":"a"}')],
    finish: 'tool_calls',
  }
  let at: Awaited<ReturnType<typeof open>>
  beforeAll(async () => {
    at = await open(withEngine())
  })
  afterAll(() => at.gateway.close())

  test.each(FOREIGN.filter(name => name !== 'anthropic-messages'))(
    'stands in for the search of the Responses API at %s',
    async protocol => {
      answer = SEARCH
      for (const tool_choice of ['auto', { type: 'web_search' }]) {
        const tools = [{ type: 'web_search', external_web_access: false }]
        const body = { model: `acme/${protocol}`, input: 'Hi', tools, tool_choice }
        const answered = await ask('responses', body, {}, at)
        expect([answered.status, answered.headers.get('x-gateway-ignored')]).toEqual([200, null])
        expect(outputOf(answered)).toMatchObject([
          { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'a' } },
          { type: 'message' },
        ])
        expect(readObjects(answered.json.tools)).toEqual(tools)
      }
    },
  )

  test('stands in for the search of the Messages API', async () => {
    answer = SEARCH
    const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }]
    for (const tool_choice of [undefined, { type: 'tool', name: 'web_search' }]) {
      const messages = [{ role: 'user', content: 'Hi' }]
      const body = { model: 'acme/openai-chat', max_tokens: 9, messages, tools, tool_choice }
      const { status, json } = await ask('messages', body, {}, at)
      expect([status, readObjects(json.content).map(({ type }) => type)]).toEqual([
        200,
        ['server_tool_use', 'web_search_tool_result', 'text'],
      ])
    }
  })

  test('is not asked where a provider searches itself', async () => {
    const body = { model: 'openai/m', input: 'Hi', tools: [{ type: 'web_search' }] }
    expect((await ask('responses', body, {}, at)).status).toBe(200)
    expect(heard[0]?.tools).not.toContain('web_search')
  })
})

describe('the protocol of a call', () => {
  const CHAT = { messages: [{ role: 'user', content: 'Hi' }] }
  const BODIES: Record<string, Json> = {
    'chat/completions': CHAT,
    messages: { ...CHAT, max_tokens: 9 },
    responses: { input: 'Hi' },
  }
  const protocolOf = async (slug: string, path: string) => {
    const { status } = await ask(path, { model: slug, ...BODIES[path] })
    expect(status).toBe(200)
    const record = (await gateway.store.generations.list({}, 1))[0]
    expect(record?.model).toBe(slug)
    return PROTOCOLS.find(name => upstreamHeard(name) === heard.at(-1))
  }
  const upstreamHeard = (name: string) => {
    try {
      return upstream.getLastRequest(name)
    } catch {
      return undefined
    }
  }

  test.each([
    ['acme/both', 'chat/completions', 'openai-chat'],
    ['acme/both', 'messages', 'anthropic-messages'],
    ['acme/both', 'responses', 'openai-responses'],
    ['acme/fixed', 'responses', 'openai-chat'],
    ['acme/fixed', 'messages', 'openai-chat'],
    ['acme/openai-chat', 'responses', 'openai-chat'],
    ['openai/m', 'responses', 'openai-responses'],
  ])('%s over /%s is %s', async (slug, path, protocol) => {
    expect(await protocolOf(slug, path)).toBe(protocol)
  })
})

test('the tokens of a conversation of items are counted', async () => {
  const body = { model: 'acme/openai-chat', input: 'Hello there', tools: [NAMESPACE] }
  const { status, json } = await ask('responses/input_tokens', body)
  expect([status, json.object]).toEqual([200, 'response.input_tokens'])
  expect(json.input_tokens).toBeGreaterThan(1)
  expect((await ask('responses/input_tokens', { ...body, model: 'none' })).status).toBe(400)
  expect(heard).toEqual([])
})

test('a compaction of another provider, and an item of next year, are refused by name', async () => {
  for (const item of [
    { type: 'compaction', encrypted_content: 'gAAAA' },
    { type: 'hologram_call', id: 'h' },
  ]) {
    const answered = await ask('responses', {
      ...{ model: 'acme/openai-chat', input: [item, { role: 'user', content: 'Hi' }] },
    })
    expect([answered.status, errorOf(answered).message]).toEqual([
      400,
      expect.stringContaining(item.type),
    ])
  }
})

test('a tool search of the Messages API finds deferred tools for any model', async () => {
  const tool = (name: string) => ({
    ...{ name, description: 'The weather of a city', input_schema: { type: 'object' } },
    defer_loading: true,
  })
  answer = { calls: [call('tool_search', '{"query":"weather"}')], finish: 'tool_calls' }
  const { status, json } = await ask('messages', {
    ...{ model: 'acme/openai-chat', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
    tools: [{ type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' }, tool('get')],
    stop_server_tools_when: [{ type: 'step_count_is', step_count: 1 }],
  })
  expect([status, heard[0]?.tools, heard[1]?.tools]).toEqual([
    200,
    ['tool_search'],
    ['tool_search', 'get'],
  ])
  const [, found] = readObjects(json.content)
  expect(found).toMatchObject({
    type: 'tool_search_tool_result',
    content: { tool_references: [{ tool_name: 'get' }] },
  })
})
