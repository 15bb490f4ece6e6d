import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { examineGateway } from '../../../../src/app/doctor.ts'
import type { Gateway } from '../../../../src/app/gateway.ts'
import type { Json } from '../../../../src/base/json.ts'
import { parseConfig } from '../../../../src/config.ts'
import { explain } from '../../../../src/extensions/explain.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { createKey } from '../../../../src/resources/keys.ts'
import { buildTextCall } from '../../../support/call.ts'
import { buildPageContent, buildPdf } from '../../../support/documents-of-office.ts'
import { askDoor, DOORS, type DoorCall } from '../../../support/doors.ts'
import { testGateway } from '../../../support/gateway.ts'
import { PEER_KEY } from '../../../support/search-peers.ts'
import {
  body,
  completion,
  type Hit,
  head,
  json,
  type Script,
  startUpstream,
  stream,
  type Upstream,
} from '../../../support/upstream.ts'

/** The price of a page and of a turn that answers with `completion()`, in nano-dollars. */
const PAGE = 2_000_000n

let upstream: Upstream
let mistral: Upstream
let gateway: Gateway
let pages: unknown[]
let processed: unknown
beforeAll(async () => {
  upstream = await startUpstream()
  mistral = await startUpstream()
  gateway = await testGateway({
    config: buildConfig(),
  })
})
beforeEach(() => {
  pages = [{ index: 0, markdown: '# Invoice\n\n| Apples | 7 |' }]
  processed = 1
  for (const { hits } of [upstream, mistral]) hits.length = 0
  upstream.answer(({ json: asked }) => ((asked as Json).stream ? stream(['Hi']) : completion('Hi')))
  mistral.answer(answerAsMistral)
})
afterAll(() => Promise.all([upstream.close(), mistral.close(), gateway.close()]))

const buildConfig = (settings: Json | null = {}): Json => ({
  limits: { strict: false },
  providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
  models: [
    {
      id: 'acme/words',
      context_length: 100_000,
      endpoints: [
        { provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      ],
      input_modalities: ['text'],
    },
  ],
  plugins: settings && {
    mistral_ocr: {
      api_key: PEER_KEY,
      base_url: mistral.url.replace(/\/v1$/, ''),
      usd_per_page: Number(PAGE) / 1e9,
      ...settings,
    },
  },
})

/** Answers as the public API does: 401 without the key, 422 for what is no document. */
function answerAsMistral({ method, path, headers, json: asked }: Hit): Script {
  if (headers.authorization !== `Bearer ${PEER_KEY}`)
    return json({ message: `Unauthorized ${PEER_KEY}` }, { status: 401 })
  const { model, document } = asked as { model?: string; document?: Json }
  const isOcr = method === 'POST' && path === '/v1/ocr' && model === 'mistral-ocr-latest'
  const isPdf = String(document?.document_url).startsWith('data:application/pdf;base64,JVBERi0')
  if (!isOcr || document?.type !== 'document_url' || !isPdf)
    return json({ detail: [{ type: 'missing' }] }, { status: 422 })
  const usage_info = { pages_processed: processed, doc_size_bytes: 1_000 }
  return json({ pages, model: 'mistral-ocr-2512', document_annotation: null, usage_info })
}

/** A PDF of one page, whose own text is not what the service sees in it. */
const SCAN = {
  name: 'scan.pdf',
  url: `data:application/pdf;base64,${Buffer.from(buildPdf(buildPageContent('own'))).toString('base64')}`,
}
const PLUGINS = [{ id: 'file-parser', pdf: { engine: 'mistral-ocr' } }]

/** Makes a call with a key of its own. Returns the answer, what was spent, and its record. */
async function ask(call: Partial<DoorCall> & { door?: (typeof DOORS)[number] }, limit?: number) {
  const made = await createKey(gateway, getOperator(gateway), {
    name: 'k',
    ...(limit === undefined ? {} : { limit }),
  })
  const answer = await askDoor(gateway, made.key, call.door ?? 'chat', {
    ...{ model: 'acme/words', stream: false, file: SCAN, plugins: PLUGINS },
    ...call,
  })
  await gateway.recorder.flush()
  const account = `key ${made.data.hash}` as const
  const spent = gateway.ledger.getSpent(account, null, false)
  expect(gateway.ledger.getHeld(account, false)).toBe(0n)
  const [generation] = await gateway.store.generations.list({ key_hash: made.data.hash }, 1)
  return { ...answer, spent, generation }
}

const sentText = () => upstream.hits.map(hit => hit.body).join()

describe.each(DOORS)('a scan at %s', door => {
  test.each([false, true])(
    'is recognized, held and charged by the page, streamed %j',
    async stream => {
      const { status, pipeline, spent, generation } = await ask({ door, stream }, 1)
      expect(status).toBe(200)
      expect(sentText()).toContain('# Invoice')
      expect(sentText()).not.toContain('own')
      expect(pipeline).toMatchObject([
        {
          name: 'file-parser',
          data: { files: [{ name: 'scan.pdf', type: 'pdf', engine: 'mistral-ocr' }] },
        },
      ])
      expect(spent).toBe(generation?.total_cost as bigint)
      expect(generation?.steps).toMatchObject([
        { type: 'tool', name: 'mistral-ocr', cost: PAGE, is_error: false },
        { type: 'model' },
      ])
      expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    },
  )
})

test('a document is recognized once for a conversation that sends its annotation back', async () => {
  const first = await ask({})
  // A matcher changes what it looks at.
  const readMessage = () => JSON.parse(first.raw).choices[0].message
  expect(readMessage().annotations).toMatchObject([
    {
      type: 'file',
      file: { name: 'scan.pdf', content: [{ text: expect.stringContaining('Invoice') }] },
    },
  ])
  const file = { type: 'file', file: { filename: SCAN.name, file_data: SCAN.url } }
  const messages = [
    { role: 'user', content: [{ type: 'text', text: 'Read.' }, file] },
    readMessage(),
    { role: 'user', content: 'And now?' },
  ]
  const { status, generation, pipeline } = await ask({ more: { messages } })
  expect(pipeline).toMatchObject([{ data: { files: [{ reused: true }] } }])
  expect([status, mistral.hits.length]).toEqual([200, 1])
  expect(upstream.hits.at(-1)?.body).toContain('# Invoice')
  expect(generation?.steps).toEqual([])
})

test.each([
  ['the caller ignores Mistral', { ignore: ['mistral'] }],
  ['the caller wants others only', { only: ['local'] }],
  ['the caller wants no retention', { zdr: true }],
])('nothing is sent to the service where %s', async (_, provider) => {
  const { status, raw, spent } = await ask({ more: { provider } })
  expect([status, spent, mistral.hits.length, upstream.hits.length]).toEqual([403, 0n, 0, 0])
  expect(raw).toContain('mistral-ocr may not be sent this call')
})

test('only pages that came are charged, and none beyond those that the PDF has', async () => {
  processed = 1_000_000
  pages = [...pages, ...pages, ...pages]
  expect((await ask({})).generation?.steps[0]?.cost).toBe(PAGE)
  for (const none of [0]) {
    processed = none
    expect((await ask({})).generation?.steps[0]?.cost).toBe(0n)
  }
  for (const wrong of [-1, 0.5, '1', null]) {
    processed = wrong
    expect((await ask({})).generation?.steps[0]?.cost).toBe(PAGE)
  }
})

test('nothing is sent if a limit has not enough left for the pages, or for the turn', async () => {
  for (const limit of [0.0019, 0.00205]) {
    const { status, spent } = await ask({}, limit)
    expect([status, spent, mistral.hits.length, upstream.hits.length]).toEqual([402, 0n, 0, 0])
  }
})

test('what was recognized for a turn that then fails is charged and on record', async () => {
  upstream.answer(() => json({ error: { message: 'no' } }, { status: 500 }))
  const { status, spent, generation } = await ask({})
  expect([status, spent, generation?.total_cost]).toEqual([502, PAGE, PAGE])
  expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
})

test('a dry run sends nothing', async () => {
  const call = buildTextCall({
    models: ['acme/words'],
    messages: [{ role: 'user', blocks: [{ type: 'file', file: { file_data: SCAN.url } }] }],
    plugins: { 'file-parser': { pdf: 'ocr' } },
  })
  await explain(gateway, getOperator(gateway), {}, 'text', () => call)
  expect(mistral.hits).toEqual([])
})

describe('a failure is a 503 that repeats nothing, is free, and asks no model', () => {
  test.each<[string, Script]>([
    ['401', json({ message: `key ${PEER_KEY}` }, { status: 401 })],
    ['429', json({}, { status: 429 })],
    ['500', body('text/html', PEER_KEY, { status: 500 })],
    ['a redirect', head(302, { location: 'https://example.com/', 'content-length': '0' })],
    ['a page instead of JSON', body('text/html', PEER_KEY)],
    ['no JSON', body('application/json', '{"pages":[')],
    ['no pages', json({ pages: [], usage_info: { pages_processed: 1 } })],
    ['pages of a wrong type', json({ pages: [{ markdown: 7 }, null] })],
    [
      'less than its length',
      [head(200, { 'content-length': '1000' }), '{"pages":', { end: 'fin' }],
    ],
    [
      'more than any document',
      [
        head(200, { 'content-type': 'application/json', 'content-length': String(100 * 2 ** 20) }),
        ...Array.from({ length: 20 }, () => Buffer.alloc(1024 * 1024, 'x')),
        { wait: 'never' },
      ],
    ],
  ])('%s', async (_, script) => {
    mistral.answer(() => script)
    const { status, raw, spent } = await ask({})
    expect([status, spent, upstream.hits.length]).toEqual([503, 0n, 0])
    expect(raw).not.toContain(PEER_KEY)
    expect(raw).toContain('mistral-ocr')
  })

  test('a service that is silent', async () => {
    const config = parseConfig(JSON.stringify(buildConfig({ timeout_seconds: 0.05 })), {})
    const before = gateway.config
    gateway.config = config
    mistral.answer(() => ({ wait: 'never' }))
    const { status, raw, spent } = await ask({})
    gateway.config = before
    expect([status, spent, upstream.hits.length]).toEqual([503, 0n, 0])
    expect(raw).toContain('no answer in time')
  })
})

test.each<[Json | null, string]>([
  [null, 'it is not configured (plugins.mistral_ocr)'],
  [{ enabled: false }, 'it is switched off (plugins.mistral_ocr.enabled)'],
  [{ api_key: undefined }, 'it has no key (plugins.mistral_ocr.api_key)'],
])('with the settings %j the engine is a 400 that says why', async (settings, reason) => {
  const before = gateway.config
  gateway.config = parseConfig(
    JSON.stringify(settings ? buildConfig(settings) : { ...buildConfig(), plugins: {} }),
    {},
  )
  const { status, text } = await ask({})
  gateway.config = before
  expect([status, text]).toEqual([400, expect.stringContaining(reason)])
  expect(text).toContain('plugins.0.pdf.engine')
})
