import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Issue: "private and file: URLs never go on to a self-hosted provider unless the config says so".
 * Every part that may hold a URL gets every form of one, at every protocol. What arrives at the
 * provider holds none of them.
 */

const CASES = LONG ? 10_000 : 600
const CANARY = 'canary-7f3e'

let upstream: Upstream
let server: LocalServer

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'openai-responses', 'cohere-chat', 'gemini']

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(() => completion('Hi'))
  const endpoints = (provider: string) => [{ provider, model: 'm' }]
  server = await startLocalServer({
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

/** What looks like a URL and is none, beside the targets: hosts that are gone, and a Windows path. */
const LOOKALIKES = [
  ...TARGETS,
  ...['https://gone.invalid', 'C:\\Users\\ann', 'C:/Users', 'd:\\', 'http://a b'],
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
  url => ({ type: 'image', source: { type: 'file', file_id: url } }),
  url => ({ type: 'web_search_tool_result', tool_use_id: 'a', content: [], image_url: { url } }),
  url => ({
    type: 'web_fetch_tool_result',
    tool_use_id: 'a',
    content: {
      type: 'web_fetch_result',
      url: 'https://gone.invalid',
      content: { type: 'document', source: { type: 'url', url } },
    },
  }),
  url => ({
    type: 'mcp_tool_result',
    tool_use_id: 'a',
    content: [{ type: 'image', source: { type: 'url', url } }],
  }),
]
const RESPONSES: ((url: string) => unknown)[] = [
  url => ({ type: 'message', role: 'user', content: [{ type: 'input_image', image_url: url }] }),
  url => ({ type: 'message', role: 'user', content: [{ type: 'input_image', file_id: url }] }),
  url => ({ type: 'message', role: 'user', content: [{ type: 'input_file', file_url: url }] }),
  url => ({
    type: 'custom_tool_call_output',
    call_id: 'a',
    output: [{ type: 'input_image', image_url: url }],
  }),
  url => ({
    type: 'computer_call_output',
    call_id: 'a',
    output: { type: 'computer_screenshot', image_url: url },
  }),
  url => ({ type: 'web_search_call', id: 'ws_1', status: 'completed', image_url: url }),
  url => ({
    type: 'additional_tools',
    role: 'developer',
    tools: [{ type: 'mcp', server_label: 'a', server_url: url }],
  }),
]

/** Fields of parts and items that are data: whatever they begin with, nothing fetches it. */
const MESSAGES_DATA: ((text: string) => unknown)[] = [
  url => ({
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: Array.from({ length: 65 }, (_, i) => ({
      type: 'web_search_result',
      url: `${url}/${i}`,
      title: url,
      encrypted_content: 'a',
      page_age: null,
    })),
  }),
  url => ({ type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_fetch', input: { url } }),
  url => ({
    type: 'web_fetch_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: {
      type: 'web_fetch_result',
      url,
      content: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: url } },
    },
  }),
  url => ({
    type: 'text',
    text: 'Hi',
    citations: [{ type: 'web_search_result_location', url, title: url, encrypted_index: 'a' }],
  }),
  stdout => ({
    type: 'bash_code_execution_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: { type: 'bash_code_execution_result', stdout, stderr: '', return_code: 0 },
  }),
  text => ({ type: 'next_years_result', output: text, content: [{ type: 'text', text }] }),
]
const RESPONSES_DATA: ((text: string) => unknown)[] = [
  output => ({ type: 'custom_tool_call_output', call_id: 'a', output }),
  input => ({ type: 'custom_tool_call', call_id: 'a', name: 'f', input }),
  url => ({
    type: 'web_search_call',
    id: 'ws_1',
    status: 'completed',
    action: { type: 'search', query: url, sources: [{ type: 'url', url }] },
  }),
  url => ({
    type: 'web_search_call',
    id: 'ws_1',
    status: 'completed',
    action: { type: 'open_page', url },
  }),
  output => ({ type: 'local_shell_call_output', id: 'a', output }),
  stdout => ({
    type: 'shell_call_output',
    call_id: 'a',
    output: [{ stdout, stderr: stdout, outcome: { type: 'exit', exit_code: 0 } }],
  }),
  text => ({
    type: 'file_search_call',
    id: 'fs_1',
    status: 'completed',
    queries: [text],
    results: [{ file_id: 'file-1', filename: text, text, score: 1 }],
  }),
  output => ({
    type: 'mcp_call',
    id: 'mcp_1',
    server_label: 'a',
    name: 'f',
    arguments: '{}',
    output,
  }),
]

/** The calls whose outputs are tried. */
const CALLS: Record<string, object> = {
  custom_tool_call: { type: 'custom_tool_call', call_id: 'a', name: 'f', input: 'x' },
  computer_call: {
    type: 'computer_call',
    id: 'cu_1',
    call_id: 'a',
    status: 'completed',
    action: { type: 'screenshot' },
    pending_safety_checks: [],
  },
  local_shell_call: {
    type: 'local_shell_call',
    id: 'a',
    call_id: 'a',
    status: 'completed',
    action: { type: 'exec', command: ['ls'], env: {} },
  },
  shell_call: { type: 'shell_call', call_id: 'a', action: { commands: ['ls'] } },
}

type Door = 'chat' | 'messages' | 'responses'

function sendPart(at: Door, model: string, part: unknown) {
  if (at === 'responses') {
    const { type } = part as { type: string }
    const call = CALLS[type.replace('_output', '')]
    const input = call && type.endsWith('_output') ? [call, part] : [part]
    return server.fetch('/responses', { json: { model, input } })
  }
  const json = { model, max_tokens: 50, messages: [{ role: 'user', content: [part] }] }
  return server.fetch(at === 'chat' ? '/chat/completions' : '/messages', { json })
}

test(`X-23 ${CASES} URLs of callers: none goes on to a self-hosted provider (seed ${SEED})`, async () => {
  const random = createSeededRandom(SEED)
  const pick = <One>(list: readonly One[]) => list[Math.floor(random() * list.length)] as One
  const found: unknown[] = []
  const statuses = new Set<number>()
  for (let i = 0; i < CASES; i++) {
    const at = pick(['chat', 'messages', 'responses'] as const)
    const parts = { chat: CHAT, messages: MESSAGES, responses: RESPONSES }
    const part = pick(parts[at])(`${pick(TARGETS)}/${CANARY}`)
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

test('U01 U02 U03 data is no URL: it goes on as it came, whatever it begins with', async () => {
  const random = createSeededRandom(SEED)
  const pick = <One>(list: readonly One[]) => list[Math.floor(random() * list.length)] as One
  const refused: unknown[] = []
  for (let i = 0; i < CASES; i++) {
    const [at, model, parts] = pick([
      ['messages', 'acme/anthropic-messages', MESSAGES_DATA],
      ['responses', 'acme/openai-responses', RESPONSES_DATA],
    ] as const)
    const part = pick(parts)(`${pick(LOOKALIKES)}/${CANARY}`)
    upstream.hits.length = 0
    const response = await sendPart(at, model, part)
    const text = await response.text()
    const arrived = JSON.stringify(upstream.hits[0]?.json ?? null).includes(CANARY)
    if (response.status === 400 || !arrived) refused.push({ part, text })
  }
  expect(refused.slice(0, 5)).toEqual([])
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
