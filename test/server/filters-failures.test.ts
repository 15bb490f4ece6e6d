import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { type FilterRule, openFilters } from '../../src/limits/filters.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

/* What a provider says when it fails passes the filters of answers before the client gets it. */

const SECRET = 'AKIAIOSFODNN7EXAMPLE'
const SPOKEN = { message: 'You wrote ann@acme.example', type: 'invalid_request_error' }
const ERROR = { message: `Your words: ${SECRET}`, type: 'invalid_request_error' }

let failure: () => Response
let gateway: Gateway
let app: ReturnType<typeof createApp>
let keys: Awaited<ReturnType<typeof createTestKeys>>

const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => failure() })

beforeAll(async () => {
  const base_url = `http://127.0.0.1:${server.port}`
  gateway = await testGateway({
    config: {
      providers: { chatty: { protocol: 'openai-chat', base_url, api_key: 'k' } },
      models: [
        {
          id: 'acme/chatty',
          context_length: 128_000,
          endpoints: [
            {
              provider: 'chatty',
              model: 'm',
              usd_per_million_tokens: { prompt: 1, completion: 2 },
            },
          ],
        },
      ],
    },
  } as never)
  keys = await createTestKeys(gateway)
  app = createApp(gateway)
})

afterAll(async () => {
  await gateway.close()
  await server.stop(true)
})

const refuse = (error: object) => () => Response.json({ error }, { status: 400 })

const CHUNKS = [
  { choices: [{ index: 0, delta: { content: 'Hello. ' }, finish_reason: null }] },
  { error: { ...ERROR, code: SECRET } },
].map(chunk => `data: ${JSON.stringify({ id: 'c', created: 1, model: 'm', ...chunk })}\n\n`)

/** Says hello, and fails once the gate opens. */
const breakOff = (gate: Promise<void>) => () =>
  new Response(
    (async function* () {
      yield CHUNKS[0]
      await gate
      yield CHUNKS[1]
    })() as never,
    { headers: { 'content-type': 'text/event-stream' } },
  )

async function send(rule: Partial<FilterRule> | null, fail: () => Response, body: object = {}) {
  failure = fail
  const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: 'nobody' })
  const filters = rule && {
    filters: openFilters([
      { guardrail_id: 'g', scope: 'key', action: 'redact', output: true, ...rule },
    ]),
  }
  gateway.memory.policies.set(keys.hash, { ...policy, ...filters })
  return app.handle(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${keys.inference}` },
      body: JSON.stringify({
        model: 'acme/chatty',
        messages: [{ role: 'user', content: 'Hi' }],
        ...body,
      }),
    }),
  )
}

async function ask(...options: Parameters<typeof send>) {
  const response = await send(...options)
  return { status: response.status, text: await response.text() }
}

describe("a provider's error", () => {
  test('gives its message to the client without what a filter finds', async () => {
    const { status, text } = await ask({ slug: 'email' }, refuse(SPOKEN))
    expect([status, text.includes('You wrote [EMAIL]')]).toEqual([400, true])
  })

  test('keeps a message to itself that a filter blocks', async () => {
    const { status, text } = await ask({ slug: 'email', action: 'block' }, refuse(SPOKEN))
    expect([status, text.includes('You wrote')]).toEqual([400, false])
  })

  test.each([
    ['code', { ...ERROR, code: SECRET }],
    ['type', { ...ERROR, type: SECRET }],
    ['param', { ...ERROR, param: SECRET }],
  ])('has its %s redacted', async (_, error) => {
    const { status, text } = await ask({ slug: 'secrets' }, refuse(error))
    expect([status, text.includes(SECRET), text.includes('[SECRET]')]).toEqual([400, false, true])
  })

  test('is told without its facts if a filter blocks one', async () => {
    const error = { ...ERROR, code: SECRET, param: 'messages' }
    const { status, text } = await ask({ slug: 'secrets', action: 'block' }, refuse(error))
    expect([status, text.includes(SECRET), text.includes('"param"')]).toEqual([400, false, false])
  })

  test('keeps its code and our words if nothing is found', async () => {
    const rule = { pattern: 'provider|refused|error', label: 'X' }
    const { text } = await ask(rule, refuse({ ...ERROR, code: 'bad_tool', param: 'tools' }))
    expect(JSON.parse(text).error).toMatchObject({
      message: 'The provider refused the request as invalid: Your words: [secret]',
      metadata: { provider_code: 'bad_tool', param: 'tools' },
    })
  })

  test('in the middle of an answer is redacted', async () => {
    const { text } = await ask({ slug: 'secrets' }, breakOff(Promise.resolve()))
    expect([text.includes(SECRET), text.includes('[SECRET]')]).toEqual([false, true])
  })

  test('in the middle of a streamed answer is redacted', async () => {
    const gate = Promise.withResolvers<void>()
    const response = await send({ slug: 'secrets' }, breakOff(gate.promise), { stream: true })
    let text = ''
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream() as never) ?? []) {
      text += piece
      if (text.includes('Hello')) gate.resolve()
    }
    expect([text.includes('Hello'), text.includes(SECRET), text.includes('[SECRET]')]).toEqual([
      true,
      false,
      true,
    ])
  })
})
