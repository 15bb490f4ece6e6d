import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { type Json, readObject, readObjects } from '../../src/base/json.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { type FilterRule, openFilters } from '../../src/limits/filters.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createApp } from '../../src/server/app.ts'
import { sealEntries } from '../../src/translation/dialects/responses/seal.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { assembleResponse, parseEvents } from '../support/response-events.ts'

/*
 * The Responses API end to end: a provider of the same API, to which and from which nothing is
 * lost, filters over every text of its items, presets and records.
 */

/** A provider on loopback that answers with this output, whole or streamed. */
class Provider {
  output: Json[] = []
  /** Events between the beginning and the end of a stream; the items' ends if there are none. */
  events: Json[] | null = null
  asked: Json[] = []
  refusal: Response | null = null
  readonly #server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: request => this.#answer(request),
  })

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  close(): Promise<void> {
    return this.#server.stop(true)
  }

  async #answer(request: Request): Promise<Response> {
    const body = (await request.json()) as Json
    this.asked.push(body)
    if (this.refusal) return this.refusal.clone()
    const response = { ...RESPONSE, output: this.output }
    if (!body.stream) return Response.json(response)
    const between =
      this.events ??
      this.output.map((item, output_index) => ({
        type: 'response.output_item.done',
        output_index,
        item,
      }))
    const events = [
      { type: 'response.created', response: { ...RESPONSE, output: [], status: 'in_progress' } },
      ...between,
      { type: 'response.completed', response },
    ]
    return new Response(events.map(event => `data: ${JSON.stringify(event)}\n\n`).join(''), {
      headers: { 'content-type': 'text/event-stream' },
    })
  }
}

const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'm',
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
}

let provider: Provider
let gateway: Gateway
let app: ReturnType<typeof createApp>
let keys: Awaited<ReturnType<typeof createTestKeys>>
let finished: Generation[]

beforeAll(async () => {
  provider = new Provider()
  gateway = await testGateway({
    config: {
      providers: {
        openai: { base_url: provider.url, api_key: 'k' },
        chatty: { protocol: 'openai-chat', base_url: provider.url, api_key: 'k' },
      },
      models: [
        {
          id: 'openai/gpt',
          endpoints: [{ provider: 'openai', model: 'gpt-5', protocol: 'openai-responses' }],
        },
        { id: 'acme/chat', endpoints: [{ provider: 'chatty', model: 'm' }] },
      ],
    },
  })
  keys = await createTestKeys(gateway)
  app = createApp(gateway)
  gateway.events.on('generation.finished', generation => finished.push(generation))
})

afterAll(async () => {
  await gateway.close()
  await provider.close()
})

beforeEach(() => {
  provider.output = [message('Hello')]
  provider.events = null
  provider.asked = []
  provider.refusal = null
  finished = []
  gateway.memory.policies.set(keys.hash, openPolicy())
})

const message = (text: string, fields: Json = {}) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
  ...fields,
})

const openPolicy = () => getPolicy(gateway, { ...getOperator(gateway), key_hash: 'nobody' })

/** Puts this rule into force for the key. */
function guard(rule: Partial<FilterRule>): void {
  const filters = openFilters([
    { guardrail_id: 'g-1', scope: 'key', action: 'redact', output: true, ...rule },
  ])
  gateway.memory.policies.set(keys.hash, { ...openPolicy(), filters })
}

async function ask(fields: Json, path = '/responses') {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${keys.inference}` }
  const body = JSON.stringify({ model: 'openai/gpt', input: 'Hi', ...fields })
  const request = new Request(`http://localhost/api/v1${path}`, { method: 'POST', headers, body })
  const response = await app.handle(request)
  const text = await response.text()
  return { status: response.status, text, json: () => JSON.parse(text) as Json }
}

const stream = async (fields: Json = {}): Promise<Json> =>
  assembleResponse(parseEvents((await ask({ ...fields, stream: true })).text))

const lastAsked = (): Json => provider.asked.at(-1) ?? {}

/** Items of every kind that only this API has, as OpenAI sends them. */
const ITEMS: Json[] = [
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search' } },
  { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c1', name: 'sh', input: 'ls bob' },
  {
    type: 'shell_call',
    id: 'sh_1',
    call_id: 'c2',
    status: 'completed',
    action: { commands: ['ls bob'] },
  },
  {
    type: 'apply_patch_call',
    id: 'ap_1',
    call_id: 'c3',
    status: 'completed',
    operation: { type: 'update_file', path: 'bob', diff: '+bob' },
  },
  { type: 'mcp_call', id: 'mcp_1', status: 'completed', arguments: '{"a":"bob"}', name: 'm' },
  { type: 'hologram_call', id: 'ho_1', status: 'completed', depth: 3, words: 'bob' },
]

describe('a provider that calls MCP servers itself', () => {
  const server = {
    ...{ type: 'mcp', server_label: 'far', server_url: 'https://mcp.example/token-of-the-client' },
    ...{ authorization: 'token-of-the-client', headers: { 'x-secret': 'token-of-the-client' } },
    ...{ require_approval: { never: { tool_names: ['look'] } }, allowed_tools: ['look'] },
  }
  const connector = { type: 'mcp', server_label: 'mail', connector_id: 'connector_gmail' }
  const asked = { type: 'mcp_approval_request', id: 'mcpr_6', server_label: 'far', name: 'look' }
  const request = { ...asked, arguments: '{}' }
  const response = { type: 'mcp_approval_response', approval_request_id: 'mcpr_6', approve: true }

  test.each([false, true])('gets the tool as it came (streamed: %j)', async streamed => {
    provider.output = [request]
    const input = [{ role: 'user', content: 'Hi' }, request, response]
    const { status, text } = await ask({
      ...{ tools: [server, connector], input, stream: streamed, max_tool_calls: 30 },
      debug: { echo_upstream_body: streamed },
    })
    expect([status, lastAsked().tools]).toEqual([200, [server, connector]])
    expect(lastAsked().max_tool_calls).toBe(30)
    expect(readObjects(lastAsked().input).slice(1)).toEqual([request, response])
    // An answer does not repeat it, but for a client that asks what was sent.
    expect(text.includes('https://mcp.example')).toBe(streamed)
    expect(text).not.toContain('token-of-the-client')
  })

  test.each<[string, Json]>([
    ['beside one that does not', { models: ['openai/gpt', 'acme/chat'] }],
    ['where that is not known', { model: 'acme/chat' }],
    ['with conditions', { stop_server_tools_when: [{ type: 'step_count_is', step_count: 30 }] }],
    [
      'by a prefix',
      { tools: [{ type: 'gateway:mcp', parameters: { ...connector, type: 'mcp' } }] },
    ],
    [
      'where the gateway asked for approval',
      {
        input: [
          { ...request, id: `mcpr_0_1_${'0'.repeat(32)}` },
          { ...response, approval_request_id: `mcpr_0_1_${'0'.repeat(32)}` },
        ],
      },
    ],
  ])('is not asked %s, and connectors are refused by their name', async (_, fields) => {
    const { status, text } = await ask({ tools: [connector], ...fields })
    expect([status, provider.asked]).toEqual([400, []])
    expect(text).toContain('connector_id')
  })
})

describe('a provider of the same API', () => {
  const phases = [
    message('First', { id: 'msg_1', phase: 'commentary' }),
    message('Then', { id: 'msg_2', phase: 'final_answer' }),
  ]
  const reasoning = {
    type: 'reasoning',
    id: 'rs_1',
    status: 'completed',
    summary: [
      { type: 'summary_text', text: '**One**' },
      { type: 'summary_text', text: '**Two**' },
    ],
    encrypted_content: 'gAAAA==',
  }
  const call = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'get',
    arguments: '{"a":12345678901234567890}',
    status: 'completed',
    namespace: 'crm',
  }

  test.each([false, true])('gives every item as it made them (streamed: %j)', async streamed => {
    provider.output = [reasoning, ...phases, ...ITEMS, call]
    const response = streamed ? await stream() : (await ask({})).json()
    expect(response.output).toMatchObject([reasoning, ...phases, ...ITEMS, call])
  })

  test('gives its own events as it made them', async () => {
    const [, custom] = ITEMS
    const at = { output_index: 0, item_id: 'ctc_1' }
    provider.output = [custom ?? {}]
    provider.events = [
      { type: 'response.output_item.added', output_index: 0, item: { ...custom, input: '' } },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: 'ls ' },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: 'bob' },
      { type: 'response.custom_tool_call_input.done', ...at, input: 'ls bob' },
      { type: 'response.hologram.shown', ...at, depth: 3 },
      { type: 'response.output_item.done', output_index: 0, item: custom },
    ]
    const events = parseEvents((await ask({ stream: true })).text)
    expect(events.slice(2, -1).map(({ sequence_number: _, ...event }) => event)).toEqual(
      provider.events as never,
    )
    assembleResponse(events)
  })

  test('gets back what it made, and the settings that only it knows', async () => {
    const output = { type: 'function_call_output', call_id: 'call_1', output: 'one' }
    const result = { type: 'custom_tool_call_output', call_id: 'c1', output: 'a.txt' }
    await ask({
      input: [
        { role: 'user', content: 'Hi' },
        reasoning,
        ...phases,
        ...ITEMS.slice(0, 2),
        call,
        output,
        result,
      ],
      reasoning: { effort: 'low', context: 'all_turns' },
      truncation: 'auto',
      tools: [{ type: 'custom', name: 'sh' }],
      include: ['web_search_call.action.sources'],
    })
    const [, ...items] = readObjects(lastAsked().input)
    const { status: _, ...sentReasoning } = reasoning
    expect(items).toMatchObject([
      sentReasoning,
      { type: 'message', phase: 'commentary', content: [{ type: 'output_text', text: 'First' }] },
      { type: 'message', phase: 'final_answer', content: [{ text: 'Then' }] },
      ...ITEMS.slice(0, 2),
      { type: 'function_call', call_id: 'call_1', namespace: 'crm', arguments: call.arguments },
      output,
      result,
    ])
    expect(lastAsked()).toMatchObject({
      store: false,
      truncation: 'auto',
      reasoning: { effort: 'low', context: 'all_turns' },
      tools: [{ type: 'custom', name: 'sh' }],
      include: ['web_search_call.action.sources', 'reasoning.encrypted_content'],
    })
  })

  test('gives annotations of every kind as it made them', async () => {
    const annotations = [
      { type: 'file_citation', file_id: 'f', filename: 'a.txt', index: 3 },
      { type: 'url_citation', url: 'https://a.example', title: 'A', start_index: 0, end_index: 2 },
    ]
    const content = [{ type: 'output_text', text: 'Hello', annotations, logprobs: [] }]
    provider.output = [message('Hello', { content })]
    for (const { output } of [await stream(), (await ask({})).json()])
      expect(readObjects(output)[0]?.content).toEqual(content)
  })
})

describe('reasoning of another provider', () => {
  const summary = [{ type: 'summary_text', text: 'Hm' }]
  const entry = { type: 'reasoning.summary', summary: 'Hm', signature: 's', index: 0 }
  const sealed = (format: string) => ({
    type: 'reasoning',
    id: 'rs_1',
    summary,
    encrypted_content: sealEntries([{ ...entry, format }]),
  })
  const conversation = (item: Json) => [
    { role: 'user', content: 'Hi' },
    item,
    { role: 'assistant', content: 'Hello' },
    { role: 'user', content: 'And then?' },
  ]

  test.each([
    sealed('anthropic-claude-v1'),
    sealed('google-gemini-v1'),
    sealed('azure-openai-responses-v1'),
    { type: 'reasoning', id: 'rs_1', summary, encrypted_content: 'x', format: 'xai-responses-v1' },
  ])('is dropped, and the call succeeds (%#)', async item => {
    const { status } = await ask({ input: conversation(item) })
    expect(status).toBe(200)
    const types = readObjects(lastAsked().input).map(({ type }) => type)
    expect(types).toEqual(['message', 'message', 'message'])
  })
})

describe('content filters', () => {
  test.each([false, true])('redact every text of every item (streamed: %j)', async streamed => {
    guard({ pattern: 'bob', label: 'NAME' })
    const annotations = [
      {
        type: 'url_citation',
        url: 'https://a.example',
        title: 'bob',
        start_index: 0,
        end_index: 3,
      },
    ]
    const summary = [{ type: 'summary_text', text: 'It is bob' }]
    provider.output = [
      { type: 'reasoning', id: 'rs_1', summary, encrypted_content: 'gAAAA' },
      message('Hi', { content: [{ type: 'output_text', text: 'Hi bob', annotations }] }),
      { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'get', arguments: '{"a":"bob"}' },
      ...ITEMS,
    ]
    const answer = streamed
      ? (await ask({ stream: true })).text
      : JSON.stringify((await ask({})).json())
    expect(answer).toContain('NAME')
    expect(answer).not.toContain('bob')
    if (streamed) assembleResponse(parseEvents(answer))
  })

  test('find a match across two of a provider’s own events', async () => {
    guard({ pattern: 'bob', label: 'NAME' })
    const [, custom] = ITEMS
    const at = { output_index: 0, item_id: 'ctc_1' }
    provider.output = [custom ?? {}]
    provider.events = [
      { type: 'response.output_item.added', output_index: 0, item: { ...custom, input: '' } },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: 'ls bo' },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: 'b' },
      { type: 'response.output_item.done', output_index: 0, item: custom },
    ]
    const { text } = await ask({ stream: true })
    expect(text).toContain('ls NAME')
    expect(text).not.toContain('ls bo')
    assembleResponse(parseEvents(text))
  })

  test('redact every text of the input', async () => {
    guard({ pattern: 'bob', label: 'NAME' })
    const result = { type: 'custom_tool_call_output', call_id: 'c1', output: 'bob' }
    await ask({
      instructions: 'Call bob',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'I am bob' }] },
        { type: 'function_call', call_id: 'c', name: 'get', arguments: '{"a":"bob"}' },
        {
          type: 'function_call_output',
          call_id: 'c',
          output: [{ type: 'input_text', text: 'bob' }],
        },
        ...ITEMS.slice(0, 4),
        result,
      ],
    })
    const sent = JSON.stringify(lastAsked())
    expect(sent).toContain('NAME')
    expect(sent).not.toContain('bob')
  })

  const source = {
    type: 'url_citation',
    url: 'https://a.example',
    title: 'bob',
    start_index: 0,
    end_index: 2,
  }
  const SECRETS: Record<string, Json> = {
    'a text': message('Hi bob'),
    'a refusal': message('', { content: [{ type: 'refusal', refusal: 'Not to bob' }] }),
    'an annotation': message('', {
      content: [{ type: 'output_text', text: 'Hi', annotations: [source], logprobs: [] }],
    }),
    reasoning: {
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: 'It is bob' }],
      encrypted_content: 'gAAAA',
    },
    'arguments of a tool': {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'c',
      name: 'get',
      arguments: '{"a":"bob"}',
    },
    ...Object.fromEntries(ITEMS.slice(1).map(item => [`an item of type ${item.type}`, item])),
  }

  for (const [name, item] of Object.entries(SECRETS)) {
    test(`block ${name} in a stream`, async () => {
      guard({ pattern: 'bob', action: 'block' })
      provider.output = [item]
      const { text } = await ask({ stream: true })
      expect(text).not.toContain('bob')
      const events = parseEvents(text)
      expect(events.at(-1)?.type ?? 'none').toBe('response.failed')
    })

    test(`block ${name} of a whole answer`, async () => {
      guard({ pattern: 'bob', action: 'block' })
      provider.output = [item]
      const { status, text, json } = await ask({})
      expect(text).not.toContain('bob')
      expect([status, json().status]).not.toEqual([200, 'completed'])
    })

    test.each([false, true])(`redact ${name} (streamed: %j)`, async streamed => {
      guard({ pattern: 'bob', label: 'NAME' })
      provider.output = [item]
      const { status, text } = await ask({ stream: streamed })
      expect(status).toBe(200)
      expect(text).toContain('NAME')
      expect(text).not.toContain('bob')
    })
  }
})

describe('a call', () => {
  test('is on record under its own API, which the public names do not have', async () => {
    const response = (await ask({})).json()
    expect(finished.map(({ api_type }) => api_type)).toEqual(['responses'])
    const request = new Request(`http://localhost/api/v1/generation?id=${response.id}`, {
      headers: { authorization: `Bearer ${keys.inference}` },
    })
    expect(await (await app.handle(request)).json()).toMatchObject({
      data: { api_type: 'completions', tokens_prompt: 10 },
    })
  })

  describe('that is too long before anything began says so by its code', () => {
    const error = { code: 'context_length_exceeded', message: 'Too long', type: 'x', param: null }

    beforeEach(() => {
      provider.refusal = Response.json({ error }, { status: 400 })
    })

    test('in a failed response, if it is streamed', async () => {
      expect(await stream()).toMatchObject({
        status: 'failed',
        incomplete_details: null,
        error: { code: 'context_length_exceeded', message: expect.stringContaining('Too long') },
        output: [],
      })
    })

    test('in a 400, if it is whole', async () => {
      const { status, json } = await ask({})
      expect([status, json()]).toMatchObject([
        400,
        {
          error: {
            code: 'context_length_exceeded',
            metadata: { error_type: 'context_length_exceeded' },
          },
        },
      ])
    })
  })

  test('whose picture is in the private network is refused, and nothing is sent', async () => {
    const image = { type: 'input_image', image_url: 'http://169.254.169.254/a.png' }
    const { status } = await ask({
      model: 'acme/chat',
      input: [{ role: 'user', content: [image] }],
    })
    expect([status, provider.asked.length]).toEqual([400, 0])
  })

  test('that must use a tool which the model’s provider does not have is refused', async () => {
    const { status, json } = await ask({
      model: 'acme/chat',
      tools: [{ type: 'file_search', vector_store_ids: ['v'] }],
      tool_choice: 'required',
    })
    expect(status).toBe(400)
    expect(json().error).toMatchObject({
      param: 'tool_choice',
      message: expect.stringContaining('file_search'),
    })
  })
})

describe('a preset', () => {
  const createPreset = async (slug: string, body: Json, path: string) => {
    const { status, text } = await ask(body, `/presets/${slug}/${path}`)
    expect([status, text]).toEqual([200, text])
  }

  test.each(['chat/completions', 'messages', 'responses'])(
    'in the form of %s is laid under a call, and shows in its settings',
    async path => {
      const slug = `of-${path.replace('/', '-')}`
      const asked = {
        messages: [{ role: 'user', content: 'Hi' }],
        max_tokens: 100,
        temperature: 0.5,
      }
      await createPreset(slug, path === 'responses' ? { temperature: 0.5 } : asked, path)
      const response = (await ask({ model: `@preset/${slug}` })).json()
      expect(response).toMatchObject({ temperature: 0.5, status: 'completed' })
    },
  )

  test('is what a prompt template names, with its variables', async () => {
    await createPreset('greeter', { instructions: 'Greet {{name}} in {{ place }}' }, 'responses')
    const variables = { name: 'Ada', place: { type: 'input_text', text: 'Paris' } }
    const response = (await ask({ prompt: { id: 'greeter', variables } })).json()
    expect(response.prompt).toEqual({ id: 'greeter', variables })
    expect(JSON.stringify(lastAsked().input)).toContain('Greet Ada in Paris')
  })

  test('that a prompt template names must exist', async () => {
    expect((await ask({ prompt: { id: 'nothing' } })).status).toBe(404)
  })
})

test('a response shows how its call was routed to those who asked', async () => {
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${keys.inference}`,
    'x-gateway-metadata': 'enabled',
  }
  const body = JSON.stringify({ model: 'openai/gpt', input: 'Hi' })
  const request = new Request('http://localhost/api/v1/responses', {
    method: 'POST',
    headers,
    body,
  })
  const response = (await (await app.handle(request)).json()) as Json
  expect(readObject(response, 'gateway_metadata').requested).toBe('openai/gpt')
})
