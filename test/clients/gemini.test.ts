import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from '@google/genai'
import { generateText, isStepCount, jsonSchema, tool } from 'ai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type Server, startServer } from '../support/server.ts'

/* Clients of the Gemini API, unmodified, over providers of other APIs and of their own. */

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'gemini', 'openai-responses']
const CITY = '{"city":"Paris"}'
const THOUGHT = { text: 'Which city is it?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }
const SCENES: Record<string, Scenario> = {
  hello: () => ({ answer: { text: 'Hello there', finish: 'stop' } }),
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { thought: THOUGHT, calls: [CALL], finish: 'tool_calls' } },
  schema: () => ({ answer: { text: CITY, finish: 'stop' } }),
  length: () => ({ answer: { text: 'Hello th', finish: 'length' } }),
  broken: () => ({ failsAfter: 'Hello th' }),
  busy: () => 'is overloaded',
}

let upstream: FakeProviderServer
let server: Server
let google: GoogleGenAI
beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startServer({
    config: {
      providers: Object.fromEntries(
        PROTOCOLS.map(name => [
          name,
          { protocol: name, base_url: upstream.getBaseUrl(name), api_key: 'mock' },
        ]),
      ),
      models: PROTOCOLS.flatMap(provider =>
        Object.keys(SCENES).map(model => ({
          id: `${provider}/${model}`,
          endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
        })),
      ),
    },
  })
  google = openGoogle()
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const openGoogle = (apiKey = server.inference_key) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: server.url } })

const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: {
    type: Type.OBJECT,
    properties: { city: { type: Type.STRING, nullable: true, maxLength: '80' } },
    required: ['city'],
  },
}

describe.each(PROTOCOLS)('over %s', protocol => {
  test('the client gets answers, whole and streamed', async () => {
    const asked = {
      model: `${protocol}/hello`,
      contents: 'Hi',
      config: { systemInstruction: 'Be kind', maxOutputTokens: 50, temperature: 0.5, topP: 0.9 },
    }
    const whole = await google.models.generateContent(asked)
    expect(whole.text).toBe('Hello there')
    expect(whole.candidates?.[0]).toMatchObject({ finishReason: 'STOP', index: 0 })
    const {
      promptTokenCount = 0,
      candidatesTokenCount = 0,
      totalTokenCount,
    } = whole.usageMetadata ?? {}
    expect(promptTokenCount).toBeGreaterThan(0)
    expect(totalTokenCount).toBeGreaterThanOrEqual(promptTokenCount + candidatesTokenCount)
    const chunks = await Array.fromAsync(await google.models.generateContentStream(asked))
    expect(chunks.map(({ text }) => text ?? '').join('')).toBe('Hello there')
    expect(chunks.at(-1)).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: whole.usageMetadata ?? {},
    })
  })

  test.each([false, true])('a chat calls a tool and goes on, streamed: %p', async streamed => {
    const chat = google.chats.create({
      model: `${protocol}/weather`,
      config: {
        tools: [{ functionDeclarations: [WEATHER] }],
        thinkingConfig: { includeThoughts: true },
      },
    })
    const send = async (message: Parameters<typeof chat.sendMessage>[0]['message']) =>
      streamed
        ? await Array.fromAsync(await chat.sendMessageStream({ message }))
        : [await chat.sendMessage({ message })]
    const first = await send('Weather in Paris?')
    const calls = first.flatMap(({ functionCalls }) => functionCalls ?? [])
    expect(calls).toMatchObject([{ name: 'get_weather', args: { city: 'Paris' } }])
    const [call] = calls
    // As Google's own samples do: without the id.
    const answer = await send([
      { functionResponse: { name: call?.name ?? '', response: { output: 'Sunny in Paris' } } },
    ])
    expect(answer.map(({ text }) => text ?? '').join('')).toBe('Sunny')
    const heard = upstream.getLastRequest(protocol)
    expect(heard.results).toMatchObject([{ text: expect.stringContaining('Sunny in Paris') }])
    // What its provider has signed comes back to it.
    if (protocol !== 'openai-chat')
      expect(JSON.stringify(heard)).toContain(THOUGHT.signature.slice(0, 20))
  })

  test('the AI SDK finishes two steps', async () => {
    const provider = createGoogleGenerativeAI({
      baseURL: `${server.url}/v1beta`,
      apiKey: server.inference_key,
    })
    const { text, steps } = await generateText({
      model: provider(`${protocol}/weather`),
      prompt: 'Weather in Paris?',
      stopWhen: isStepCount(3),
      tools: {
        get_weather: tool({
          inputSchema: jsonSchema<{ city: string }>({
            type: 'object',
            properties: { city: { type: 'string' } },
            required: ['city'],
          }),
          execute: ({ city }) => `Sunny in ${city}`,
        }),
      },
    })
    expect([text, steps.length]).toEqual(['Sunny', 2])
  })

  test('an answer that is cut, and one in a form', async () => {
    const cut = await google.models.generateContent({ model: `${protocol}/length`, contents: 'Hi' })
    expect(cut.candidates?.[0]?.finishReason).toBe('MAX_TOKENS' as never)
    const formed = await google.models.generateContent({
      model: `${protocol}/schema`,
      contents: 'Hi',
      config: {
        responseMimeType: 'application/json',
        responseSchema: { type: Type.OBJECT, properties: { city: { type: Type.STRING } } },
      },
    })
    expect(JSON.parse(formed.text ?? '')).toEqual({ city: 'Paris' })
  })

  test('failures are in its own form, also in the middle of a stream', async () => {
    const busy = await google.models
      .generateContent({ model: `${protocol}/busy`, contents: 'Hi' })
      .catch(error => error)
    expect(busy).toBeInstanceOf(ApiError)
    expect(JSON.parse(busy.message).error).toMatchObject({
      code: busy.status,
      status: expect.stringMatching(/UNAVAILABLE|INTERNAL|RESOURCE_EXHAUSTED/),
      details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo' }],
    })
    const streamed = async () =>
      Array.fromAsync(
        await google.models.generateContentStream({ model: `${protocol}/broken`, contents: 'Hi' }),
      )
    await expect(streamed()).rejects.toBeInstanceOf(ApiError)
  })
})

test('tokens are counted, contents become vectors, and models are listed', async () => {
  const { totalTokens } = await google.models.countTokens({
    model: 'openai-chat/hello',
    contents: 'Hello there, how are you?',
  })
  expect(totalTokens).toBeGreaterThan(3)
  const { embeddings } = await google.models.embedContent({
    model: 'sandbox/embed',
    contents: ['One', 'Two'],
  })
  expect(embeddings?.map(({ values }) => values?.length)).toEqual([
    expect.any(Number),
    expect.any(Number),
  ])
  const names = await Array.fromAsync(await google.models.list({ config: { pageSize: 5 } }))
  expect(names.map(({ name }) => name)).toContain('models/gemini/hello')
  expect(new Set(names.map(({ name }) => name)).size).toBe(names.length)
  const one = await google.models.get({ model: 'gemini/hello' })
  expect(one).toMatchObject({ name: 'models/gemini/hello' })
  // A limit of nothing would be one.
  expect(one.outputTokenLimit).toBeUndefined()
})

test('a preset is listed among the models, and can be called by its listed name', async () => {
  const { status } = await server.fetch('/presets/greeter/chat/completions', {
    json: { model: 'openai-chat/hello', messages: [{ role: 'system', content: 'Greet' }] },
  })
  expect(status).toBe(200)
  const models = await Array.fromAsync(await google.models.list({ config: { pageSize: 1_000 } }))
  expect(models.filter(({ name }) => name?.includes('@'))).toMatchObject([
    { name: 'models/@preset/greeter', displayName: 'greeter' },
  ])
  const { text } = await google.models.generateContent({ model: '@preset/greeter', contents: 'Hi' })
  expect(text).toBe('Hello there')
})

test('the choice among tools is kept', async () => {
  await google.models.generateContent({
    model: 'openai-chat/weather',
    contents: 'Hi',
    config: {
      tools: [{ functionDeclarations: [WEATHER, { ...WEATHER, name: 'get_time' }] }],
      toolConfig: {
        functionCallingConfig: {
          mode: FunctionCallingConfigMode.ANY,
          allowedFunctionNames: ['get_weather'],
        },
      },
    },
  })
  expect(upstream.getLastRequest('openai-chat').tools).toEqual(['get_weather'])
})

const ask = (
  path: string,
  {
    headers = { 'x-goog-api-key': server.inference_key } as Record<string, string>,
    body = { contents: [{ parts: [{ text: 'Hi' }] }] } as unknown,
    method = 'POST',
  } = {},
) =>
  fetch(server.url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'POST' ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
  })

const ECHO = '/v1beta/models/sandbox/echo'

test('without alt a stream is one array', async () => {
  const response = await ask(`${ECHO}:streamGenerateContent`)
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  const chunks = (await response.json()) as { candidates: { finishReason?: string }[] }[]
  expect(chunks.length).toBeGreaterThan(1)
  expect(chunks.at(-1)?.candidates[0]?.finishReason).toBe('STOP')
  const broken = await ask('/v1beta/models/openai-chat/broken:streamGenerateContent')
  const parts = (await broken.json()) as { error?: { code: number } }[]
  expect(parts.at(-1)?.error?.code).toBeGreaterThanOrEqual(500)
})

test.each([
  ['the model with its slash', `${ECHO}:generateContent`, 200],
  ['the model as one segment', '/v1beta/models/sandbox%2Fecho:generateContent', 200],
  ['a model that is not there', '/v1beta/models/acme/none:generateContent', 400],
  ['no action', ECHO, 405],
  ['another action', `${ECHO}:fineTune`, 405],
  ['another alt', `${ECHO}:streamGenerateContent?alt=proto`, 400],
  ['a path that leads elsewhere', '/v1beta/models/..%2F..%2Fmetrics:generateContent', 404],
  ['too many segments', '/v1beta/models/a/b/c:generateContent', 404],
])('%s: %s is %d', async (_, path, expected) => {
  const response = await ask(path)
  expect([path, response.status]).toEqual([path, expected])
  const { error } = await response.json()
  const words: Record<number, string> = { 400: 'INVALID_ARGUMENT', 404: 'NOT_FOUND' }
  if (expected !== 200) expect(error.status).toBe(words[expected] ?? 'FAILED_PRECONDITION')
})

test.each([
  ['no key', {}],
  ['an unknown key', { 'x-goog-api-key': 'gw-v1-none' }],
  ['the key of another door', { 'api-key': 'k' }],
])('%s is 401 in its form', async (_, headers) => {
  const response = await ask(`${ECHO}:generateContent`, { headers })
  expect(response.status).toBe(401)
  expect((await response.json()).error.status).toBe('UNAUTHENTICATED')
})

test('a key in the query is refused unless it is allowed, and stands in no log', async () => {
  const path = `${ECHO}:generateContent?key=${server.inference_key}&alt=json`
  expect((await ask(path, { headers: {} })).status).toBe(401)
  await using open = await startServer({ config: { doors: { gemini: { query_key: true } } } })
  const allowed = `${ECHO}:generateContent?key=${open.inference_key}`
  const body = JSON.stringify({ contents: 'Hi' })
  const response = await fetch(open.url + allowed, { method: 'POST', body })
  expect(response.status).toBe(200)
  const wrong = await fetch(
    `${open.url}${ECHO}:generateContent?key=gw-v1-wrong-secret-0123456789`,
    {
      method: 'POST',
      body,
    },
  )
  expect(wrong.status).toBe(401)
  expect((await fetch(`${open.url}/api/v1/models/user?key=${open.inference_key}`)).status).toBe(401)
  const { stderr } = await open.stop()
  expect(stderr).not.toContain(open.inference_key)
  expect(stderr).not.toContain('wrong-secret')
})

test.each([
  ['half a body', '{"contents":[', 400],
  ['another dialect’s body', { messages: [{ role: 'user', content: 'Hi' }] }, 400],
  ['a part of no kind', { contents: [{ parts: [{ sound: 1 }] }] }, 400],
  [
    'a result without a call',
    { contents: [{ parts: [{ functionResponse: { name: 'x' } }] }] },
    400,
  ],
  ['a bound that is misspelt', { contents: 'Hi', generationConfig: { maxOutputToken: 5 } }, 400],
  ['a role of another API', { contents: [{ role: 'assistant', parts: [] }] }, 400],
  ['33 MB of it', { contents: 'x'.repeat(33 * 2 ** 20) }, 413],
])('%s is refused', async (_, body, expected) => {
  expect((await ask(`${ECHO}:generateContent`, { body })).status).toBe(expected)
})

const SAFETY = {
  safetySettings: [{ category: 'HARM_CATEGORY_HATE_SPEECH', threshold: 'BLOCK_NONE' }],
}
test.each([
  ['openai-chat', { ...SAFETY, tools: [{ codeExecution: {} }] }, 'safetySettings, codeExecution'],
  ['openai-chat', SAFETY, 'safetySettings'],
  ['gemini', SAFETY, null],
])('what a model of %s cannot use of %j is left out and named', async (protocol, more, named) => {
  const response = await ask(`/v1beta/models/${protocol}/hello:generateContent`, {
    body: { contents: 'Hi', ...more },
  })
  expect(response.status).toBe(200)
  expect(response.headers.get('x-gateway-ignored')).toBe(named)
})

test('names in snake_case are read as well', async () => {
  const response = await ask('/v1beta/models/gemini/hello:generateContent', {
    body: {
      contents: [
        { role: 'user', parts: [{ inline_data: { mime_type: 'image/png', data: PIXEL } }] },
      ],
      system_instruction: { parts: [{ text: 'Be kind' }] },
      generation_config: { max_output_tokens: 7, response_mime_type: 'text/plain' },
    },
  })
  expect(response.status).toBe(200)
})

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
