import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/* A call to Cohere and back, against an independent mock server. */

let mock: LLMock
let server: LocalServer

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const endpoints = [
    {
      provider: 'cohere',
      model: 'command-a-03-2025',
      usd_per_million_tokens: { prompt: 2.5, completion: 10 },
    },
  ]
  server = await startLocalServer({
    providers: { cohere: { base_url: `${mock.url}/v2`, api_key: 'mock' } },
    models: [{ id: 'cohere/command-a', endpoints }],
  })
})

afterEach(() => mock.reset())

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mock.stop()
})

const weather = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}

async function chat(body: object): Promise<Response> {
  const response = await server.fetch('/chat/completions', {
    json: {
      model: 'cohere/command-a',
      messages: [{ role: 'user', content: 'Weather in Rome?' }],
      ...body,
    },
  })
  expect(response.status).toBe(200)
  return response
}

describe.each([false, true])('streamed: %p', stream => {
  test('a conversation is answered in text', async () => {
    mock.on({ userMessage: 'Rome' }, { content: 'Blue sky' })
    const text = await (await chat({ stream, top_p: 0.5, stop: 'x' })).text()
    expect(text).toContain('Blue sky')
    expect(text).toContain('"native_finish_reason":"COMPLETE"')
    const { path, headers, body } = mock.getLastRequest() ?? {}
    expect(path).toBe('/v2/chat')
    expect(headers?.authorization).toBeDefined()
    expect(body).toMatchObject({
      model: 'command-a-03-2025',
      messages: [{ role: 'user', content: 'Weather in Rome?' }],
    })
  })

  test('a tool is called', async () => {
    mock.on(
      { userMessage: 'Rome' },
      { toolCalls: [{ name: 'weather', arguments: '{"city":"Rome"}' }] },
    )
    const text = await (await chat({ stream, tools: [weather], tool_choice: 'required' })).text()
    expect(text).toContain('"finish_reason":"tool_calls"')
    expect(text).toContain('weather')
    expect(mock.getLastRequest()?.body).toMatchObject({
      tools: [{ type: 'function', function: { name: 'weather' } }],
    })
  })
})
