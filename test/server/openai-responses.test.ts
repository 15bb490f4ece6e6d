import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * A chat client, and a model with the Responses protocol: once at an independent mock provider,
 * which understands what it receives, and once at one that stores it word for word.
 */

let mock: LLMock
let scripted: Upstream
let server: LocalServer

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  scripted = await startUpstream()
  server = await startLocalServer(configOf())
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([mock.stop(), scripted.close()])
})

const configOf = () => ({
  providers: {
    openai: { base_url: `${mock.url}/v1`, api_key: 'mock' },
    azure: { base_url: scripted.url, api_key: 'mock' },
  },
  models: [
    ['acme/small', 'openai'],
    ['acme/kept', 'azure'],
  ].map(([id, provider]) => ({
    id,
    context_length: 128_000,
    endpoints: [
      {
        provider,
        model: 'gpt-5',
        protocol: 'openai-responses',
        usd_per_million_tokens: { prompt: 1, completion: 1 },
      },
    ],
  })),
})

const COUNTED = { usage: { input_tokens: 10, output_tokens: 5 } }
const weather = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}
const call = {
  id: 'call_1',
  type: 'function',
  function: { name: 'weather', arguments: '{"city":"Paris"}' },
}
const asked = { role: 'user', content: 'What is the weather?' }

const whole = async (body: object) => JSON.parse((await sendChat(server, body).outcome()).body)

/** The deltas of a streamed answer, and its last chunk. */
async function streamed(body: object) {
  const events = (await sendChat(server, { ...body, stream: true }).outcome()).body
    .split('\n\n')
    .filter(event => event.startsWith('data: {'))
  const chunks = events.map(event => JSON.parse(event.slice(6)))
  return {
    deltas: chunks.flatMap(chunk => chunk.choices.map((choice: { delta: object }) => choice.delta)),
    last: chunks.at(-1),
  }
}

describe('an independent mock provider', () => {
  test('answers with text and reasoning, whole and streamed alike', async () => {
    mock.onMessage('Think', { content: 'Hello', reasoning: 'Let me think', ...COUNTED })
    const body = { messages: [{ role: 'user', content: 'Think' }] }
    const { choices, usage } = await whole(body)
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      native_finish_reason: 'completed',
      message: {
        content: 'Hello',
        reasoning: 'Let me think',
        reasoning_details: [
          { type: 'reasoning.summary', summary: 'Let me think', format: 'openai-responses-v1' },
          { type: 'reasoning.encrypted', format: 'openai-responses-v1' },
        ],
      },
    })
    expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
    const { deltas, last } = await streamed(body)
    expect(deltas.map(delta => delta.content ?? '').join('')).toBe('Hello')
    expect(deltas.map(delta => delta.reasoning ?? '').join('')).toBe('Let me think')
    expect(last.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
  })

  test('calls a tool, and understands its result', async () => {
    mock.onToolResult('call_1', { content: 'Sunny', ...COUNTED })
    mock.onMessage('What is the weather?', {
      toolCalls: [{ id: 'call_1', name: 'weather', arguments: '{"city":"Paris"}' }],
      ...COUNTED,
    })
    const first = await whole({ messages: [asked], tools: [weather] })
    expect(first.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [call] },
    })
    const messages = [
      asked,
      first.choices[0].message,
      { role: 'tool', tool_call_id: 'call_1', content: '21 degrees' },
    ]
    expect((await whole({ messages, tools: [weather] })).choices[0].message.content).toBe('Sunny')
    expect(mock.getLastRequest()).toMatchObject({
      path: '/v1/responses',
      body: {
        model: 'gpt-5',
        messages: [
          asked,
          { role: 'assistant', tool_calls: [call] },
          { role: 'tool', tool_call_id: 'call_1', content: '21 degrees' },
        ],
        tools: [{ type: 'function', function: { name: 'weather' } }],
      },
    })
    const { deltas } = await streamed({ messages: [asked], tools: [weather] })
    const pieces = deltas.flatMap(delta => delta.tool_calls ?? [])
    expect(pieces[0]).toMatchObject({ index: 0, id: 'call_1', function: { name: 'weather' } })
    expect(pieces.map(piece => piece.function.arguments).join('')).toBe('{"city":"Paris"}')
  })
})

describe('a provider that stores what it receives', () => {
  test('gets its reasoning back between the question and the call', async () => {
    const reasoning = {
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: 'Paris it is' }],
      encrypted_content: 'gAAA',
    }
    const functionCall = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'weather',
      arguments: '{"city":"Paris"}',
    }
    const usage = { input_tokens: 10, output_tokens: 5 }
    scripted.plan(
      json({ id: 'resp_1', status: 'completed', output: [reasoning, functionCall], usage }),
    )
    const { choices } = await whole({
      model: 'acme/kept',
      messages: [asked],
      tools: [weather],
      reasoning: { effort: 'low' },
    })
    const result = { role: 'tool', tool_call_id: 'call_1', content: '21 degrees' }
    await whole({
      model: 'acme/kept',
      messages: [asked, choices[0].message, result],
      tools: [weather],
    })
    expect(scripted.hits.map(hit => hit.path)).toEqual(['/v1/responses', '/v1/responses'])
    expect(scripted.hits.at(0)?.json).toMatchObject({
      reasoning: { effort: 'low', summary: 'auto' },
      store: false,
    })
    expect(scripted.hits.at(1)?.json).toEqual({
      model: 'gpt-5',
      input: [
        {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: 'What is the weather?' }],
        },
        reasoning,
        {
          type: 'function_call',
          call_id: 'call_1',
          name: 'weather',
          arguments: '{"city":"Paris"}',
        },
        { type: 'function_call_output', call_id: 'call_1', output: '21 degrees' },
      ],
      store: false,
      tools: [
        {
          type: 'function',
          name: 'weather',
          parameters: weather.function.parameters,
          strict: false,
        },
      ],
      include: ['reasoning.encrypted_content'],
    })
  })
})
