import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { explain } from '../../../src/extensions/explain.ts'
import { assignKeys } from '../../../src/limits/assignments.ts'
import type { NewGuardrail } from '../../../src/limits/guardrails/schema.ts'
import { createGuardrail } from '../../../src/limits/guardrails.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { buildTextCall } from '../../support/call.ts'
import {
  buildDocx,
  buildPageContent,
  buildParagraph,
  buildPdf,
} from '../../support/documents-of-office.ts'
import { askDoor, DOORS, type Door, type DoorCall } from '../../support/doors.ts'
import { createTestKeys, testGateway } from '../../support/gateway.ts'
import {
  completion,
  type Hit,
  json,
  startUpstream,
  stream,
  type Upstream,
} from '../../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
let key: { inference: string; hash: string }

const buildModel = (name: string, context_length: number, more: object = {}) => ({
  id: `acme/${name}`,
  context_length,
  input_modalities: ['text'],
  endpoints: [
    { provider: 'local', model: name, usd_per_million_tokens: { prompt: 1, completion: 2 } },
  ],
  ...more,
})

beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await testGateway({
    config: {
      security: { allow_private_urls: [new URL(upstream.url).host] },
      providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
      models: [
        buildModel('words', 100_000),
        buildModel('eyes', 100_000, { input_modalities: ['text', 'file'] }),
        buildModel('small', 2_000),
      ],
      plugins: {
        moderation: { provider: 'local', model: 'judge' },
        coding_scores: { 'acme/words': 0.9, 'acme/eyes': 0.5 },
      },
    },
  })
  key = await createTestKeys(gateway)
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})

let answer = 'Hello'
let flagged = ''
beforeEach(() => {
  answer = 'Hello'
  flagged = ''
  upstream.hits.length = 0
  upstream.answer(hit => {
    const body = hit.json as { stream?: boolean; input?: string[] }
    if (hit.path.endsWith('/moderations')) return json({ results: body.input?.map(judge) })
    return body.stream ? stream([answer]) : completion(answer)
  })
})
const judge = (text: string) => {
  const found = flagged !== '' && text.includes(flagged)
  return { flagged: found, categories: { violence: found, hate: false } }
}

const CASES = DOORS.flatMap(door => [
  { door, stream: false },
  { door, stream: true },
])
const ask = ({ door, stream }: { door: Door; stream: boolean }, call: Partial<DoorCall>) =>
  askDoor(gateway, key.inference, door, { model: 'acme/words', stream, ...call })
const sentText = () => upstream.hits.map(({ body }) => body).join('\n')
const models = () => upstream.hits.map(({ json }: Hit) => (json as { model: string }).model)

const toUrl = (type: string, bytes: Uint8Array) =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`
const PDF = {
  name: 'harvest.pdf',
  url: toUrl('application/pdf', buildPdf(buildPageContent('The cellar holds 37 barrels.'))),
}

/** Creates a key that a guardrail binds. */
async function createGuardedKey(guardrail: NewGuardrail): Promise<string> {
  const operator = getOperator(gateway)
  const made = await createKey(gateway, operator, { name: 'guarded' })
  const { data } = await createGuardrail(gateway, operator, guardrail)
  await assignKeys(gateway, operator, data.id, { key_hashes: [made.data.hash] })
  return made.key
}

describe.each(CASES)('$door, streamed: $stream', at => {
  describe('file-parser', () => {
    test('a PDF becomes text for a model that reads no files, also unasked', async () => {
      for (const plugins of [[{ id: 'file-parser' }], undefined]) {
        upstream.hits.length = 0
        const { status, text, pipeline } = await ask(at, {
          file: PDF,
          ...(plugins ? { plugins } : {}),
        })
        expect([status, text]).toEqual([200, 'Hello'])
        expect(sentText()).toContain('The cellar holds 37 barrels.')
        expect(sentText()).not.toContain('base64')
        expect(pipeline).toMatchObject([
          {
            type: 'plugin',
            name: 'file-parser',
            summary: '1 of 1 file was read as text.',
            data: { files: [{ name: 'harvest.pdf', type: 'pdf', characters: 28 }] },
          },
        ])
      }
    })

    test('a PDF goes as it is to a model that reads files, and as text if asked for', async () => {
      await ask(at, { model: 'acme/eyes', file: PDF, plugins: [{ id: 'file-parser' }] })
      expect(sentText()).toContain(PDF.url.slice(-60))
      upstream.hits.length = 0
      const plugins = [{ id: 'file-parser', pdf: { engine: 'cloudflare-ai' } }]
      await ask(at, { model: 'acme/eyes', file: PDF, plugins })
      expect(sentText()).toContain('The cellar holds 37 barrels.')
      expect(sentText()).not.toContain('base64')
    })

    test('native, or switched off, leaves a model that reads no files out', async () => {
      for (const more of [{ pdf: { engine: 'native' } }, { enabled: false }]) {
        const { status, text } = await ask(at, {
          file: PDF,
          plugins: [{ id: 'file-parser', ...more }],
        })
        expect([status, text]).toEqual([
          404,
          expect.stringContaining('is not accepted as input (file)'),
        ])
      }
      expect(upstream.hits).toEqual([])
    })

    test('a file that cannot be read is a 400 that names it', async () => {
      const file = {
        name: 'bad.pdf',
        url: toUrl('application/pdf', Buffer.from('%PDF-1.7 nothing')),
      }
      const { status, text } = await ask(at, { file })
      expect([status, text]).toEqual([400, expect.stringContaining('bad.pdf: expected a document')])
      const ocr = [{ id: 'file-parser', pdf: { engine: 'mistral-ocr' } }]
      const refused = await ask(at, { file, plugins: ocr })
      expect([refused.status, refused.text]).toEqual([
        400,
        expect.stringContaining('plugins.0.pdf.engine: expected native'),
      ])
    })

    test('content filters see the words before a model does', async () => {
      const secret = 'sk-ant-api03-1234567890'
      const file = {
        name: 'a.pdf',
        url: toUrl('application/pdf', buildPdf(buildPageContent(`Call ${secret}`))),
      }
      await withFilter(
        { pattern: 'sk-ant-api03-[0-9]+', action: 'redact', label: '[KEY]' },
        async () => {
          for (const model of ['acme/words', 'acme/eyes']) {
            upstream.hits.length = 0
            const plugins = [{ id: 'file-parser' }]
            const { raw } = await ask(at, { model, file, plugins })
            expect(sentText()).toContain('Call [KEY]')
            expect(sentText() + raw).not.toContain(secret)
            expect(sentText()).not.toContain('base64')
          }
        },
      )
    })
  })

  describe('response-healing', () => {
    const schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] }
    const plugins = [{ id: 'response-healing' }]

    test('a whole answer is mended, a streamed one stays as it is', async () => {
      answer = 'Here you are:\n```json\n{"a": 1,}\n```\nEnjoy.'
      const { status, text, pipeline } = await ask(at, { schema, plugins })
      expect([status, text]).toEqual([200, at.stream ? answer : '{"a": 1}'])
      expect(pipeline).toMatchObject([
        at.stream
          ? { type: 'response_healing', summary: 'A streamed answer is not mended.' }
          : {
              type: 'response_healing',
              name: 'response-healing',
              data: { mode: 'json_schema', improved: true, steps: ['extracted', 'repaired'] },
            },
      ])
    })

    test('an answer that cannot be mended stays as it is', async () => {
      for (const text of ['I cannot do that.', '{"a": "x",}']) {
        answer = text
        const healed = await ask(at, { schema, plugins })
        expect([healed.status, healed.text]).toEqual([200, text])
        if (!at.stream) expect(healed.pipeline).toMatchObject([{ data: { improved: false } }])
      }
    })
  })

  describe('context-compression', () => {
    const long = `first ${'word '.repeat(4_000)}last`

    test('a prompt loses its middle for a model with a small context, unless switched off', async () => {
      const { status, pipeline } = await ask(at, { model: 'acme/small', text: long })
      expect(status).toBe(200)
      expect(sentText()).toContain('first word')
      expect(sentText()).toContain('word last')
      expect(sentText().length).toBeLessThan(10_000)
      expect(pipeline).toMatchObject([
        {
          type: 'context_compression',
          name: 'context-compression',
          data: { engine: 'middle-out' },
        },
      ])
      const plugins = [{ id: 'context-compression', enabled: false }]
      upstream.hits.length = 0
      await ask(at, { model: 'acme/small', text: long, plugins })
      expect(sentText().length === 0 || sentText().includes(long)).toBe(true)
    })

    test('a prompt that fits is not looked at', async () => {
      const { pipeline } = await ask(at, { model: 'acme/small', text: 'Hi' })
      expect(pipeline).toEqual([])
    })
  })

  describe('moderation', () => {
    const plugins = [{ id: 'moderation' }]

    test('a call is judged before it is sent, its files too', async () => {
      const { status, pipeline } = await ask(at, { file: PDF, plugins })
      expect(status).toBe(200)
      const [judged] = upstream.hits
      expect([judged?.path, judged?.json]).toEqual([
        '/v1/moderations',
        { model: 'judge', input: ['Hi', PDF.name, expect.stringContaining('37 barrels')] },
      ])
      expect(pipeline.map(({ name }) => name)).toEqual(['file-parser', 'moderation'])
    })

    test('what is flagged is a 403 with the reasons, and goes no further', async () => {
      flagged = 'barrels'
      const { status, raw } = await ask(at, { file: PDF, plugins })
      expect(status).toBe(403)
      if (at.door === 'chat')
        expect(JSON.parse(raw).error.metadata).toMatchObject({
          reasons: ['violence'],
          provider_name: 'local',
          model_slug: 'judge',
        })
      expect(upstream.hits.map(({ path }) => path)).toEqual(['/v1/moderations'])
    })

    test.each<[string, object, NewGuardrail | null]>([
      ['the caller ignores it', { provider: { ignore: ['local'] } }, null],
      ['the caller wants others only', { provider: { only: ['openai'] } }, null],
      ['the caller wants no retention', { provider: { zdr: true } }, null],
      ['the caller wants no training', { provider: { data_collection: 'deny' } }, null],
      ['a guardrail ignores it', {}, { name: 'g', ignored_providers: ['local'] }],
      ['a guardrail allows others', {}, { name: 'g', allowed_providers: ['openai'] }],
      ['a guardrail wants no retention', {}, { name: 'g', enforce_zdr_other: true }],
      ['a guardrail wants no training', {}, { name: 'g', enable_paid_model_training: false }],
    ])('a judge is sent nothing where %s', async (_, more, guardrail) => {
      const secret = guardrail ? await createGuardedKey(guardrail) : key.inference
      const { door, stream } = at
      const { status, raw } = await askDoor(gateway, secret, door, {
        ...{ model: 'acme/words', stream, plugins, more: { ...more } },
      })
      expect([status, upstream.hits.length, raw.includes('moderation may not be sent')]).toEqual([
        ...[403, 0, true],
      ])
    })

    test('a judge without a verdict blocks the call', async () => {
      upstream.answer(() => json({ results: [] }))
      expect((await ask(at, { plugins })).status).toBe(503)
      upstream.answer(() => json({ error: 'no' }, { status: 500 }))
      expect((await ask(at, { plugins })).status).toBe(502)
      expect(upstream.hits.map(({ path }) => path)).toEqual(['/v1/moderations', '/v1/moderations'])
    })
  })

  describe('routers', () => {
    test('pareto-code picks the cheapest that is good enough', async () => {
      const { status, pipeline } = await ask(at, { model: 'gateway/pareto-code' })
      expect([status, models()]).toEqual([200, ['words']])
      expect(pipeline).toMatchObject([
        { name: 'pareto-router', data: { band: 'high', coding_score: 0.9 } },
      ])
      const plugins = [{ id: 'pareto-router', max_price: 0.1 }]
      expect((await ask(at, { model: 'openrouter/pareto-code', plugins })).status).toBe(404)
    })

    test('switchyard picks by its algorithm', async () => {
      const plugins = [{ id: 'switchyard-router', algorithm: 'random' }]
      const { status, pipeline } = await ask(at, { model: 'gateway/switchyard', plugins })
      expect(status).toBe(200)
      expect(pipeline).toMatchObject([{ name: 'switchyard-router', data: { algorithm: 'random' } }])
    })
  })

  test.each([
    [{ id: 'file-parser', ocr: true }, 'plugins.0'],
    [{ id: 'file-parser', pdf: { engine: 'tesseract' } }, 'plugins.0.pdf.engine'],
    [{ id: 'response-healing', strict: true }, 'plugins.0'],
    [{ id: 'context-compression', engine: 'summary' }, 'plugins.0.engine'],
    [{ id: 'moderation', model: 'mine' }, 'plugins.0'],
    [{ id: 'pareto-router', max_price: -1 }, 'plugins.0.max_price'],
    [{ id: 'switchyard-router', algorithm: 'best' }, 'plugins.0.algorithm'],
    [{ id: 'web-fetch', max_pages: 1 }, 'plugins.0'],
    [{ id: 'web-fetch', max_uses: 1.5 }, 'plugins.0.max_uses'],
    [{ id: 'fusion' }, 'fusion does not work here: neither analysis_models nor'],
    [{ id: 'fusion', preset: 'general-high' }, 'plugins.0.preset'],
    [{ id: 'tea-maker' }, 'plugins.0.id'],
  ])('%j is refused by name', async (plugin, message) => {
    const { status, text } = await ask(at, { plugins: [plugin] })
    expect([status, text]).toEqual([400, expect.stringContaining(message)])
    expect(upstream.hits).toEqual([])
  })
})

describe('files of a conversation', () => {
  const at = { door: 'chat' as const, stream: false }

  test('are parsed once: the answer has what the next call sends back', async () => {
    const first = await ask(at, { file: PDF })
    const readMessage = () => JSON.parse(first.raw).choices[0].message
    const message = readMessage()
    expect(readMessage().annotations).toMatchObject([
      {
        type: 'file',
        file: {
          hash: expect.stringMatching(/^[0-9a-f]{64}$/),
          name: 'harvest.pdf',
          content: [{ type: 'text', text: expect.stringContaining('37 barrels') }],
        },
      },
    ])
    const streamed = await ask({ ...at, stream: true }, { file: PDF })
    expect(streamed.raw).toContain(message.annotations[0].file.hash)
    // The words are changed on the way, so that it shows which ones are used.
    const text = JSON.stringify(message).replace('37 barrels', '38 barrels')
    upstream.hits.length = 0
    const file = { type: 'file', file: { filename: PDF.name, file_data: PDF.url } }
    const messages = [
      { role: 'user', content: [{ type: 'text', text: 'Read.' }, file] },
      JSON.parse(text),
      { role: 'user', content: 'Go on.' },
    ]
    const second = await ask(at, { more: { messages } })
    expect(sentText()).toContain('38 barrels')
    expect(sentText()).not.toContain('annotations')
    expect(second.pipeline).toMatchObject([{ data: { files: [{ reused: true }] } }])
  })

  describe('that a client tells the words of', () => {
    const sendBack = async (secret: string, words: string, plugins: object[]) => {
      const { message } = JSON.parse((await ask(at, { file: PDF })).raw).choices[0]
      message.annotations[0].file.content = [{ type: 'text', text: words }]
      const file = { type: 'file', file: { filename: PDF.name, file_data: PDF.url } }
      const messages = [
        { role: 'user', content: [{ type: 'text', text: 'Read.' }, file] },
        ...[message, { role: 'user', content: 'Go on.' }],
      ]
      upstream.hits.length = 0
      const body = { model: 'acme/eyes', stream: false, more: { messages, plugins } }
      return (await askDoor(gateway, secret, 'chat', body)).status
    }
    const plugins = [{ id: 'file-parser' }]

    test.each(['37 barrels', 'nothing'])('are read by filters all the same: %s', async words => {
      const secret = await createGuardedKey({
        name: 'g',
        content_filters: [{ pattern: '37 barrels', action: 'redact', label: '[CELLAR]' }],
      })
      expect(await sendBack(secret, words, plugins)).toBe(200)
      expect(sentText()).toContain('[CELLAR]')
      expect(sentText()).not.toContain('data:application/pdf')
    })

    test('are judged all the same', async () => {
      flagged = 'barrels'
      const judged = [...plugins, { id: 'moderation' }]
      expect(await sendBack(key.inference, 'nothing', judged)).toBe(403)
    })
  })

  test('documents of office programs become text for every model', async () => {
    const url = toUrl(
      'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
      buildDocx(buildParagraph('Dear reader')),
    )
    for (const model of ['acme/words', 'acme/eyes']) {
      upstream.hits.length = 0
      await ask(at, { model, file: { name: 'a.docx', url }, plugins: [{ id: 'file-parser' }] })
      expect(sentText()).toContain('<file name=\\"a.docx\\">\\nDear reader\\n</file>')
    }
  })

  test('are fetched from a URL once, and not for a call that is only explained', async () => {
    const url = `${upstream.url}/harvest.pdf`
    const pdf = Buffer.from(PDF.url.slice(PDF.url.indexOf(',') + 1), 'base64')
    upstream.answer(({ path }) =>
      path.endsWith('.pdf')
        ? [`HTTP/1.1 200 OK\r\ncontent-length: ${pdf.length}\r\n\r\n`, pdf]
        : completion('Hello'),
    )
    const models = { models: ['acme/words', 'acme/eyes'], model: undefined }
    await ask(at, { file: { name: 'a.pdf', url }, more: models })
    expect(upstream.hits.map(({ method }) => method)).toEqual(['GET', 'POST'])
    expect(upstream.hits[1]?.body).toContain('37 barrels')
    upstream.hits.length = 0
    const call = buildTextCall({
      models: ['acme/words'],
      messages: [{ role: 'user', blocks: [{ type: 'file', file: { file_data: url } }] }],
    })
    const explanation = await explain(gateway, getOperator(gateway), {}, 'text', () => call)
    expect([explanation.error, explanation.endpoints.length]).toEqual([null, 1])
    expect(upstream.hits).toEqual([])
    const read = { ...call, messages: [{ role: 'user' as const, blocks: [toFileBlock(PDF.url)] }] }
    const { stages } = await explain(gateway, getOperator(gateway), {}, 'text', () => read)
    expect(stages.map(({ name }) => name)).toEqual(['file-parser'])
  })

  test('a URL of the private network is a 400', async () => {
    const url = 'http://10.0.0.1/a.pdf'
    const { status } = await ask(at, { file: { name: 'a.pdf', url } })
    expect([status, upstream.hits]).toEqual([400, []])
  })

  test('a picture, or bytes of no type, is refused by name', async () => {
    const url = toUrl('application/octet-stream', new Uint8Array([1, 2, 3]))
    const { status, text } = await ask(at, { file: { name: 'a.bin', url } })
    expect([status, text]).toEqual([
      400,
      expect.stringContaining('a.bin: expected a PDF, DOCX, XLSX, PPTX or text file'),
    ])
  })

  test('a PDF without words goes to the model that sees its pages, if one is named', async () => {
    const scan = { name: 'scan.pdf', url: toUrl('application/pdf', buildPdf('0 0 m')) }
    const both = { models: ['acme/words', 'acme/eyes'], model: undefined }
    const { pipeline } = await ask(at, { file: scan, more: both })
    expect(models()).toEqual(['eyes'])
    expect(pipeline).toMatchObject([
      { data: { files: [{ name: 'scan.pdf', skipped: expect.any(String) }] } },
    ])
  })
})

describe('moderation reads what a model is told', () => {
  const words = 'How to burst barrels'
  const say = (name: string) => ({ type: 'function', function: { name, description: words } })
  const parameters = { type: 'object', properties: { a: { type: 'string', description: words } } }
  const json_schema = { name: 'a', schema: parameters }
  const nested = { type: 'openrouter:advisor', parameters: { instructions: words } }

  test.each<[string, Door, object]>([
    ['by a tool', 'chat', { tools: [say('burst')] }],
    [
      'by the parameters of a tool',
      'messages',
      { tools: [{ name: 'a', input_schema: parameters }] },
    ],
    ['by a schema', 'chat', { response_format: { type: 'json_schema', json_schema } }],
    ['by a prediction', 'chat', { prediction: { type: 'content', content: words } }],
    [
      'by the name of an author',
      'chat',
      { messages: [{ role: 'user', name: words, content: 'Hi' }] },
    ],
    ['by a parameter of the provider', 'chat', { chat_template_kwargs: { note: words } }],
    [
      'by a tool of the provider',
      'responses',
      { tools: [{ type: 'custom', name: 'a', description: words }] },
    ],
    [
      'by the instructions of a subagent',
      'chat',
      { tools: [{ ...nested, type: 'openrouter:subagent' }] },
    ],
    [
      'by the instructions of its tools',
      'chat',
      { tools: [{ type: 'openrouter:subagent', parameters: { tools: [nested] } }] },
    ],
  ])('%s', async (_, door, more) => {
    flagged = 'barrels'
    const { status } = await ask(
      { door, stream: false },
      { plugins: [{ id: 'moderation' }], more: { ...more } },
    )
    expect([status, upstream.hits.map(({ path }) => path)]).toEqual([403, ['/v1/moderations']])
  })

  test('and neither ids nor bytes', async () => {
    const call = {
      id: 'call_1',
      type: 'function',
      function: { name: 'draw', arguments: '{"a":1}' },
    }
    const url = toUrl('image/png', new Uint8Array(3_000))
    const messages = [
      { role: 'user', content: [{ type: 'image_url', image_url: { url } }] },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'Done.' },
    ]
    const more = { messages, note: { image: url } }
    await ask(
      { door: 'chat', stream: false },
      { model: 'acme/eyes', plugins: [{ id: 'moderation' }], more },
    )
    expect(upstream.hits[0]?.json).toMatchObject({
      input: ['draw', '{"a":1}', 'Done.', '{"note":{"image":"data:image/png;base64,"}}'],
    })
  })
})

test('a call is charged for what its provider counted, mended or not', async () => {
  answer = '```json\n{"a": 1,}\n```'
  const costs: number[] = []
  for (const plugins of [[], [{ id: 'response-healing' }]]) {
    const more = { response_format: { type: 'json_object' } }
    const { raw } = await ask({ door: 'chat', stream: false }, { plugins, more })
    costs.push(JSON.parse(raw).usage.cost)
  }
  expect(costs[0]).toBeGreaterThan(0)
  expect(costs[1]).toBe(costs[0] ?? 0)
})

test('without a count, what the model got is estimated: words, and what is left of a prompt', async () => {
  upstream.answer(() => completion('Hello', { usage: undefined }))
  const at = { door: 'chat' as const, stream: false }
  const readPrompt = async (call: Partial<DoorCall>) =>
    JSON.parse((await ask(at, call)).raw).usage.prompt_tokens
  // A page that is sent as it is counts as 1,500 tokens.
  expect(await readPrompt({ file: PDF })).toBeLessThan(100)
  const text = `first ${'word '.repeat(4_000)}last`
  expect(await readPrompt({ model: 'acme/small', text })).toBeLessThan(2_000)
  expect(await readPrompt({ text })).toBeGreaterThan(4_000)
})

test('presets carry plugins', async () => {
  const { createPreset } = await import('../../../src/resources/presets.ts')
  await createPreset(gateway, getOperator(gateway), 'mending', {
    system_prompt: null,
    config: { model: 'acme/words', plugins: [{ id: 'response-healing' }] },
  } as never)
  answer = '{"a": 1,}'
  const more = { model: '@preset/mending', response_format: { type: 'json_object' } }
  expect((await ask({ door: 'chat', stream: false }, { more })).text).toBe('{"a": 1}')
  const plugins = [{ id: 'response-healing', enabled: false }]
  expect((await ask({ door: 'chat', stream: false }, { more, plugins })).text).toBe(answer)
})

const toFileBlock = (file_data: string) => ({ type: 'file' as const, file: { file_data } })

/** Runs with a content filter for the key. */
async function withFilter(
  filter: { pattern: string; action: string; label: string },
  run: () => Promise<void>,
): Promise<void> {
  const operator = getOperator(gateway)
  const guardrail = await createGuardrail(gateway, operator, {
    name: crypto.randomUUID(),
    content_filters: [filter],
  } as never)
  await assignKeys(gateway, operator, guardrail.data.id, { key_hashes: [key.hash] })
  try {
    await run()
  } finally {
    const { deleteGuardrail } = await import('../../../src/limits/guardrails.ts')
    await deleteGuardrail(gateway, operator, guardrail.data.id)
  }
}

test('fixtures of other programs are sent as text', async () => {
  const path = join(import.meta.dir, '../documents/files/pptxgenjs.pptx')
  const url = toUrl(
    'application/vnd.openxmlformats-officedocument.presentationml.presentation',
    await Bun.file(path).bytes(),
  )
  await ask({ door: 'responses', stream: false }, { file: { name: 'a.pptx', url } })
  expect(sentText()).toContain('4,812 kg of apples & more')
})
