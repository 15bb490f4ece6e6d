import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { buildRoutesConfig, parseStream, readGenerationId, sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { completion, startUpstream, status, stream, type Upstream } from '../support/upstream.ts'

let server: LocalServer
let first: Upstream
let second: Upstream

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  server = await startLocalServer(
    buildRoutesConfig({ 'acme/small': { first: first.url, second: second.url } }),
  )
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

const whole = async (body: object, path?: string) =>
  JSON.parse((await sendChat(server, body, path ? { path } : {}).outcome()).body)
const sent = () => first.hits.at(-1)?.json as Record<string, unknown>

describe('E9 a whole answer', () => {
  test('names its generation in a header, as does an error after authentication', async () => {
    first.plan(completion('Hello'))
    const answer = await sendChat(server).outcome()
    expect(readGenerationId(answer)).toBe(JSON.parse(answer.body).id)
    expect(readGenerationId(answer)).toMatch(/^gen-\d{10}-[0-9A-Za-z]{20}$/)
    expect(readGenerationId(await sendChat(server, { temperature: 3 }).outcome())).toMatch(/^gen-/)
  })

  test('comes from the default model when the call names none', async () => {
    const { model, choices } = await whole({
      model: undefined,
      messages: [{ role: 'user', content: 'Hi', name: 'Ana' }],
    })
    expect(model).toBe('sandbox/echo')
    // The sandbox represents the protocols that have no field for names.
    expect(choices[0].message.content).toBe('Ana: Hi')
  })

  test('to a prompt has text choices, on both paths', async () => {
    first.plan(completion('and on it goes'))
    const chatPath = await whole({ messages: undefined, prompt: 'Once' })
    const oldPath = await whole({ messages: undefined, prompt: 'Once' }, '/completions')
    expect([chatPath.object, oldPath.object]).toEqual(['chat.completion', 'text_completion'])
    expect(chatPath.choices[0]).toMatchObject({ text: 'and on it goes', finish_reason: 'stop' })
    expect(chatPath.choices[0].message).toBeUndefined()
    expect(sent().messages).toEqual([{ role: 'user', content: 'Once' }])
  })
})

describe('E9 the provider’s request', () => {
  test('has unknown parameters untouched, and none of our own', async () => {
    first.plan(completion('Hello'))
    const ours = {
      provider: { allow_fallbacks: true },
      session_id: 's',
      trace: { a: 1 },
      models: ['acme/small'],
      plugins: [],
      metadata: { k: 'v' },
    }
    await whole({ ...ours, acme_option: { deep: [1, { two: null }] }, user: 'ana@example.com' })
    expect(sent().acme_option).toEqual({ deep: [1, { two: null }] })
    for (const name of Object.keys(ours)) expect(sent()).not.toHaveProperty(name)
    expect(sent().user).toMatch(/^[0-9a-f]{64}$/)
  })

  test('has max_completion_tokens under the provider’s name', async () => {
    first.plan(completion('Hello'))
    await whole({ max_completion_tokens: 7 })
    expect(sent()).toMatchObject({ max_tokens: 7 })
    expect(sent()).not.toHaveProperty('max_completion_tokens')
  })

  test('has the assistant’s prefill', async () => {
    first.plan(completion(' world'))
    const prefill = [
      { role: 'user', content: 'Say hello world' },
      { role: 'assistant', content: 'Hello' },
    ]
    await whole({ messages: prefill })
    expect(sent().messages).toEqual(prefill)
  })
})

describe('X-20 E9 debug.echo_upstream_body', () => {
  const echoed = (body: string) =>
    parseStream(body).events.flatMap(event =>
      event !== '[DONE]' && 'debug' in event
        ? [(event.debug as { echo_upstream_body: unknown }).echo_upstream_body]
        : [],
    )

  test('shows a stream’s body once for each attempted provider, before the answer', async () => {
    first.plan(status(500))
    second.plan(stream(['Hello']))
    const picture = {
      type: 'image_url',
      image_url: { url: `data:image/png;base64,${'A'.repeat(500)}` },
    }
    const { body } = await sendChat(server, {
      stream: true,
      debug: { echo_upstream_body: true },
      messages: [{ role: 'user', content: [picture] }],
    }).outcome()
    expect(echoed(body)).toHaveLength(2)
    expect(echoed(body)[0]).toMatchObject({ model: 'test-model', stream: true })
    expect(body).not.toContain('AAAA')
    expect(parseStream(body)).toMatchObject({ text: 'Hello', dones: 1 })
  })

  test('has no effect on a whole answer, or unless requested', async () => {
    first.plan(completion('Hello'))
    expect(await whole({ debug: { echo_upstream_body: true } })).not.toHaveProperty('debug')
    first.plan(stream(['Hello']))
    expect(echoed((await sendChat(server, { stream: true }).outcome()).body)).toEqual([])
  })
})

describe('the site', () => {
  const site = async (path: string) => {
    const response = await fetch(server.url + path)
    return { status: response.status, text: await response.text() }
  }

  test('reports that it is alive and ready', async () => {
    expect(await site('/health')).toEqual({ status: 200, text: '{"status":"ok"}' })
    expect(await site('/ready')).toEqual({ status: 200, text: '{"status":"ready"}' })
  })

  test('has metrics for Prometheus, without keys, callers or content', async () => {
    first.plan(completion('Hello'))
    await whole({ user: 'ana@example.com' })
    const { text } = await site('/metrics')
    expect(text).toMatch(/^gateway_generations_total\{provider="first",outcome="ok"\} [1-9]/m)
    expect(text).toMatch(/^gateway_tokens_total\{direction="output"\} [1-9]/m)
    expect(text).toMatch(
      /^gateway_attempts_failed_total\{provider="first",error_type="provider_unavailable"\} [1-9]/m,
    )
    expect(text).not.toMatch(/gw-v1|ana@|Hello/)
  })
})
