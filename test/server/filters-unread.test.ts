import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import type { Json } from '../../src/base/json.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { type FilterRule, openFilters } from '../../src/limits/filters.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

/*
 * The last gate: what filters forbid leaves in no field of a request, whatever a protocol makes of
 * it.
 */

const PROTOCOLS = {
  chatty: 'openai-chat',
  claudy: 'anthropic-messages',
  gemmy: 'gemini',
  respondy: 'openai-responses',
  coherent: 'cohere-chat',
  bedrocky: 'bedrock-converse',
} as const

let gateway: Gateway
let app: ReturnType<typeof createApp>
let keys: Awaited<ReturnType<typeof createTestKeys>>
let sent: string[] = []

// Every provider refuses: only what it was sent matters here.
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const headers = request.headers.get('anthropic-beta') ?? ''
    sent.push(headers + JSON.stringify(await request.json()))
    return Response.json({ error: { message: 'no' } }, { status: 400 })
  },
})

beforeAll(async () => {
  const providers = Object.entries(PROTOCOLS).map(([name, protocol]) => [
    name,
    {
      protocol,
      base_url: `http://127.0.0.1:${server.port}/${name}`,
      ...(protocol === 'bedrock-converse' ? { auth: 'bearer' } : {}),
      api_key: 'k',
    },
  ])
  const models = Object.keys(PROTOCOLS).map(provider => ({
    id: `acme/${provider}`,
    context_length: 128_000,
    endpoints: [{ provider, model: 'm', usd_per_million_tokens: { prompt: 1, completion: 2 } }],
  }))
  const embed = { ...models[0], id: 'acme/embed', output_modalities: ['embeddings'] }
  gateway = await testGateway({
    config: { providers: Object.fromEntries(providers), models: [...models, embed] },
  } as never)
  keys = await createTestKeys(gateway)
  app = createApp(gateway)
})

afterAll(async () => {
  await gateway.close()
  await server.stop(true)
})

function guard(...rules: Partial<FilterRule>[]): void {
  const filters = openFilters(
    rules.map(rule => ({ guardrail_id: 'g-1', scope: 'key', action: 'redact', ...rule })),
  )
  const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: 'nobody' })
  gateway.memory.policies.set(keys.hash, { ...policy, filters })
}

async function ask(path: string, body: object, headers: Record<string, string> = {}) {
  sent = []
  const response = await app.handle(
    new Request(`http://localhost/api/v1${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${keys.inference}`,
        ...headers,
      },
      body: JSON.stringify(body),
    }),
  )
  return { status: response.status, text: await response.text() }
}

/** A word that may stand in any field, also where only letters are allowed. */
const WORD = 'falconcodename'
const RULE: Partial<FilterRule> = { pattern: WORD, label: 'REDACTED' }

const user = { role: 'user', content: 'Hi' }
const tool = (name: string) => ({ type: 'function', function: { name, parameters: {} } })
const toolCall = (id: string, name: string, args = '{}') => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name, arguments: args } }],
})
const result = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content })
const proto = JSON.parse(`{"__proto__":{"x":"${WORD}"}}`)
/** The word in escapes that JSON decodes. */
const ESCAPED = `\\u0066${WORD.slice(1)}`
const escapeAll = (text: string) =>
  [...text].map(letter => `\\u00${letter.charCodeAt(0).toString(16)}`).join('')

/** JSON texts whose reader alone sees the word: as a value, as a name, and deeper. */
const JSON_TEXTS: Record<string, string> = {
  'an escaped value': `{"name":"${ESCAPED}"}`,
  'an escaped name': `{"${ESCAPED}":"x"}`,
  'an escaped name in a list': `{"a":[{"b":{"${ESCAPED}":1}}]}`,
  'an escaped value in a list': `{"a":["${ESCAPED}"]}`,
  'a whole escaped': `{"${escapeAll(WORD)}":{"${escapeAll(WORD)}":"${escapeAll(WORD)}"}}`,
  'a number': '{"a":4111111111111111}',
  'a number as a name': '{"4111111111111111":"a"}',
}

/** JSON texts in the places that protocols read as JSON. */
const JSON_CASES = Object.fromEntries(
  Object.entries(JSON_TEXTS).flatMap(([what, json]): [string, Json][] => [
    [`a result of ${what}`, { messages: [user, toolCall('c', 'f'), result('c', json), user] }],
    [
      `arguments of ${what}`,
      { messages: [user, toolCall('c', 'f', json), result('c', 'ok'), user] },
    ],
    [
      `a result in parts of ${what}`,
      {
        messages: [
          user,
          toolCall('c', 'f'),
          { ...result('c', ''), content: [{ type: 'text', text: json }] },
          user,
        ],
      },
    ],
  ]),
)

/** Fields of the chat dialect that hold the word, by their name. */
const CHAT: Record<string, Json> = {
  ...JSON_CASES,
  stop: { stop: [WORD] },
  'a tool’s name': { tools: [tool(WORD)] },
  tool_choice: {
    tools: [tool(WORD)],
    tool_choice: { type: 'function', function: { name: WORD } },
  },
  'a call’s name and id': { messages: [user, toolCall(WORD, WORD), result(WORD, 'ok'), user] },
  'a number': { seed: 4111111111111111 },
  prompt_cache_key: { prompt_cache_key: WORD },
  web_search_options: { web_search_options: { user_location: { city: WORD } } },
  'plugin domains': { plugins: [{ id: 'web', include_domains: [`${WORD}.example`] }] },
  'cache_control members': {
    messages: [
      {
        role: 'user',
        content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', [WORD]: WORD } }],
      },
    ],
  },
  file_id: {
    messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: WORD } }] }],
  },
  'reasoning data': {
    messages: [
      user,
      {
        role: 'assistant',
        content: 'ok',
        reasoning_details: [
          { type: 'reasoning.encrypted', data: WORD, id: WORD, format: WORD, signature: WORD },
          { type: 'reasoning.text', text: 'hm', signature: WORD, format: 'anthropic-claude-v1' },
        ],
      },
      user,
    ],
  },
  'a field of no meaning': { anything: { [WORD]: [WORD] } },
  __proto__: proto,
  'a text in two parts': {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: WORD.slice(0, 6) },
          { type: 'text', text: WORD.slice(6) },
        ],
      },
    ],
  },
  'a text with a name': { messages: [{ ...user, name: WORD }] },
  response_format: {
    response_format: { type: 'json_schema', json_schema: { name: WORD, schema: { [WORD]: WORD } } },
  },
  'one of two system messages': {
    messages: [{ role: 'system', content: WORD }, { role: 'system', content: 'b' }, user],
  },
}

/** Fields of the messages dialect. */
const MESSAGES: Record<string, Json> = {
  stop_sequences: { stop_sequences: [WORD] },
  'tool names and ids': {
    tools: [{ name: WORD, input_schema: { type: 'object' } }],
    tool_choice: { type: 'tool', name: WORD },
    messages: [
      user,
      { role: 'assistant', content: [{ type: 'tool_use', id: WORD, name: WORD, input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: WORD, content: 'ok' }] },
    ],
  },
  thinking: {
    messages: [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: WORD },
          { type: 'redacted_thinking', data: WORD },
          { type: 'text', text: 'ok' },
        ],
      },
      user,
    ],
  },
  'a file': {
    messages: [
      {
        role: 'user',
        content: [{ type: 'document', source: { type: 'file', file_id: WORD }, title: WORD }],
      },
    ],
  },
  'a field of no meaning': { container: WORD, context_management: { [WORD]: WORD } },
}

const CASES = [
  ...Object.entries(CHAT).map(([field, body]) => ['/chat/completions', field, body] as const),
  ...Object.entries(MESSAGES).map(([field, body]) => ['/messages', field, body] as const),
]

const isCard = /4111111111111111/

describe('what is forbidden leaves in no field', () => {
  for (const [path, field, body] of CASES)
    test.each(Object.keys(PROTOCOLS))(`${path}: ${field}, over %s`, async provider => {
      guard(RULE, { slug: 'credit-card' })
      const { status } = await ask(path, {
        model: `acme/${provider}`,
        max_tokens: 50,
        messages: [user],
        ...body,
      })
      for (const text of sent) {
        expect(text).not.toContain(WORD)
        expect(text).not.toMatch(isCard)
      }
      expect(status).toBeGreaterThanOrEqual(400)
    })

  test.each<[name: string, type: string, bytes: Buffer]>([
    ['UTF-16 with a mark', 'text/plain', Buffer.from(`\ufeff${WORD}`, 'utf16le')],
    ['UTF-16 without a mark', 'text/csv', Buffer.from(`${WORD}, 1`, 'utf16le')],
    ['UTF-16, big-endian', 'text/plain', Buffer.from(`\ufeff${WORD}`, 'utf16le').swap16()],
    ['UTF-16 by its charset', 'text/plain;charset=utf-16be', Buffer.from(WORD, 'utf16le').swap16()],
    ['text of another type', 'application/x-sh', Buffer.from(`echo ${WORD}`)],
    ['a vector picture', 'image/svg+xml', Buffer.from(`<svg>${WORD}</svg>`)],
  ])('a text file: %s', async (_, type, bytes) => {
    guard({ ...RULE, action: 'block' })
    const file_data = `data:${type};base64,${bytes.toString('base64')}`
    const { status } = await ask('/chat/completions', {
      model: 'acme/chatty',
      max_tokens: 50,
      messages: [{ role: 'user', content: [{ type: 'file', file: { filename: 'a', file_data } }] }],
    })
    expect({ status, sent }).toEqual({ status: 403, sent: [] })
  })

  test('but not a file in which there is no text', async () => {
    guard({ pattern: 'a', action: 'block' })
    const bytes = Buffer.from(Array.from({ length: 900 }, (_, i) => (i * 97) % 256))
    const file_data = `data:application/zip;base64,${bytes.toString('base64')}`
    await ask('/chat/completions', {
      model: 'acme/chatty',
      max_tokens: 50,
      messages: [{ role: 'user', content: [{ type: 'file', file: { filename: 'f', file_data } }] }],
    })
    expect(sent.join()).toContain(file_data)
  })

  test('/messages: betas', async () => {
    guard(RULE)
    await ask(
      '/messages',
      { model: 'acme/claudy', max_tokens: 50, messages: [user] },
      { 'anthropic-beta': WORD },
    )
    expect(sent.join()).not.toContain(WORD)
  })

  test('/embeddings: input_type and unknown fields', async () => {
    guard(RULE)
    await ask('/embeddings', { model: 'acme/embed', input: 'Hi', input_type: WORD, more: WORD })
    expect(sent.join()).not.toContain(WORD)
    expect(sent.length).toBe(1)
  })

  test('and is refused once, whatever endpoints there are, if it blocks', async () => {
    guard({ ...RULE, action: 'block' })
    const { status, text } = await ask('/chat/completions', {
      models: ['acme/chatty', 'acme/claudy'],
      max_tokens: 50,
      messages: [user],
      stop: [WORD],
    })
    expect({ status, sent }).toEqual({ status: 403, sent: [] })
    expect(JSON.parse(text).error.message).toContain('content filter')
  })

  test('but words of protocols stay, whatever the pattern', async () => {
    guard({ pattern: 'user|text|role|auto|function|object', label: 'X' })
    await ask('/chat/completions', {
      model: 'acme/claudy',
      max_tokens: 50,
      messages: [user],
      tools: [tool('f')],
      tool_choice: 'auto',
    })
    expect(JSON.parse(sent[0] ?? '')).toMatchObject({
      messages: [{ role: 'user' }],
      tool_choice: { type: 'auto' },
    })
  })
})
