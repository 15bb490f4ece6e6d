import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import type { ChatRequest, ProviderPreferences } from '@openrouter/sdk/models'
import { BadRequestResponseError, NotFoundResponseError } from '@openrouter/sdk/models/errors'
import { COUNTED, openStage, type Stage } from '../support/stage.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let client: OpenRouter

beforeAll(async () => {
  stage = await openStage()
  client = new OpenRouter({
    apiKey: stage.server.inference_key,
    serverURL: stage.base,
    retryConfig: { strategy: 'none' },
  })
  stage.mock.onMessage('Hi', { content: 'Hello!', ...COUNTED })
})
afterAll(() => stage.close())

const send = (provider: ProviderPreferences, more: Partial<ChatRequest> = {}) =>
  client.chat.send({
    chatRequest: {
      model: 'acme/steady',
      messages: [{ role: 'user', content: 'Hi' }],
      provider,
      ...more,
      stream: false,
    },
  })

describe('the official client chooses providers', () => {
  test.each<[name: string, ProviderPreferences]>([
    ['by a sort', { sort: 'price' }],
    ['by a sort over all models', { sort: { by: 'throughput', partition: 'none' } }],
    ['by a preferred speed', { preferredMinThroughput: 10, preferredMaxLatency: 5 }],
    [
      'by speeds at percentiles',
      { preferredMinThroughput: { p50: 10 }, preferredMaxLatency: { p90: 5, p99: 10 } },
    ],
    ['by how well tools are called', { sort: 'exacto' }],
    [
      'by a price',
      { maxPrice: { prompt: '1', completion: '2', request: '0', image: '0.01', audio: '1' } },
    ],
    [
      'by what no other endpoint has',
      { requireParameters: true, dataCollection: 'allow', zdr: false, quantizations: ['unknown'] },
    ],
    ['by whom it leaves out', { only: ['local', 'spare'], ignore: ['spare'] }],
    ['by an order', { order: ['local', 'spare/unknown'], allowFallbacks: true }],
  ])('%s', async (_, provider) => {
    expect(await send(provider)).toMatchObject({
      model: 'acme/steady',
      choices: [{ message: { content: 'Hello!' } }],
    })
  })

  test('by a variant of the model', async () => {
    for (const variant of ['nitro', 'floor', 'exacto'])
      expect(await send({}, { model: `acme/steady:${variant}` })).toMatchObject({
        model: 'acme/steady',
      })
  })

  test('by a plugin: a disabled search, and no plugin that the gateway does not have', async () => {
    expect(await send({}, { plugins: [{ id: 'web', enabled: false }] })).toMatchObject({
      model: 'acme/steady',
    })
    const refused = await send(
      {},
      { plugins: [{ id: 'web', engine: 'exa', maxResults: 3 }] },
    ).catch(thrown => thrown)
    expect(refused).toBeInstanceOf(BadRequestResponseError)
    expect(refused.message).toContain('plugins.0.engine')
  })

  test('by a preset with provider preferences', async () => {
    const chatRequest = {
      model: 'acme/steady:exacto',
      messages: [{ role: 'user' as const, content: 'Hi' }],
      provider: { only: ['spare'] },
    }
    await client.presets.createPresetsChatCompletions({ slug: 'spare', chatRequest })
    const answer = await send({}, { model: '@preset/spare' })
    expect(answer).toMatchObject({
      model: 'acme/steady',
      choices: [{ message: { content: 'Hello!' } }],
    })
  })

  test('and gets errors for impossible preferences', async () => {
    const failure = (provider: ProviderPreferences, more?: Partial<ChatRequest>) =>
      send(provider, more).catch(thrown => thrown)
    expect(await failure({}, { model: 'acme/steady:zzz' })).toBeInstanceOf(BadRequestResponseError)
    const nobody = await failure({ only: ['local'], ignore: ['local'] })
    expect(nobody).toBeInstanceOf(NotFoundResponseError)
    expect(nobody.message).toContain('provider.only, provider.ignore')
    expect(await failure({ enforceDistillableText: true })).toBeInstanceOf(NotFoundResponseError)
    const unable = await failure({}, { model: 'acme/steady:online' })
    expect(unable).toBeInstanceOf(NotFoundResponseError)
    expect(unable.message).toContain('searches the web itself')
    expect(await failure({}, { model: 'acme/steady:thinking' })).toBeInstanceOf(
      BadRequestResponseError,
    )
  })

  test('by letting the router decide', async () => {
    const plugins = [
      {
        id: 'auto-router' as const,
        allowedModels: ['acme/*'],
        excludedModels: ['*/small'],
        costTier: 'low' as const,
      },
    ]
    expect(await send({}, { model: 'openrouter/auto', plugins })).toMatchObject({
      choices: [{ message: { content: 'Hello!' } }],
    })
    expect(
      await send(
        {},
        {
          model: 'openrouter/auto',
          plugins: [{ ...plugins[0], id: 'auto-router', pinModel: true }],
        },
      ),
    ).toMatchObject({
      model: expect.stringContaining('acme/'),
    })
    // Only the echo model is free here, and it is not picked while providers are configured.
    expect(await send({}, { model: 'openrouter/free' }).catch(thrown => thrown)).toBeInstanceOf(
      NotFoundResponseError,
    )
    const nobody = await send(
      {},
      { model: 'openrouter/auto', plugins: [{ id: 'auto-router', allowedModels: ['x/*'] }] },
    ).catch(thrown => thrown)
    expect(nobody).toBeInstanceOf(NotFoundResponseError)
    const wrong = [{ id: 'auto-router' as const, allowedModels: ['a'.repeat(2_000)] }]
    expect(
      await send({}, { model: 'openrouter/auto', plugins: wrong }).catch(thrown => thrown),
    ).toBeInstanceOf(BadRequestResponseError)
  })

  test('and finds the routers among the models', async () => {
    const { result } = await client.models.list()
    expect(result.data.find(({ id }) => id === 'gateway/auto')).toMatchObject({
      pricing: { prompt: '-1', completion: '-1' },
    })
  })

  test('and reads the performance of endpoints', async () => {
    const { data } = await client.endpoints.list({ author: 'acme', slug: 'steady' })
    expect(data.endpoints.map(one => one.status)).toEqual([0, 0])
    expect(data.endpoints[0]).toMatchObject({
      uptimeLast5m: 100,
      throughputLast30m: { p50: expect.any(Number) },
    })
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        ...[200, 400, 404].map(status => `sendChatCompletionRequest ${status}`),
        'listEndpoints 200',
      ]),
    )
  },
)
