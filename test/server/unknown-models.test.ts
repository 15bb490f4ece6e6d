import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  createLimitedKey,
  fetchGeneration,
  readGenerationId,
  readMetric,
  sendChat,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'
import {
  completion,
  json,
  startUpstream,
  status,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/*
 * Models that the catalogue does not have. `openai` and `ollama` are known by name, and stand at the
 * test's own address; a pattern gives names of `local` a price.
 */

let upstream: Upstream
let server: Server

beforeAll(async () => {
  upstream = await startUpstream()
  const there = { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' }
  const priced = { prompt: 1, completion: 2 }
  server = await startServer({
    config: {
      providers: { openai: there, local: there },
      models: [
        {
          id: 'local/*',
          endpoints: [{ provider: 'local', model: '*', usd_per_million_tokens: priced }],
        },
      ],
    },
  })
})

beforeEach(() => upstream.plan(completion('Hello', { usage: usage(10, 5) })))

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const HI = [{ role: 'user', content: 'Hi' }]
const UNKNOWN = 'openai/gpt-99'
const DOORS: [path: string, body: object][] = [
  ['/chat/completions', { messages: HI }],
  ['/messages', { messages: HI, max_tokens: 9 }],
  ['/responses', { input: 'Hi' }],
]

const post = (path: string, body: object, key = server.inference_key) =>
  server.fetch(path, { key, json: { model: UNKNOWN, ...body } })
const readRefusal = async (response: Response) => {
  const text = await response.text()
  return { status: response.status, text }
}
const createGuardedKey = async (rules: object) => {
  const key = { key: server.management_key }
  const { data } = (await (
    await server.fetch('/guardrails', { ...key, json: { name: 'rules', ...rules } })
  ).json()) as { data: { id: string } }
  const made = (await (
    await server.fetch('/keys', { ...key, json: { name: 'guarded' } })
  ).json()) as { key: string; data: { hash: string } }
  await server.fetch(`/guardrails/${data.id}/assignments/keys`, {
    ...key,
    json: { key_hashes: [made.data.hash] },
  })
  return made.key
}

describe('a model that the catalogue does not have', () => {
  test.each(DOORS)('is asked for at its provider: %s', async (path, body) => {
    const before = upstream.hits.length
    const response = await post(path, body)
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('Hello')
    expect(upstream.hits.length).toBe(before + 1)
    expect(upstream.hits.at(-1)?.json).toMatchObject({ model: 'gpt-99' })
  })

  test('computes vectors and draws as well', async () => {
    upstream.plan(json({ data: [{ index: 0, embedding: [1, 0] }], usage: { prompt_tokens: 1 } }))
    expect((await post('/embeddings', { input: 'Hi' })).status).toBe(200)
    expect(upstream.hits.at(-1)).toMatchObject({
      path: '/v1/embeddings',
      json: { model: 'gpt-99' },
    })
    upstream.plan(json({ created: 1, data: [{ b64_json: 'AAAA' }] }))
    await (await post('/images', { prompt: 'Hi' })).text()
    expect(upstream.hits.at(-1)?.path).toBe('/v1/images/generations')
  })

  test('is said by gateway explain to cost what is not known', async () => {
    const body = JSON.stringify({ model: UNKNOWN, messages: HI })
    const { stdout } = await runCommand(['explain', '-', '--data', server.data], { stdin: body })
    expect(stdout).toContain('It would go to openai first, as gpt-99, at an unknown price.')
    expect(stdout).not.toContain('$0')
  })

  test('costs what is not known, and its record says so', async () => {
    const outcome = await sendChat(server, { model: UNKNOWN }).outcome()
    const record = await fetchGeneration(server, readGenerationId(outcome))
    expect(record).toMatchObject({ model: UNKNOWN, is_priced: false, total_cost: 0 })
    const explained = await post(
      '/chat/completions',
      {
        messages: HI,
        debug: { dry_run: true },
      },
      server.management_key,
    )
    expect(await explained.json()).toMatchObject({
      endpoints: [
        {
          provider: 'openai',
          upstream_model: 'gpt-99',
          pricing: { prompt: '-1', completion: '-1' },
          estimated_cost: null,
        },
      ],
    })
  })

  test.each(DOORS)('is refused to a key with a limit, by the setting: %s', async (path, body) => {
    const before = upstream.hits.length
    const { status, text } = await readRefusal(
      await post(path, body, await createLimitedKey(server)),
    )
    expect(status).toBe(404)
    expect(text).toContain('its price is not known')
    expect(text).toContain('<author>/*')
    expect(text).toContain('unknown_models')
    expect(upstream.hits.length).toBe(before)
  })

  test('leaves a call with a limit to the next model', async () => {
    const key = await createLimitedKey(server)
    const models = [UNKNOWN, 'local/priced']
    const { status } = await sendChat(server, { model: undefined, models }, { key }).outcome()
    expect(status).toBe(200)
    expect(upstream.hits.at(-1)?.json).toMatchObject({ model: 'priced' })
  })

  test.each([
    [{ allowed_models: ['openai/gpt-4o'] }, 'allowed_models'],
    [{ allowed_providers: ['local'] }, 'allowed_providers'],
    [{ enforce_zdr: true }, 'zdr'],
    [{ enable_paid_model_training: false }, 'enable_paid_model_training'],
  ])('is refused by the rules of a guardrail: %j', async (rules, named) => {
    const before = upstream.hits.length
    const refused = await readRefusal(
      await post(...(DOORS[0] as [string, object]), await createGuardedKey(rules)),
    )
    expect(refused.status).toBe(404)
    expect(refused.text).toContain(named)
    expect(upstream.hits.length).toBe(before)
  })

  test.each([
    { zdr: true },
    { data_collection: 'deny' },
    { max_price: { prompt: 1_000 } },
    { quantizations: ['fp8'] },
    { only: ['local'] },
  ])('is refused where the call asks for what is not known of it: %j', async provider => {
    expect((await post('/chat/completions', { messages: HI, provider })).status).toBe(404)
  })

  test('that its provider does not have is the caller’s mistake, with names that are near', async () => {
    const error = { message: 'The model `gpt-4o-mni` does not exist', code: 'model_not_found' }
    upstream.plan(status(404, { error }))
    const response = await post('/chat/completions', { model: 'openai/gpt-4o-mni', messages: HI })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('did you mean: openai/gpt-4o-mini')
    const metrics = await fetch(`${server.url}/metrics`, { keepalive: false })
    expect(await metrics.text()).not.toContain('trouble="model"')
  })

  test('has a label of its own in metrics once it has answered', async () => {
    const name = 'openai/gpt-98'
    const count = (model: string, provider: string, status: number) =>
      readMetric(
        server,
        `gateway_calls_total{provider="${provider}",model="${model}",status="${status}"}`,
      )
    upstream.plan(status(400, { error: { message: 'no' } }))
    await (await post('/chat/completions', { model: name, messages: HI })).text()
    expect(await count(name, 'OpenAI', 400)).toBe(0)
    upstream.plan(completion('Hello', { usage: usage(10, 5) }))
    await (await post('/chat/completions', { model: name, messages: HI })).text()
    expect(await count(name, 'OpenAI', 200)).toBe(1)
  })

  test('is in no list, and its page says what is done with its name', async () => {
    const { data } = (await (await server.fetch('/models?all=true')).json()) as {
      data: { id: string }[]
    }
    expect(data.map(({ id }) => id).filter(id => id === UNKNOWN || id.includes('*'))).toEqual([])
    const page = await server.fetch(`/model/${UNKNOWN}`)
    expect(page.status).toBe(404)
    expect(await page.text()).toContain('calls of it go to openai, at an unknown price')
  })
})

describe('a pattern with a price', () => {
  test('is charged, also under a limit', async () => {
    const key = await createLimitedKey(server)
    const outcome = await sendChat(server, { model: 'local/any', max_tokens: 9 }, { key }).outcome()
    const record = await fetchGeneration(server, readGenerationId(outcome))
    expect(record).toMatchObject({ model: 'local/any', is_priced: true, total_cost: 20e-6 })
    expect(upstream.hits.at(-1)?.json).toMatchObject({ model: 'any' })
  })
})
