import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Issue: "private and file: URLs never go on to a self-hosted provider unless the config says so".
 * Every part that may hold a URL gets every form of one, at every protocol. What arrives at the
 * provider holds none of them.
 */

const CASES = LONG ? 10_000 : 600
const CANARY = 'canary-7f3e'

let upstream: Upstream
let server: Server

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'openai-responses', 'cohere-chat', 'gemini']

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(() => completion('Hi'))
  const endpoints = (provider: string) => [{ provider, model: 'm' }]
  server = await startServer({
    config: {
      routing: { failures: 0 },
      providers: Object.fromEntries([
        ...PROTOCOLS.map(protocol => [
          protocol,
          { protocol, base_url: upstream.url, api_key: 'mock' },
        ]),
        [
          'open',
          { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock', fetches_urls: true },
        ],
      ]),
      models: [...PROTOCOLS, 'open'].map(name => ({
        id: `acme/${name}`,
        context_length: 100_000,
        input_modalities: ['text', 'image', 'file', 'audio', 'video'],
        endpoints: endpoints(name),
      })),
    },
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const TARGETS = [
  ...['http://10.9.8.7', 'http://127.0.0.1:9', 'http://localhost', 'http://169.254.169.254'],
  ...['HTTP://[::1]', 'http://2130706433', 'https://metadata.google.internal', 'http://0x7f.1'],
  ...[
    'file://',
    'FILE://localhost',
    'file:',
    'ftp://10.9.8.7',
    's3://bucket',
    'gopher://10.9.8.7:70',
  ],
  ...[' file://', '\thttp://10.9.8.7', 'http://user:pw@10.9.8.7', 'http:\\\\10.9.8.7'],
  ...['\u0001file://', 'fi\nle://', '\u00a0http://10.9.8.7'],
]

/** The parts of a message that may hold a URL, by door. */
const CHAT: ((url: string) => unknown)[] = [
  url => ({ type: 'image_url', image_url: { url } }),
  url => ({ type: 'image_url', image_url: url }),
  url => ({ type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=', fallback: url } }),
  url => ({ type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' }, source: { url } }),
  url => ({ type: 'video_url', video_url: { url } }),
  url => ({ type: 'input_video', video_url: { url } }),
  url => ({ type: 'video_url', video_url: { url: 'data:video/mp4;base64,aGk=', preview: [url] } }),
  url => ({ type: 'file', file: { filename: 'a.pdf', file_data: url } }),
  url => ({ type: 'file', file: { filename: 'a.pdf', file_url: url } }),
  url => ({ type: 'file', file: { file_id: url } }),
  url => ({ type: 'audio_url', audio_url: { url } }),
  url => ({ type: 'input_image', image_url: url }),
  url => ({ type: 'text', text: 'Hi', image_url: { url } }),
  url => ({ type: 'anything', deep: [{ deeper: { url } }] }),
]
const MESSAGES: ((url: string) => unknown)[] = [
  url => ({ type: 'image', source: { type: 'url', url } }),
  url => ({ type: 'document', source: { type: 'url', url } }),
  url => ({
    type: 'document',
    source: { type: 'content', content: [{ type: 'image', source: { type: 'url', url } }] },
  }),
  url => ({
    type: 'tool_result',
    tool_use_id: 'a',
    content: [{ type: 'image', source: { type: 'url', url } }],
  }),
  url => ({ type: 'anything', source: { type: 'url', url } }),
]

function sendPart(at: 'chat' | 'messages', model: string, part: unknown) {
  const json = { model, max_tokens: 50, messages: [{ role: 'user', content: [part] }] }
  return server.fetch(at === 'chat' ? '/chat/completions' : '/messages', { json })
}

test(`X-23 ${CASES} URLs of callers: none goes on to a self-hosted provider (seed ${SEED})`, async () => {
  const random = createSeededRandom(SEED)
  const pick = <One>(list: readonly One[]) => list[Math.floor(random() * list.length)] as One
  const found: unknown[] = []
  const statuses = new Set<number>()
  for (let i = 0; i < CASES; i++) {
    const at = pick(['chat', 'messages'] as const)
    const part = pick(at === 'chat' ? CHAT : MESSAGES)(`${pick(TARGETS)}/${CANARY}`)
    const model = `acme/${pick(PROTOCOLS)}`
    upstream.hits.length = 0
    const response = await sendPart(at, model, part)
    await response.text()
    statuses.add(response.status)
    const leaked = upstream.hits.filter(({ json }) => JSON.stringify(json).includes(CANARY))
    if (leaked.length > 0) found.push({ at, model, part, leaked: leaked.map(({ json }) => json) })
  }
  expect(found.slice(0, 5)).toEqual([])
  expect(statuses.has(500)).toBe(false)
}, 300_000)

test('a provider that the config says may fetch URLs gets them as they came', async () => {
  upstream.hits.length = 0
  const part = { type: 'image_url', image_url: { url: `file:///${CANARY}` } }
  expect((await sendPart('chat', 'acme/open', part)).status).toBe(200)
  expect(JSON.stringify(upstream.hits[0]?.json)).toContain(`file:///${CANARY}`)
})

test('a URL in a text is a text', async () => {
  upstream.hits.length = 0
  const part = { type: 'text', text: `See http://10.9.8.7/${CANARY}` }
  expect((await sendPart('chat', 'acme/openai-chat', part)).status).toBe(200)
  expect(JSON.stringify(upstream.hits[0]?.json)).toContain(CANARY)
})
