import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { NO_QUIRKS, type Quirks } from '../../../../src/config/quirks.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { PROVIDERS } from '../../../../src/resources/providers.data.ts'
import type { ChatRequest } from '../../../../src/translation/dialects/chat/schema.ts'
import { chat } from '../../../../src/translation/dialects/chat.ts'
import { parseAnswer } from '../../../../src/translation/protocols/openai-chat/reader.ts'
import { buildRequest } from '../../../../src/translation/protocols/openai-chat/request.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { origin, id } = buildTextCall()
const callOf = (body: object): TextCall =>
  chat.toCall(
    gateway,
    getOperator(gateway),
    { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }], ...body } as ChatRequest,
    {
      id,
      origin,
      session_id: null,
      betas: [],
    },
  )

const endpointWith = (quirks: Partial<Quirks>) =>
  buildEndpoint({ provider: buildProvider({ quirks: { ...NO_QUIRKS, ...quirks } }) })
const sent = (body: object, quirks: Partial<Quirks>) =>
  buildRequest(callOf(body), endpointWith(quirks))
const bodyTo = (slug: keyof typeof PROVIDERS, body: object) =>
  sent(body, (PROVIDERS[slug] as { quirks?: Partial<Quirks> }).quirks ?? {}).body
const messagesOf = (messages: object[], quirks: Partial<Quirks>) =>
  sent({ messages }, quirks).body.messages

const call = (callId: string) => ({
  id: callId,
  type: 'function',
  function: { name: 'f', arguments: '{}' },
})

describe('requests by quirks', () => {
  test('Azure’s dated API has the deployment in the path and its version in the query', () => {
    expect(sent({}, { api_version: '2024-10-21' }).path).toBe(
      '/deployments/up-small/chat/completions?api-version=2024-10-21',
    )
    expect(sent({}, {}).path).toBe('/chat/completions')
  })

  test('trap 6: a developer message becomes a system message if the role is unknown', () => {
    const messages = [{ role: 'developer', content: 'Be brief.' }]
    expect(messagesOf(messages, { developer_role: false })).toEqual([
      { role: 'system', content: 'Be brief.' },
    ])
    expect(messagesOf(messages, {})).toEqual(messages)
  })

  test('trap 10: merges messages of one role if sides must alternate, but not tool results', () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'assistant', content: null, tool_calls: [call('1'), call('2')] },
      { role: 'tool', tool_call_id: '1', content: 'x' },
      { role: 'tool', tool_call_id: '2', content: 'y' },
    ]
    expect(messagesOf(messages, { alternating: true })).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      ...messages.slice(2),
    ])
  })

  test('trap 12: puts a name before the text if there is no field for it', () => {
    expect(messagesOf([{ role: 'user', name: 'ada', content: 'Hi' }], { names: false })).toEqual([
      { role: 'user', content: 'ada: Hi' },
    ])
  })

  test('trap 16: the user sends a tool’s images and files, after the last result', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, tool_calls: [call('1'), call('2')] },
      { role: 'tool', tool_call_id: '1', content: [{ type: 'text', text: 'see' }, image] },
      { role: 'tool', tool_call_id: '2', content: [image] },
      { role: 'user', content: 'b' },
    ]
    expect(messagesOf(messages, {})).toEqual([
      ...messages.slice(0, 2),
      { role: 'tool', tool_call_id: '1', content: 'see' },
      { role: 'tool', tool_call_id: '2', content: '' },
      { role: 'user', content: [image, image] },
      { role: 'user', content: 'b' },
    ])
  })

  test('images of the model go back beside its content', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
    const messages = [{ role: 'assistant', content: 'Here.', images: [image] }]
    expect(messagesOf(messages, {})).toEqual(messages)
    const [turn] = callOf({ messages }).messages
    expect(turn?.blocks.map(block => block.type)).toEqual(['text', 'image'])
  })

  test('trap 21: Mistral’s ids have nine characters, the same for a call and its result', () => {
    const messages = [
      { role: 'assistant', content: null, tool_calls: [call('functions.x:0'), call('Abc123xyz')] },
      { role: 'tool', tool_call_id: 'functions.x:0', content: 'x' },
    ]
    const [assistant, tool] = messagesOf(messages, { tool_call_ids: 'nine' }) as [
      { tool_calls: { id: string }[] },
      { tool_call_id: string },
    ]
    expect(assistant.tool_calls[0]?.id).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(assistant.tool_calls[1]?.id).toBe('Abc123xyz')
    expect(tool.tool_call_id).toBe(assistant.tool_calls[0]?.id ?? '')
  })

  test('trap 45: json_object gets an instruction if required, unless JSON is mentioned', () => {
    const response_format = { type: 'json_object' }
    expect(sent({ response_format }, { json_word: true }).body.messages).toEqual([
      { role: 'system', content: 'Answer in JSON.' },
      { role: 'user', content: 'Hi' },
    ])
    const messages = [{ role: 'user', content: 'Some json, please' }]
    expect(sent({ response_format, messages }, { json_word: true }).body.messages).toEqual(messages)
  })

  test('puts a schema into an instruction if the server has no json_schema', () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } } }
    const { response_format, messages } = sent(
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'x', description: 'Counts.', schema },
        },
      },
      { json_schema: false },
    ).body
    expect(response_format).toEqual({ type: 'json_object' })
    expect(messages).toEqual([
      {
        role: 'system',
        content:
          'Answer with one JSON object and nothing else.\nCounts.\n' +
          `It must fit this JSON Schema: ${JSON.stringify(schema)}`,
      },
      { role: 'user', content: 'Hi' },
    ])
  })

  test('trap 55: sends cache markers only to servers that know them', () => {
    const marked = {
      role: 'user',
      content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }],
    }
    expect(messagesOf([marked], {})).toEqual([marked])
    expect(messagesOf([marked], { cache_markers: false })).toEqual([
      { role: 'user', content: 'Hi' },
    ])
    expect(
      sent({ cache_control: { type: 'ephemeral' } }, { cache_markers: false }).body.cache_control,
    ).toBeUndefined()
  })

  test('trap 35: refuses a tool of another dialect by name', () => {
    const other = {
      ...callOf({}),
      tools: [
        { type: 'other' as const, dialect: 'messages' as const, value: { type: 'bash_20250124' } },
      ],
    }
    expect(() => buildRequest(other, endpointWith({}))).toThrow(
      'tools.0: bash_20250124 is a tool that this model',
    )
  })

  test('trap 57: sends no unknown parameters of another dialect', () => {
    const extra = { context_management: {} }
    expect(
      buildRequest({ ...callOf({}), extra, dialect: 'messages' }, endpointWith({})).body
        .context_management,
    ).toBeUndefined()
    expect(
      buildRequest({ ...callOf({}), extra }, endpointWith({})).body.context_management,
    ).toEqual({})
  })

  test('trap 50: sends no more stop sequences than the server takes', () => {
    const call = { ...callOf({}), params: { stop: ['a', 'b', 'c', 'd', 'e'] } }
    expect(buildRequest(call, endpointWith({ most_stops: 4 })).body.stop).toEqual([
      'a',
      'b',
      'c',
      'd',
    ])
    expect(buildRequest(call, endpointWith({})).body.stop).toHaveLength(5)
  })

  test('marks a prefill for servers that require it', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'I am' },
    ]
    expect(messagesOf(messages, { prefill: 'prefix' })).toEqual([
      messages[0],
      { ...messages[1], prefix: true },
    ])
    expect(messagesOf(messages, { prefill: 'partial' })).toEqual([
      messages[0],
      { ...messages[1], partial: true },
    ])
    const withCall = { role: 'assistant', content: null, tool_calls: [call('1')] }
    expect(messagesOf([withCall], { prefill: 'prefix' })).toEqual([withCall])
  })
})

describe('reasoning', () => {
  const wished = (reasoning: object, quirks: Partial<Quirks>) => {
    const { model: _, messages: __, ...rest } = sent({ reasoning }, quirks).body
    return rest
  }

  test.each([
    ['effort', { reasoning_effort: 'low' }],
    ['object', { reasoning: { effort: 'low' } }],
    ['thinking', { thinking: { type: 'enabled' } }],
    ['enable_thinking', { enable_thinking: true }],
    ['template', { reasoning_effort: 'low', chat_template_kwargs: { enable_thinking: true } }],
    ['none', {}],
  ] as const)('is requested in style %p', (reasoning, expected) => {
    expect(wished({ effort: 'low' }, { reasoning })).toEqual(expected)
  })

  test('is turned off in the same style', () => {
    expect(wished({ effort: 'none' }, { reasoning: 'thinking' })).toEqual({
      thinking: { type: 'disabled' },
    })
    expect(wished({ enabled: false }, { reasoning: 'enable_thinking' })).toEqual({
      enable_thinking: false,
    })
    expect(wished({ max_tokens: 500 }, { reasoning: 'enable_thinking' })).toEqual({
      enable_thinking: true,
      thinking_budget: 500,
    })
  })

  test.each([
    [
      'details',
      {
        content: 'b',
        reasoning: 'hm',
        reasoning_details: [{ type: 'reasoning.text', text: 'hm' }],
      },
    ],
    ['reasoning', { content: 'b', reasoning: 'hm' }],
    ['reasoning_content', { content: 'b', reasoning_content: 'hm' }],
    [
      'content',
      {
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
          { type: 'text', text: 'b' },
        ],
      },
    ],
    ['none', { content: 'b' }],
  ] as const)('goes back in style %p', (reasoning_back, expected) => {
    const message = {
      role: 'assistant',
      content: 'b',
      reasoning: 'hm',
      reasoning_details: [{ type: 'reasoning.text', text: 'hm' }],
    }
    expect(messagesOf([message], { reasoning_back })).toEqual([{ role: 'assistant', ...expected }])
  })
})

describe('the built-in rows', () => {
  test('OpenAI has the new name of the output bound, and no unknown message fields', () => {
    const body = bodyTo('openai', {
      max_tokens: 5,
      messages: [{ role: 'assistant', content: 'a', reasoning: 'hm' }],
    })
    expect(body).toEqual({
      model: 'up-small',
      max_completion_tokens: 5,
      messages: [{ role: 'assistant', content: 'a' }],
    })
  })

  test('Mistral has its own names for seed and required tools, and always counts streams', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const body = bodyTo('mistral', {
      seed: 7,
      top_k: 5,
      user: 'ada',
      stream: true,
      tools,
      tool_choice: 'required',
    })
    expect(body).toEqual({
      model: 'up-small',
      messages: [{ role: 'user', content: 'Hi' }],
      random_seed: 7,
      stream: true,
      tools,
      tool_choice: 'any',
    })
  })
})

describe('the answer', () => {
  const read = (body: object, quirks: Partial<Quirks> = {}) =>
    parseAnswer({ id: 'x', ...body }, buildTextCall(), endpointWith(quirks)).slice(1)
  const choices = [
    { index: 0, message: { content: '<think>hm</think>\nyes' }, finish_reason: 'stop' },
  ]

  test('reads think tags only from servers that use them', () => {
    expect(read({ choices }, { think_tags: true })).toEqual([
      { type: 'reasoning-delta', choice: 0, text: 'hm', details: [] },
      { type: 'text-delta', choice: 0, text: 'yes' },
      { type: 'finish', choice: 0, reason: 'stop', native: 'stop' },
    ])
    expect(read({ choices })[0]).toEqual({
      type: 'text-delta',
      choice: 0,
      text: '<think>hm</think>\nyes',
    })
  })

  test('has each source once, from search results or plain URLs', () => {
    const search_results = [{ url: 'https://a.example/', title: 'A' }, { url: 'no address' }, null]
    expect(read({ choices, search_results, citations: ['https://b.example/'] })[0]).toEqual({
      type: 'annotation',
      choice: 0,
      annotation: { type: 'url_citation', url_citation: { url: 'https://a.example/', title: 'A' } },
    })
    const [first, ...rest] = read({ choices, citations: ['https://b.example/', 7] })
    expect(first).toMatchObject({
      annotation: { url_citation: { url: 'https://b.example/', title: 'https://b.example/' } },
    })
    expect(rest.every(part => part.type !== 'annotation')).toBe(true)
  })

  test('reads an error that Groq puts beside the choices', () => {
    expect(() => read({ choices: [], x_groq: { error: 'over capacity' } })).toThrow(
      'Provider returned error',
    )
  })
})
