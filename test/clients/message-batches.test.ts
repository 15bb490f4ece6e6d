import { afterAll, beforeAll, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { type Server, startServer } from '../support/server.ts'

/* Anthropic's client and its batches, and the models in its form. */

let server: Server
let client: Anthropic
beforeAll(async () => {
  server = await startServer()
  client = open(server.inference_key)
})
afterAll(() => server[Symbol.asyncDispose]())

const open = (apiKey: string) =>
  new Anthropic({ apiKey, baseURL: `${server.url}/api`, maxRetries: 0 })

const build = (custom_id: string, more: object = {}) => ({
  custom_id,
  params: {
    model: 'sandbox/echo',
    max_tokens: 50,
    messages: [{ role: 'user' as const, content: custom_id }],
    ...more,
  },
})

/** Asks until a batch has ended, as its users do. */
async function waitForEnd(id: string) {
  for (;;) {
    const batch = await client.messages.batches.retrieve(id)
    if (batch.processing_status === 'ended') return batch
    await Bun.sleep(20)
  }
}

test('a batch is made, ends, and its results are read', async () => {
  const made = await client.messages.batches.create({
    requests: [build('one'), build('two', { model: 'acme/none' }), build('three')],
  })
  expect(made).toMatchObject({ type: 'message_batch', results_url: null, ended_at: null })
  const ended = await waitForEnd(made.id)
  expect(ended.request_counts).toEqual({
    ...{ processing: 0, succeeded: 2, errored: 1, canceled: 0, expired: 0 },
  })
  expect(ended.results_url).toEndWith(`/api/v1/messages/batches/${made.id}/results`)
  const results = await Array.fromAsync(await client.messages.batches.results(made.id))
  const byId = new Map(results.map(({ custom_id, result }) => [custom_id, result]))
  expect([...byId.keys()].toSorted()).toEqual(['one', 'three', 'two'])
  expect(byId.get('one')).toMatchObject({
    type: 'succeeded',
    message: { role: 'assistant', content: [{ type: 'text', text: 'one' }] },
  })
  expect(byId.get('two')).toMatchObject({
    type: 'errored',
    error: { type: 'error', error: { type: 'invalid_request_error' } },
  })
  const pages: string[] = []
  for await (const { id } of client.messages.batches.list({ limit: 1 })) pages.push(id)
  expect(pages).toEqual([made.id])
  const late = await client.messages.batches.cancel(made.id).catch(thrown => thrown)
  expect(late).toBeInstanceOf(Anthropic.ConflictError)
  expect(await client.messages.batches.delete(made.id)).toMatchObject({
    type: 'message_batch_deleted',
  })
  const gone = await client.messages.batches.retrieve(made.id).catch(thrown => thrown)
  expect(gone).toBeInstanceOf(Anthropic.NotFoundError)
})

test('one that is cancelled says what became of its requests', async () => {
  const made = await client.messages.batches.create({
    requests: Array.from({ length: 1_000 }, (_, i) => build(`${i}`)),
  })
  const early = await client.messages.batches.results(made.id).catch(thrown => thrown)
  expect(early).toBeInstanceOf(Anthropic.AnthropicError)
  for (;;) {
    const { request_counts } = await client.messages.batches.retrieve(made.id)
    if (request_counts.processing > 0) break
  }
  await client.messages.batches.cancel(made.id)
  const { request_counts } = await waitForEnd(made.id)
  const results = await Array.fromAsync(await client.messages.batches.results(made.id))
  expect(results).toHaveLength(1_000)
  const count = (type: string) => results.filter(({ result }) => result.type === type).length
  expect(request_counts).toMatchObject({
    succeeded: count('succeeded'),
    canceled: count('canceled'),
  })
  expect(count('canceled')).toBeGreaterThan(0)
})

test.each<[body: object, message: string]>([
  [{ requests: [] }, 'requests: '],
  [{ requests: [build('a'), build('a')] }, 'custom_id'],
  [{ requests: [{ custom_id: 'a' }] }, 'requests.0.params: '],
  [{ requests: [build('a')], priority: 'high' }, 'priority: '],
  [{ requests: [build('a'), build('b', { max_tokens: 0 })] }, 'requests.1.params.max_tokens: '],
  [{ requests: [build('a', { stream: true })] }, 'requests.0.params.stream: '],
])('%j is 400 in its form', async (body, message) => {
  const refused = await client.messages.batches.create(body as never).catch(thrown => thrown)
  expect(refused).toBeInstanceOf(Anthropic.BadRequestError)
  const error = { type: 'invalid_request_error', message: expect.stringContaining(message) }
  expect(refused.error).toMatchObject({ type: 'error', error })
})

test('batches of other endpoints are none, and management keys make none', async () => {
  const headers = { 'x-api-key': server.inference_key, 'content-type': 'application/json' }
  const other = await fetch(`${server.base}/batches`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      endpoint: '/v1/chat/completions',
      requests: [{ custom_id: 'a', body: { model: 'sandbox/echo', messages: [] } }],
    }),
  })
  const { id } = (await other.json()) as { id: string }
  const found = await client.messages.batches.retrieve(id).catch(thrown => thrown)
  expect(found).toBeInstanceOf(Anthropic.NotFoundError)
  const refused = await open(server.management_key)
    .messages.batches.create({ requests: [build('a')] })
    .catch(thrown => thrown)
  expect(refused).toBeInstanceOf(Anthropic.PermissionDeniedError)
})

test('models are listed in its form, a page at a time', async () => {
  const first = await client.models.list({ limit: 2 })
  expect(first.data).toHaveLength(2)
  expect(first.data[0]).toMatchObject({ type: 'model', display_name: expect.any(String) })
  const all: string[] = []
  for await (const { id } of client.models.list({ limit: 2 })) all.push(id)
  expect(all).toContain('sandbox/echo')
  expect(new Set(all).size).toBe(all.length)
  const last = all.at(-1) ?? ''
  const before = await client.models.list({ before_id: last, limit: 1 })
  expect(before.data.map(({ id }) => id)).toEqual([all.at(-2) ?? ''])
  expect(await client.models.retrieve('sandbox/echo')).toMatchObject({
    ...{ id: 'sandbox/echo', type: 'model' },
  })
  const gone = await client.models.retrieve('acme/none').catch(thrown => thrown)
  expect(gone).toBeInstanceOf(Anthropic.NotFoundError)
})
