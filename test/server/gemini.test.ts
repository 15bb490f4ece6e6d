import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { parseStream, readText, readUsage, sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * An independent mock of a server with Google's protocol. Received requests are shown as it parsed
 * them.
 */

let mock: LLMock
let server: LocalServer

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const endpoint = {
    provider: 'google',
    model: 'gemini-2.0-flash',
    usd_per_million_tokens: { prompt: 1, completion: 1 },
  }
  server = await startLocalServer({
    providers: { google: { base_url: `${mock.url}/v1beta`, api_key: 'mock' } },
    models: [{ id: 'acme/small', context_length: 1_000_000, endpoints: [endpoint] }],
  })
  mock.onMessage('Say hello', {
    content: 'Hello, you!',
    reasoning: 'How?',
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  })
  mock.onMessage('Weather', {
    toolCalls: [{ name: 'get_weather', arguments: '{"city":"Zürich","days":[1,2]}' }],
    finishReason: 'stop',
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mock.stop()
})

const last = () => {
  const { path, headers, body } = mock.getLastRequest() ?? {}
  return { path, headers, body: body as unknown as Record<string, unknown> }
}

const TOOL = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'W',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}
const user = (content: string) => ({ role: 'user', content })

describe.each([false, true])('a server with Google’s protocol (streamed: %p)', stream => {
  const action = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'

  test('gets its own request, and its answer is read', async () => {
    const outcome = await sendChat(server, {
      stream,
      messages: [{ role: 'system', content: 'Be kind.' }, user('Say hello')],
      max_tokens: 50,
      top_k: 3,
    }).outcome()
    expect(readText(outcome)).toBe('Hello, you!')
    expect(readUsage(outcome)).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
    expect(outcome.body).toContain('How?')
    const { path, headers, body } = last()
    expect(path).toBe(`/v1beta/models/gemini-2.0-flash:${action}`)
    expect(Object.keys(headers ?? {})).toContain('x-goog-api-key')
    expect(headers).not.toHaveProperty('authorization')
    expect(body).toMatchObject({
      stream,
      max_tokens: 50,
      top_k: 3,
      messages: [{ role: 'system', content: 'Be kind.' }, user('Say hello')],
    })
  })

  test('calls a tool, and gets its result', async () => {
    const outcome = await sendChat(server, {
      stream,
      messages: [user('Weather')],
      tools: [TOOL],
    }).outcome()
    const { id, name, input, finish } = callIn(outcome.body)
    expect([name, JSON.parse(input), finish]).toEqual([
      'get_weather',
      { city: 'Zürich', days: [1, 2] },
      'tool_calls',
    ])
    expect(last().body.tools).toEqual([TOOL])
    const said = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id, type: 'function', function: { name, arguments: input } }],
    }
    const answered = { role: 'tool', tool_call_id: id, content: 'Sunny' }
    await sendChat(server, {
      stream,
      messages: [user('Weather'), said, answered, user('Say hello')],
      tools: [TOOL],
    }).outcome()
    expect(last().body.messages).toEqual([
      user('Weather'),
      said,
      { role: 'tool', tool_call_id: id, content: '{"output":"Sunny"}' },
      user('Say hello'),
    ])
  })
})

interface Call {
  id?: string
  function: { name?: string; arguments: string }
}
interface Choice {
  finish_reason: string | null
  delta?: { tool_calls?: Call[] }
  message?: { tool_calls?: Call[] }
}

/** The one tool call of an answer, whole or streamed, and its finish reason. */
function callIn(body: string) {
  const choices = (
    body.startsWith('data:')
      ? parseStream(body).events.flatMap(event => (event === '[DONE]' ? [] : event.choices))
      : JSON.parse(body).choices
  ) as Choice[]
  const pieces = choices.flatMap(choice => (choice.delta ?? choice.message)?.tool_calls ?? [])
  return {
    id: pieces[0]?.id,
    name: pieces[0]?.function.name,
    input: pieces.map(piece => piece.function.arguments).join(''),
    finish:
      choices.at(-1)?.finish_reason ??
      choices.findLast(choice => choice.finish_reason)?.finish_reason,
  }
}
