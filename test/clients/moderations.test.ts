import { afterEach, beforeEach, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

/* OpenAI's client and its moderations: by a provider, or by the content filters of the key. */

let upstream: Upstream
beforeEach(async () => {
  upstream = await startUpstream()
})
afterEach(() => upstream.close())

const judged = () =>
  startLocalServer({
    providers: { judge: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
    plugins: { moderation: { provider: 'judge', model: 'omni' } },
  })

const open = ({ base }: LocalServer, apiKey: string) =>
  new OpenAI({ apiKey, baseURL: base, maxRetries: 0 })

const VERDICT = {
  flagged: true,
  categories: { violence: true },
  category_scores: { violence: 0.9 },
  category_applied_input_types: { violence: ['text'] },
}

test('texts go to the provider that moderates, and its verdicts come back', async () => {
  await using server = await judged()
  upstream.answer(() => [json({ id: 'modr-1', model: 'omni', results: [VERDICT, VERDICT] })])
  const found = await open(server, server.inference_key).moderations.create({ input: ['a', 'b'] })
  expect(found).toMatchObject({ model: 'omni', results: [VERDICT, VERDICT] })
  expect(upstream.hits[0]?.json).toEqual({ model: 'omni', input: ['a', 'b'] })
})

test.each([
  ['fails', () => status(500, 'no'), 502],
  ['gives no verdict', () => [json({ results: [{}] })], 503],
])('a provider that %s is an error', async (_, answer, expected) => {
  await using server = await judged()
  upstream.answer(answer)
  const failed = await open(server, server.inference_key)
    .moderations.create({ input: 'a' })
    .catch(error => error)
  expect(failed.status).toBe(expected)
})

test('without one the content filters of the key judge', async () => {
  await using server = await startLocalServer()
  const manage = (path: string, body: object) =>
    fetch(`${server.base}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.management_key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    }).then(response => response.json() as Promise<{ data: { id: string; hash: string } }>)
  const client = open(server, server.inference_key)
  const nothing = await client.moderations.create({ input: 'a' }).catch(error => error)
  expect([nothing.status, nothing.message]).toEqual([
    400,
    expect.stringContaining('nothing judges'),
  ])
  const { key, data } = (await manage('/keys', { name: 'judged' })) as never as {
    key: string
    data: { hash: string }
  }
  const guardrail = await manage('/guardrails', {
    name: 'No addresses',
    content_filter_builtins: [{ slug: 'email', action: 'flag' }],
  })
  await manage(`/guardrails/${guardrail.data.id}/assignments/keys`, { key_hashes: [data.hash] })
  const found = await open(server, key).moderations.create({
    input: ['write to ada@example.org', 'nothing'],
  })
  expect(found.results).toMatchObject([
    { flagged: true, categories: { email: true } },
    { flagged: false, categories: { email: false } },
  ] as never)
  const picture = await open(server, key)
    .moderations.create({ input: [{ type: 'image_url', image_url: { url: 'https://a.example' } }] })
    .catch(error => error)
  expect(picture.status).toBe(400)
  const refused = await open(server, server.management_key)
    .moderations.create({ input: 'a' })
    .catch(error => error)
  expect(refused.status).toBe(403)
})
