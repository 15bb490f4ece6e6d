import { afterAll, beforeAll, expect, test } from 'bun:test'
import { buildLocalConfig, type LocalServer, startLocalServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

let upstream: Upstream
let server: LocalServer

beforeAll(async () => {
  upstream = await startUpstream()
  const { providers, models } = buildLocalConfig(upstream.url)
  const openai = { id: 'openai/local', endpoints: [{ provider: 'local', model: 'local' }] }
  server = await startLocalServer({ providers, models: [...models, openai] })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const MESSAGE = { role: 'user', name: 'ada', content: 'Hi' }

async function sent(model: string): Promise<unknown> {
  upstream.plan(completion('Hello'))
  const response = await server.fetch('/chat/completions', { json: { model, messages: [MESSAGE] } })
  expect(response.status).toBe(200)
  const { messages } = JSON.parse(upstream.hits.at(-1)?.body ?? '{}') as { messages: unknown[] }
  return messages[0]
}

test('a name stands in the text for a model that is not OpenAI’s', async () => {
  expect(await sent('acme/small')).toEqual({ role: 'user', content: 'ada: Hi' })
})

test('and in its field for one that is', async () => {
  expect(await sent('openai/local')).toEqual(MESSAGE)
})
