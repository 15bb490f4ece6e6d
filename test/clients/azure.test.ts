import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAzure } from '@ai-sdk/azure'
import { AzureChatOpenAI } from '@langchain/openai'
import { generateText, isStepCount, jsonSchema, tool } from 'ai'
import { AzureOpenAI } from 'openai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/* Clients of Azure, unmodified: a deployment is a model, and the key is in a header of its own. */

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'gemini']
const CITY = '{"city":"Paris"}'
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }
const SCENES: Record<string, Scenario> = {
  hello: () => ({ answer: { text: 'Hello there', finish: 'stop' } }),
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { calls: [CALL], finish: 'tool_calls' } },
}
const API_VERSION = '2024-10-21'
const SCHEMA = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'],
  additionalProperties: false,
}

let upstream: FakeProviderServer
let server: LocalServer
beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer({
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
  })
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const openAzure = (apiKey = server.inference_key, apiVersion = API_VERSION) =>
  new AzureOpenAI({ endpoint: server.url, apiKey, apiVersion, maxRetries: 0 })

describe.each(PROTOCOLS)('over %s', protocol => {
  test('AzureOpenAI gets answers, whole and streamed', async () => {
    const body = {
      model: `${protocol}/hello`,
      messages: [{ role: 'user' as const, content: 'Hi' }],
    }
    const whole = await openAzure().chat.completions.create(body)
    expect(whole).toMatchObject({
      model: `${protocol}/hello`,
      choices: [{ message: { content: 'Hello there' } }],
    })
    const chunks = await Array.fromAsync(
      await openAzure().chat.completions.create({ ...body, stream: true }),
    )
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(
      'Hello there',
    )
  })

  test('AzureOpenAI asks for responses and models beside the deployments', async () => {
    const azure = openAzure()
    const model = `${protocol}/hello`
    const answer = await azure.responses.create({ model, input: 'Hi' })
    expect(answer.output_text).toBe('Hello there')
    const { data } = await azure.models.list()
    expect(data.map(({ id }) => id)).toContain(model)
  })

  test('AzureChatOpenAI calls a tool and goes on', async () => {
    const model = new AzureChatOpenAI({
      azureOpenAIEndpoint: server.url,
      azureOpenAIApiKey: server.inference_key,
      azureOpenAIApiDeploymentName: `${protocol}/weather`,
      azureOpenAIApiVersion: API_VERSION,
      maxRetries: 0,
    }).bindTools([
      { type: 'function', function: { name: 'get_weather', description: 'w', parameters: SCHEMA } },
    ])
    const asked = await model.invoke([{ role: 'user', content: 'Weather in Paris?' }])
    expect(asked.tool_calls).toMatchObject([{ name: 'get_weather', args: { city: 'Paris' } }])
    const answer = await model.invoke([
      { role: 'user', content: 'Weather in Paris?' },
      asked,
      { role: 'tool', content: 'Sunny', tool_call_id: asked.tool_calls?.[0]?.id ?? '' },
    ])
    expect(answer.content).toBe('Sunny')
  })

  test('the AI SDK finishes two steps at the newer base', async () => {
    const azure = createAzure({
      baseURL: `${server.url}/openai/v1`,
      apiKey: server.inference_key,
    })
    const { text, steps } = await generateText({
      model: azure.chat(`${protocol}/weather`),
      prompt: 'Weather in Paris?',
      stopWhen: isStepCount(3),
      tools: {
        get_weather: tool({
          inputSchema: jsonSchema<{ city: string }>(SCHEMA),
          execute: ({ city }) => `Sunny in ${city}`,
        }),
      },
    })
    expect([text, steps.length]).toEqual(['Sunny', 2])
  })
})

test('embeddings, pictures and sound are at the deployment too', async () => {
  const azure = openAzure()
  const { data } = await azure.embeddings.create({ model: 'sandbox/embed', input: 'Hi' })
  expect(data[0]?.embedding.length).toBeGreaterThan(0)
  const speech = await azure.audio.speech.create({
    model: 'sandbox/speech',
    input: 'Hi',
    voice: 'alloy',
    response_format: 'wav',
  })
  const sound = await speech.arrayBuffer()
  expect(sound.byteLength).toBeGreaterThan(0)
  const file = new File([sound], 'speech.wav', { type: 'audio/wav' })
  const { text } = await azure.audio.transcriptions.create({ model: 'sandbox/transcribe', file })
  expect(text).toBeString()
  const pictures = await azure.images.generate({ model: 'sandbox/image', prompt: 'A cat' })
  expect(pictures.data).toHaveLength(1)
})

const ask = (
  path: string,
  { headers = {}, body = { messages: [{ role: 'user', content: 'Hi' }] } as unknown } = {},
) =>
  fetch(server.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'api-key': server.inference_key,
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

const VERSION = `?api-version=${API_VERSION}`
const CHAT = `/chat/completions${VERSION}`

test.each([
  ['the model with its slash', `/openai/deployments/sandbox/echo${CHAT}`, 200],
  ['the model as one segment', `/openai/deployments/sandbox%2Fecho${CHAT}`, 200],
  ['a model that is not there', `/openai/deployments/acme%2Fnone${CHAT}`, 400],
  ['no version', '/openai/deployments/sandbox%2Fecho/chat/completions', 400],
  [
    'a version that is none',
    '/openai/deployments/sandbox%2Fecho/chat/completions?api-version=x',
    400,
  ],
  ['another action', `/openai/deployments/sandbox%2Fecho/assistants${VERSION}`, 404],
  ['a path that leads elsewhere', `/openai/deployments/..%2F..%2Fmetrics${CHAT}`, 404],
  ['the other base', '/openai/v1/models', 405],
  ['what is of no deployment', `/openai/models${VERSION}`, 405],
  ['what Azure has not', `/openai/keys${VERSION}`, 404],
])('%s: %s is %d', async (_, path, expected) => {
  const response = await ask(path)
  expect(response.status).toBe(expected)
  const { error, object } = await response.json()
  expect(expected === 200 ? object : error.code).toBe(
    expected === 200 ? 'chat.completion' : expected,
  )
})

test.each([
  ['no key', { 'api-key': '' }, 401],
  ['an unknown key', { 'api-key': 'gw-v1-none' }, 401],
  ['a key for another door', { 'api-key': '', 'x-goog-api-key': 'k' }, 401],
])('%s is %j: %d', async (_, headers, expected) => {
  expect((await ask(`/openai/deployments/sandbox%2Fecho${CHAT}`, { headers })).status).toBe(
    expected,
  )
})

test.each([
  ['half a body', '{"messages":[', 400],
  ['another dialect’s body', { contents: [{ parts: [{ text: 'Hi' }] }] }, 400],
  ['30 MB of it', { messages: [{ role: 'user', content: 'x'.repeat(33 * 2 ** 20) }] }, 413],
])('%s is refused: %d', async (_, body, expected) => {
  expect((await ask(`/openai/deployments/sandbox%2Fecho${CHAT}`, { body })).status).toBe(expected)
})

test('the deployment precedes the model of the body, and the call is on record', async () => {
  const body = { model: 'acme/none', messages: [{ role: 'user', content: 'Hi' }] }
  const response = await ask(`/openai/deployments/sandbox%2Fecho${CHAT}`, { body })
  expect((await response.json()).model).toBe('sandbox/echo')
  const id = response.headers.get('x-generation-id')
  const found = await fetch(`${server.url}/openai/v1/generation?id=${id}`, {
    headers: { 'api-key': server.inference_key },
  })
  expect((await found.json()).data).toMatchObject({ id, model: 'sandbox/echo' })
})
