import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { watchDeliveries } from '../support/broadcast.ts'
import { ENCODINGS, WORDS } from '../support/disguises.ts'
import { buildPageContent, buildPdf } from '../support/documents-of-office.ts'
import { testGateway } from '../support/gateway.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { LONG } from '../support/random.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { answerAsPeer, PEER_KEY, SEARCH_PEERS } from '../support/search-peers.ts'
import {
  body,
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  type Hit,
  json,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Every door that a call's words leave by, at once: a provider that fails and its fallback, a judge, a
 * search engine, a site, an MCP server, a reader of scans, who fetches pictures, jobs with callbacks and
 * destinations. What filters forbid is written in each encoding, in each place of a call, and in all
 * that tools bring in. Nothing of it leaves.
 */

/** Here sites are addresses themselves. */
const FOUND = WORDS.filter(([, { slug }]) => slug !== 'ip-address')
/** Answers are not searched for prompt injections. */
const IN_ANSWERS = FOUND.filter(([, { slug }]) => slug !== 'regex-prompt-injection')

let world: Upstream
let receiver: Receiver
let mcp: TestMcpServer
let gateway: Gateway
let app: ReturnType<typeof createApp>
const keys: Record<string, string> = {}
let inputs: unknown[] = []
/** What the model writes in its calls and says at the end, and what others answer with. */
let asked = ''
let said = ''
let brought = ''

/** A picture of one dot, whose bytes are all ASCII. */
const GIF = 'GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;'

function answer(hit: Hit): Script {
  const { path, json: sent } = hit
  const { origin } = new URL(world.url)
  if (path.startsWith('/first')) return json({ error: { message: 'down' } }, { status: 503 })
  if (path.endsWith('/moderations')) {
    const { input } = sent as { input: string[] }
    return json({ results: input.map(() => ({ flagged: false, categories: {} })) })
  }
  if (path.startsWith('/searx/search'))
    return answerAsPeer(SEARCH_PEERS.searxng, { ...hit, path: path.slice(6) }, [
      { url: 'https://example.com/found', title: 'Found', text: `Found ${brought}.` },
    ])
  if (path.startsWith('/v1/ocr'))
    return json({
      pages: [{ index: 0, markdown: `Read ${brought}.` }],
      usage_info: { pages_processed: 1 },
    })
  if (path.startsWith('/picture')) return body('image/gif', GIF)
  if (path.startsWith('/page')) return body('text/plain', `Page ${brought}.`)
  if (path.includes('/videos')) return json({ id: 'video-1', status: 'queued' })
  const {
    messages,
    stream: streams,
    tools,
  } = sent as { messages: { role: string }[]; stream?: boolean; tools?: unknown[] }
  const isFirst = tools && messages.at(-1)?.role === 'user'
  if (!isFirst) return streams ? stream(['Done', ...said]) : completion(`Done${said}`)
  const calls = [
    ['own__note', { note: `b ${asked}` }],
    ['web_search', { query: `c ${asked}` }],
    ['web_fetch', { url: `${origin}/page?q=${encodeURI(asked)}` }],
  ].map(([name, input], index) => ({
    ...{ index, id: `call_${index}`, type: 'function' },
    function: { name, arguments: JSON.stringify(input) },
  }))
  const message = { role: 'assistant', content: null, tool_calls: calls }
  if (!streams)
    return completion('', { choices: [{ index: 0, finish_reason: 'tool_calls', message }] })
  return [sseHead(), delta(message), finish('tool_calls'), done(), chunkedEnd()]
}

beforeAll(async () => {
  world = await startUpstream()
  receiver = await startReceiver()
  world.answer(answer)
  mcp = startMcpServer({
    tools: [
      {
        name: 'note',
        run: input => {
          inputs.push(input)
          return textResult(`Noted ${brought}.`)
        },
      },
    ],
  })
  const { origin, host } = new URL(world.url)
  const provider = (path: string) => ({
    ...{ protocol: 'openai-chat', base_url: `${origin}/${path}/v1`, api_key: 'mock' },
  })
  gateway = await testGateway({
    deliveryPace: { linger: 0, firstPause: 0, longestPause: 0 },
    config: {
      // A provider that fails is asked again.
      routing: { failures: 0 },
      security: { allow_private_urls: [host, receiver.host, new URL(mcp.url).host] },
      providers: { first: provider('first'), second: provider('second') },
      models: [
        {
          id: 'acme/m',
          context_length: 100_000,
          input_modalities: ['text', 'image'],
          endpoints: ['first', 'second'].map(name => ({ provider: name, model: 'm' })),
        },
        {
          id: 'acme/film',
          output_modalities: ['video'],
          endpoints: [{ provider: 'second', model: 'film' }],
        },
      ],
      plugins: {
        moderation: { provider: 'second', model: 'judge' },
        mistral_ocr: { api_key: PEER_KEY, base_url: origin },
      },
      web_search: { engines: { searxng: { base_url: `${origin}/searx` } } },
      web_fetch: { robots: false },
      mcp_servers: { own: { url: mcp.url, require_approval: 'never' } },
    },
  })
  app = createApp(gateway)
  const operator = getOperator(gateway)
  await updateWorkspace(gateway, operator, gateway.memory.owner.workspace_id, {
    is_observability_broadcast_enabled: true,
  })
  await createDestination(gateway, operator, {
    ...{ type: 'webhook', name: 'hook', config: { url: `${receiver.url}/traces` } },
  })
  for (const [name, action, filterOutput] of [
    ['block', 'block', false],
    ['redact', 'redact', false],
    ['block answers', 'block', true],
    ['redact answers', 'redact', true],
  ] as const) {
    const made = await createKey(gateway, operator, { name })
    const { data } = await createGuardrail(gateway, operator, {
      ...{ name, filterOutput },
      content_filters: [{ pattern: '(?i)falcon', action, label: 'BIRD' }],
      content_filter_builtins: FOUND.flatMap(([, { slug }]) => (slug ? [{ slug, action }] : [])),
    })
    await assignKeys(gateway, operator, data.id, { key_hashes: [made.data.hash] })
    keys[name] = made.key
  }
  await gateway.deliveries.start()
})
afterAll(async () => {
  await gateway.close()
  await Promise.all([world.close(), receiver.close(), mcp.close()])
})
beforeEach(() => {
  world.hits.length = 0
  receiver.requests.length = 0
  inputs = []
  asked = ''
  said = ''
  brought = ''
})

async function post(path: string, key: string | undefined, sent: object) {
  const response = await app.handle(
    new Request(`http://localhost/api/v1${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify(sent),
    }),
  )
  return { status: response.status, text: await response.text() }
}

/** Makes a call, and resolves once its destination has been told of it. */
async function ask(path: string, key: string | undefined, sent: object) {
  const { waitForCalls } = watchDeliveries(gateway)
  const answer = await post(path, key, sent)
  await waitForCalls(1)
  return answer
}

const chat = (key: string | undefined, sent: object) => ask('/chat/completions', key, sent)

/** A PDF that nobody has sent before. */
const buildScan = (text: string) =>
  `data:application/pdf;base64,${Buffer.from(buildPdf(buildPageContent(text))).toString('base64')}`

/** A call that has the text in each of its places, and that goes out by every door. */
function buildCall(text: string, more: object = {}) {
  const { origin } = new URL(world.url)
  const note = {
    type: 'function',
    id: 'h',
    function: { name: 'note', arguments: JSON.stringify({ a: `d ${text}` }) },
  }
  return {
    model: 'acme/m',
    provider: { order: ['first', 'second'] },
    messages: [
      { role: 'system', content: `e ${text}` },
      { role: 'user', content: `f ${text}` },
      { role: 'assistant', content: `g ${text}`, tool_calls: [note] },
      { role: 'tool', tool_call_id: 'h', content: JSON.stringify({ b: [`h ${text}`] }) },
      {
        role: 'user',
        content: [
          { type: 'text', text: `i ${text}` },
          { type: 'image_url', image_url: { url: `${origin}/picture?q=${encodeURI(text)}` } },
        ],
      },
    ],
    tools: [
      { type: 'function', function: { name: 'note', description: `j ${text}`, parameters: {} } },
      { type: 'gateway:web_fetch' },
      { type: 'gateway:web_search' },
      { type: 'gateway:mcp', parameters: { server_label: 'own' } },
    ],
    plugins: [{ id: 'moderation' }, { id: 'web', engine: 'searxng' }],
    ...more,
  }
}

/** What providers, services, sites and servers were asked. */
const listAsked = () => [
  ...world.hits.map(({ path, body }) => `${path}\n${body}`),
  ...inputs.map(input => JSON.stringify(input)),
]

/** All that has left, as it was received. */
const left = () => [
  ...listAsked(),
  ...receiver.requests.map(({ path, body }) => `${path}\n${body}`),
]

/** How a text looks within JSON, within that, and in a URL. */
function listForms(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1)
  return [text, json, JSON.stringify(json).slice(1, -1), encodeURI(text), encodeURIComponent(text)]
}

const expectNone = (words: string[]) => {
  const forms = words.flatMap(listForms)
  for (const text of left())
    expect([text, forms.filter(form => text.includes(form))]).toEqual([text, []])
}

/** What an answer says, whole or streamed. */
function readWords(text: string): string {
  const events = text.startsWith('{')
    ? [text]
    : text.split('\n').filter(line => /^data: \{/.test(line))
  return events
    .flatMap(event => JSON.parse(event.replace('data: ', '')).choices ?? [])
    .map(({ message, delta }) => (message ?? delta)?.content ?? '')
    .join('')
}

const doors = () => new Set(world.hits.map(({ path }) => path.split(/[?]/)[0]))

describe.each([false, true])('streamed: %p', isStream => {
  // Each encoding whole or streamed, by turns.
  const encodings = Object.entries(ENCODINGS).filter((_, i) => LONG || (i % 2 === 1) === isStream)
  describe.each(encodings)('a word in %s', (name, write) => {
    const words = FOUND.map(([word]) => write(word))
    const written = words.join(' ; ')
    const more = { stream: isStream }

    test('is redacted at every door, in what is asked and in what is brought in', async () => {
      asked = written
      brought = written
      const { status, text } = await chat(keys.redact, buildCall(written, more))
      expect([status, text]).toEqual([200, expect.stringContaining('Done')])
      expect([...doors()].sort()).toEqual([
        ...['/first/v1/chat/completions', '/page', '/picture', '/searx/search'],
        ...['/second/v1/chat/completions', '/second/v1/moderations'],
      ])
      expect(inputs).toHaveLength(1)
      expectNone(words)
      for (const one of listAsked()) expect(one).toContain('BIRD')
      expect(JSON.stringify(receiver.requests)).toContain('BIRD')
      for (const start of ['Found ', 'Page ', 'Noted ']) expect(listAsked().join()).toContain(start)
    })

    test('is redacted in what a reader of scans has read', async () => {
      brought = written
      const content = [
        { type: 'text', text: `a ${written}` },
        {
          type: 'file',
          file: { filename: 'scan.pdf', file_data: buildScan(`own ${name} ${isStream}`) },
        },
      ]
      const plugins = [{ id: 'file-parser', pdf: { engine: 'mistral-ocr' } }]
      const { status } = await chat(keys.redact, {
        ...{ model: 'acme/m', messages: [{ role: 'user', content }], plugins, ...more },
      })
      expect(status).toBe(200)
      expect(doors()).toContain('/v1/ocr')
      expectNone(words)
    })

    test('is redacted or blocked on its way to the client, letter by letter', async () => {
      said = `: ${IN_ANSWERS.map(([word]) => write(word)).join(' ; ')}.`
      const call = { model: 'acme/m', messages: [{ role: 'user', content: 'Hi' }], ...more }
      const redacted = await chat(keys['redact answers'], call)
      expect(readWords(redacted.text)).toBe(
        'Done: BIRD ; [EMAIL] ; [CREDIT_CARD] ; [PHONE] ; [SSN] ; [SECRET].',
      )
      const blocked = await chat(keys['block answers'], call)
      expect(blocked.text).toContain('Response blocked')
      expect(isStream ? readWords(blocked.text) : blocked.status).toBe(isStream ? 'Done: ' : 403)
    })

    test('that is blocked leaves by no door', async () => {
      const { status, text } = await chat(keys.block, buildCall(written, more))
      expect([status, text]).toEqual([403, expect.stringContaining('Request blocked')])
      expect(listAsked()).toEqual([])
      expectNone(words)
    })

    test('that is blocked in what a tool brings in reaches no model', async () => {
      brought = written
      const { text } = await chat(keys.block, buildCall('clean', { ...more, plugins: [] }))
      // Results of tools have no tags: they are taken out.
      if (name !== 'tags') expect(text).toContain('Request blocked')
      expectNone(words)
    })

    test('leaves with no job, and with no callback', async () => {
      const callback_url = `${receiver.url}/hook?q=${encodeURI(written)}`
      const job = { model: 'acme/film', duration: 4 }
      const redacted = await post('/videos', keys.redact, { ...job, prompt: `a ${written}` })
      expect(redacted.status).toBe(202)
      const blocked = await ask('/videos', keys.block, { ...job, prompt: `a ${written}` })
      const called = await ask('/videos', keys.block, { ...job, prompt: 'a', callback_url })
      expect([blocked.status, called.status]).toEqual([403, 403])
      expectNone(words)
    })
  })
})
