import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  buildRoutesConfig,
  fetchGeneration,
  parseStream,
  readGenerationId,
  sendChat,
} from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { chunkedEnd, event, sseHead, startUpstream, type Upstream } from '../support/upstream.ts'

/* Usage follows the counts of the provider, also where a response has failed. */

let server: LocalServer
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } })
  const { local } = config.providers as Record<string, object>
  const providers = { ...config.providers, local: { ...local, protocol: 'openai-responses' } }
  server = await startLocalServer({ ...config, providers } as typeof config)
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const usage = { input_tokens: 1_000, output_tokens: 500, total_tokens: 1_500 }

test.each([
  ['failed', { error: { code: 'server_error', message: 'secret' } }, 'error'],
  ['incomplete', { incomplete_details: { reason: 'max_output_tokens' } }, 'length'],
])('a response that is %s is charged by its own count', async (status, fields, reason) => {
  const item = { item_id: 'm', output_index: 0, content_index: 0 }
  upstream.plan([
    sseHead(),
    event({ type: 'response.created', response: { id: 'r' } }),
    event({ type: 'response.output_text.delta', ...item, delta: 'Hello' }),
    event({ type: `response.${status}`, response: { id: 'r', status, usage, ...fields } }),
    chunkedEnd(),
  ])
  const outcome = await sendChat(server, { stream: true }).outcome()
  const { text, usages, errors } = parseStream(outcome.body)
  expect([text, errors.length]).toEqual(['Hello', reason === 'error' ? 1 : 0])
  expect(usages).toMatchObject([{ usage: { prompt_tokens: 1_000, completion_tokens: 500 } }])
  expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
    finish_reason: reason,
    native_tokens_prompt: 1_000,
    native_tokens_completion: 500,
  })
})
