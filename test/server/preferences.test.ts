import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { chat, textOf } from '../support/chat.ts'
import { type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, status, type Upstream } from '../support/upstream.ts'

/** Three providers of one model, each with something that the others have not. */
const FACTS = {
  cheap: { usd_per_million_tokens: { prompt: 1, completion: 1, request: 0.01 }, region: 'us', quantization: 'fp8' },
  private: { usd_per_million_tokens: { prompt: 2, completion: 2 }, data_policy: { training: false, retention_days: 0 } },
  able: { usd_per_million_tokens: { prompt: 3, completion: 3 }, data_policy: { training: false, retention_days: 30 }, region: 'europe' },
}
type Name = keyof typeof FACTS
const NAMES = Object.keys(FACTS) as Name[]

let upstreams: Record<Name, Upstream>
let server: Server

beforeAll(async () => {
  const [cheap, able, other] = await Promise.all([startUpstream(), startUpstream(), startUpstream()])
  upstreams = { cheap, able, private: other }
  const endpoint = (provider: Name) => ({
    provider,
    model: 'm',
    ...FACTS[provider],
    ...(provider === 'able' ? {} : { supported_parameters: ['temperature'] }),
  })
  server = await startServer({
    config: {
      routing: { failures: 0 },
      providers: Object.fromEntries(NAMES.map(name => [name, { protocol: 'openai-chat', base_url: upstreams[name].url, api_key: 'mock' }])),
      models: [
        { id: 'acme/small', endpoints: NAMES.map(endpoint) },
        { id: 'acme/taught', distillable: true, endpoints: [endpoint('able')] },
      ],
    },
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all(NAMES.map(name => upstreams[name].close()))
})

beforeEach(() => {
  for (const name of NAMES) {
    upstreams[name].hits.length = 0
    upstreams[name].answer(() => completion(name))
  }
})

const down = (...names: Name[]) => {
  for (const name of names) upstreams[name].answer(() => status(503))
}
const asked = () => NAMES.filter(name => upstreams[name].hits.length > 0).sort()
const ask = (provider: object, more: object = {}) => chat(server, { provider, ...more }).outcome()

const order = (...names: string[]) => ({ order: names })

/** Where a call goes that has these preferences and finds those providers down. Without an order or a sort several would do. */
describe('a call that prefers', () => {
  test.each<[name: string, provider: object, down: Name[], answers: Name, more?: object]>([
    ['an order', order('able', 'private'), [], 'able'],
    ['an order whose first is down', order('able', 'private'), ['able'], 'private'],
    ['an order of which all are down', order('able', 'private'), ['able', 'private'], 'cheap'],
    ['an order by region', order('nobody', 'able/europe'), [], 'able'],
    ['only one', { only: ['private'] }, [], 'private'],
    ['only a quantization', { only: ['cheap/fp8', 'able/fp8'] }, [], 'cheap'],
    ['to ignore two', { ignore: ['cheap', 'able'] }, [], 'private'],
    ['an order, and to ignore its first', { ...order('able', 'private'), ignore: ['able'] }, [], 'private'],
    ['the cheapest', { sort: 'price' }, [], 'cheap'],
    ['the cheapest, which is down', { sort: 'price' }, ['cheap'], 'private'],
    ['the cheapest of those that do not train', { sort: 'price', data_collection: 'deny' }, [], 'private'],
    [
      'the cheapest over all models',
      { sort: { by: 'price', partition: 'none' } },
      ['cheap', 'private'],
      'able',
      { models: ['acme/taught'] },
    ],
    ['who keeps nothing', { zdr: true }, [], 'private'],
    ['a quantization', { quantizations: ['fp8'] }, [], 'cheap'],
    ['a price of tokens, and none for a request', { max_price: { prompt: '2.5', request: 0 } }, [], 'private'],
    ['parameters that must be heeded', { require_parameters: true }, [], 'able', { seed: 1 }],
    ['texts that may teach', { enforce_distillable_text: true }, [], 'able', { models: ['acme/taught'] }],
    ['nothing, but brings tools', {}, [], 'able', { tools: [{ type: 'function', function: { name: 'f' } }] }],
    ['the cheapest, in its model’s name', {}, [], 'cheap', { model: 'acme/small:floor' }],
  ])('%s', async (_, provider, ill, answers, more = {}) => {
    down(...ill)
    expect(textOf(await ask(provider, more))).toBe(answers)
  })

  test('no fallbacks hears of the first that fails', async () => {
    down('cheap')
    const answer = await ask({ sort: 'price', allow_fallbacks: false })
    expect([answer.status, asked()]).toEqual([502, ['cheap']])
    const ordered = await ask({ ...order('cheap'), allow_fallbacks: false })
    expect([ordered.status, asked()]).toEqual([502, ['cheap']])
  })

  test.each<[name: string, provider: object, named: string]>([
    ['only and ignore', { only: ['cheap'], ignore: ['cheap'] }, 'provider.only, provider.ignore'],
    ['zdr and a price', { zdr: true, max_price: { prompt: 1 } }, 'provider.max_price'],
    ['a quantization that nobody has', { quantizations: ['int4'] }, 'provider.quantizations'],
    ['an order without fallbacks that is ignored', { ...order('able'), ignore: ['able'], allow_fallbacks: false }, 'provider.order'],
    ['texts that may teach, of a model that may not', { enforce_distillable_text: true }, 'provider.enforce_distillable_text'],
  ])('%s, which cannot be, hears what is in the way', async (_, provider, named) => {
    const answer = await ask(provider)
    expect([answer.status, asked()]).toEqual([404, []])
    expect(JSON.parse(answer.body).error.message).toContain(named)
  })
})
