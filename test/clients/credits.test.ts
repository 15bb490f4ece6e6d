import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  ForbiddenResponseError,
  PaymentRequiredResponseError,
  TooManyRequestsResponseError,
} from '@openrouter/sdk/models/errors'
import { waitUntil } from '../support/chat.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

let server: Server
let checker: Wirecheck | undefined
let base: string

const PRICES = { prompt: 1, completion: 1 }
const endpoint = { provider: 'sandbox', model: 'echo' }
const CONFIG = {
  limits: {
    credits: true,
    requests_per_minute: 1000,
    free_models: { requests_per_minute: 1, requests_per_day: 5 },
  },
  models: [
    { id: 'acme/dear', endpoints: [{ ...endpoint, usd_per_million_tokens: PRICES }] },
    { id: 'acme/tiny:free', endpoints: [endpoint] },
  ],
}

beforeAll(async () => {
  server = await startServer({ config: CONFIG })
  checker = hasWirecheck ? await startWirecheck(server.url) : undefined
  base = `${checker?.url ?? server.url}/api/v1`
})
afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
})

const clientWith = (apiKey: string) =>
  new OpenRouter({ apiKey, serverURL: base, retryConfig: { strategy: 'none' } })
const send = (model: string) =>
  clientWith(server.inference_key).chat.send({
    chatRequest: {
      model,
      maxTokens: 5,
      messages: [{ role: 'user', content: 'Hi' }],
      stream: false,
    },
  })

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

describe('the official client', () => {
  test('is refused without credits, reads them, and is served once credits are added', async () => {
    expect(await failureOf(send('acme/dear'))).toBeInstanceOf(PaymentRequiredResponseError)
    await runGateway(['credits', 'add', '--amount', '12.5', '--data', server.data])
    const management = clientWith(server.management_key)
    await waitUntil(async () => (await management.credits.getCredits()).data.totalCredits === 12.5)
    await send('acme/dear')
    const { data } = await management.credits.getCredits()
    expect([data.totalCredits, data.totalUsage > 0 && data.totalUsage < 0.001]).toEqual([
      12.5,
      true,
    ])
    expect(await failureOf(clientWith(server.inference_key).credits.getCredits())).toBeInstanceOf(
      ForbiddenResponseError,
    )
  })

  test('reads the limits of its key, and when it may call again', async () => {
    const client = clientWith(server.inference_key)
    // Three, because a minute may end between two of them.
    const outcomes = await Promise.all(
      Array.from({ length: 3 }, () => failureOf(send('acme/tiny:free'))),
    )
    const refused = outcomes.find(one => one !== undefined)
    expect(refused).toBeInstanceOf(TooManyRequestsResponseError)
    expect((refused as TooManyRequestsResponseError).headers.get('x-ratelimit-limit')).toBe('1')
    const { data } = await client.apiKeys.getCurrentKeyMetadata()
    expect(data.freeModelDailyRequests).toMatchObject({
      limit: 5,
      remaining: 5 - data.freeModelDailyRequests.used,
    })
    expect(data).toMatchObject({ isFreeTier: false, rateLimit: { requests: 1000, interval: '1m' } })
  })

  test('the operation that is gone for good answers so', async () => {
    expect((await fetch(`${base}/credits/coinbase`, { method: 'POST' })).status).toBe(410)
    expect((await fetch(`${base}/credits`)).status).toBe(401)
  })

  test.skipIf(!hasWirecheck)('every answer matches the public schema', async () => {
    const report = await checker?.report()
    expect(report?.violations).toEqual([])
    expect(Object.keys(report?.seen ?? {})).toEqual(
      expect.arrayContaining([
        'getCredits 200',
        'getCredits 401',
        'getCredits 403',
        'createCoinbaseCharge 410',
        'sendChatCompletionRequest 402',
        'sendChatCompletionRequest 429',
        'getCurrentKey 200',
      ]),
    )
  })
})
