import { beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type MediaHouse, openMediaHouse, readRefusal, testMediaLife } from '../suites/media.ts'
import { createLimitedKey, fetchGeneration, fetchKeyState } from '../support/chat.ts'
import { buildWav } from '../support/recording.ts'
import { body as answerBody, type Hit, htmlError, json, status } from '../support/upstream.ts'

const PER_SECOND = { prompt: 0, completion: 0, per_input_second: 0.01 }
const PER_TOKEN = { prompt: 1, completion: 10, audio: 6 }

/** Two seconds of silence. */
const WAV = buildWav(2)
const input_audio = { data: WAV.toString('base64'), format: 'wav' }
const SEGMENTS = [
  { id: 0, seek: 0, start: 0, end: 0.9, text: ' Hello there.', tokens: [1, 2], avg_logprob: -0.1 },
  { id: 1, start: 1, end: 3_661.25, text: ' Call bob@example.com.' },
]
const WORDS = [
  { word: 'Hello', start: 0, end: 0.4 },
  { word: 'there.', start: 0.5, end: 0.9 },
]
const TEXT = 'Hello there. Call bob@example.com.'
const HEARD = { text: TEXT, language: 'english', duration: 1.5, segments: SEGMENTS, words: WORDS }

const house = openMediaHouse({
  modality: 'transcription',
  model: 'listen-1',
  providers: {
    quick: { quirks: { speech: 'groq' } },
    vox: { quirks: { speech: 'mistral' } },
    router: { quirks: { speech: 'openrouter' } },
    goog: { protocol: 'gemini' },
    eleven: { protocol: 'elevenlabs' },
    deep: { protocol: 'deepgram' },
  },
  models: [
    ['acme/listen', ['local', 'spare'], PER_SECOND],
    ['acme/gpt', ['local'], PER_TOKEN, { model: 'gpt-4o-transcribe' }],
    ['acme/quick', ['quick'], PER_SECOND, { model: 'whisper-large-v3' }],
    ['acme/vox', ['vox'], PER_SECOND, { model: 'voxtral-mini-latest' }],
    ['acme/routed', ['router'], PER_SECOND, { model: 'x/y' }],
    ['acme/gemini', ['goog'], PER_TOKEN, { model: 'gemini-2.5-flash' }],
    ['acme/scribe', ['eleven'], PER_SECOND, { model: 'scribe_v1' }],
    ['acme/nova', ['deep'], PER_SECOND, { model: 'nova-3' }],
  ],
  answer: json(HEARD),
})
let { server, first, second }: MediaHouse = house
beforeAll(() => {
  ;({ server, first, second } = house)
})

const PATH = '/audio/transcriptions'

const ask = (body: object, more: object = {}) =>
  server.fetch(PATH, { json: { model: 'acme/listen', input_audio, ...body }, ...more })

const listTexts = (value: string[] | Buffer): string[] => (Array.isArray(value) ? value : [])

/** A field of a form: a text, several, or a file. */
type Fields = Record<string, string | string[] | Buffer>

function send(fields: Fields, key = server.inference_key): Promise<Response> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Buffer) form.append(name, new Blob([new Uint8Array(value)]), 'speech.wav')
    else
      for (const one of typeof value === 'string' ? [value] : listTexts(value))
        form.append(name, one)
  }
  const headers = { authorization: `Bearer ${key}` }
  return fetch(`${server.base}${PATH}`, { method: 'POST', body: form, headers })
}

interface Heard {
  text: string
  usage: { cost: number; seconds?: number; total_tokens?: number }
  duration?: number
  segments?: object[]
  words?: object[]
}

async function hear(pending: Response | Promise<Response>) {
  const response = await pending
  const heard = (await response.json()) as Heard
  expect([response.status, heard]).toEqual([200, expect.anything()])
  return { ...heard, id: response.headers.get('x-generation-id') ?? '' }
}

const readForm = (hit: Hit | undefined) =>
  new Response(hit?.bytes as BodyInit | undefined, {
    headers: { 'content-type': hit?.headers['content-type'] ?? '' },
  }).formData()

async function sentFields(upstream = first) {
  const form = await readForm(upstream.hits[0])
  const file = form.get('file') as File
  const fields = [...form.entries()].filter(([name]) => name !== 'file')
  return { fields, file: Buffer.from(await file.arrayBuffer()), name: file.name }
}

describe('POST /audio/transcriptions', () => {
  test('charges the fewest seconds of the provider, and sets them aside', async () => {
    const poor = await createLimitedKey(server, 0.05)
    expect((await ask({ model: 'acme/quick' }, { key: poor })).status).toBe(402)
    expect((await hear(ask({ model: 'acme/quick' }))).usage.cost).toBe(0.1)
    first.plan(json({ ...HEARD, duration: 12.5 }))
    const long = { data: buildWav(12.5).toString('base64'), format: 'wav' }
    expect((await hear(ask({ model: 'acme/quick', input_audio: long }))).usage.cost).toBe(0.125)
  })

  test('transcribes, prices each second and records', async () => {
    const before = (await fetchKeyState(server)).usage
    const { id, ...heard } = await hear(ask({ user: 'ann', session_id: 's-1', language: 'en' }))
    expect(heard).toEqual({ text: TEXT, usage: { cost: 0.015, seconds: 1.5 } })
    expect(await fetchGeneration(server, id)).toMatchObject({
      api_type: 'stt',
      total_cost: 0.015,
      usage_source: 'exact',
      session_id: 's-1',
    })
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(0.015)
    expect(first.hits[0]?.path).toBe('/v1/audio/transcriptions')
    const { fields, file, ...rest } = await sentFields()
    expect(fields).toEqual([
      ['model', 'listen-1'],
      ['language', 'en'],
      ['response_format', 'verbose_json'],
    ])
    expect([file.equals(WAV), rest]).toEqual([true, { name: 'audio.wav' }])
  })

  test('takes a form, and leaves nothing of its file', async () => {
    const fields = { model: 'acme/listen', file: WAV, language: 'en', temperature: '0.5' }
    expect((await hear(send(fields))).text).toBe(TEXT)
    const sent = await sentFields()
    expect(sent.file.equals(WAV)).toBe(true)
    expect(sent.fields).toContainEqual(['temperature', '0.5'])
    const left = readdirSync(join(server.data, 'files'), { recursive: true, withFileTypes: true })
    expect(left.filter(entry => entry.isFile())).toEqual([])
  })

  test('sends a large file whole, and again to the next provider', async () => {
    const large = Buffer.concat([buildWav(60), Buffer.alloc(1)])
    first.plan(status(503))
    expect((await hear(send({ model: 'acme/listen', file: large }))).text).toBe(TEXT)
    for (const upstream of [first, second])
      expect((await sentFields(upstream)).file.equals(large)).toBe(true)
  })

  test('gives the times of segments and words', async () => {
    const params = { response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'] }
    const heard = await hear(ask(params))
    expect(heard).toMatchObject({
      task: 'transcribe',
      language: 'english',
      duration: 1.5,
      segments: SEGMENTS,
      words: WORDS,
    })
    expect((await sentFields()).fields).toEqual([
      ['model', 'listen-1'],
      ['response_format', 'verbose_json'],
      ['timestamp_granularities[]', 'word'],
      ['timestamp_granularities[]', 'segment'],
    ])
    const form = {
      model: 'acme/listen',
      file: WAV,
      response_format: 'verbose_json',
      'timestamp_granularities[]': ['word'],
    }
    const { segments, words } = await hear(send(form))
    expect([segments, words]).toEqual([undefined, WORDS])
    expect((await hear(ask({ response_format: 'verbose_json' }))).words).toBeUndefined()
  })

  test.each([
    ['text', 'text/plain', `${TEXT}\n`],
    [
      'srt',
      'text/plain',
      '1\n00:00:00,000 --> 00:00:00,900\nHello there.\n\n' +
        '2\n00:00:01,000 --> 01:01:01,250\nCall bob@example.com.\n',
    ],
    [
      'vtt',
      'text/vtt',
      'WEBVTT\n\n00:00:00.000 --> 00:00:00.900\nHello there.\n\n' +
        '00:00:01.000 --> 01:01:01.250\nCall bob@example.com.\n',
    ],
  ])('renders %s', async (response_format, type, expected) => {
    const response = await ask({ response_format })
    expect(response.headers.get('content-type')).toStartWith(type)
    expect(await response.text()).toBe(expected)
  })

  test('prices tokens as OpenAI counts them', async () => {
    const usage = {
      type: 'tokens',
      input_tokens: 30,
      input_token_details: { text_tokens: 10, audio_tokens: 20 },
      output_tokens: 5,
      total_tokens: 35,
    }
    first.plan(json({ text: 'Hi', usage }))
    const heard = await hear(ask({ model: 'acme/gpt', prompt: 'Hi Bob' }))
    expect(heard.usage).toMatchObject({
      input_tokens: 30,
      output_tokens: 5,
      total_tokens: 35,
      seconds: 2,
      cost: (10 + 20 * 6 + 5 * 10) / 1e6,
    })
    expect((await sentFields()).fields).toEqual([
      ['model', 'gpt-4o-transcribe'],
      ['prompt', 'Hi Bob'],
      ['response_format', 'json'],
    ])
  })

  test('estimates tokens where only a length is counted', async () => {
    first.plan(json({ text: 'Hello there', usage: { type: 'duration', seconds: 2 } }))
    const { id, usage } = await hear(ask({ model: 'acme/gpt' }))
    expect(usage.cost).toBeGreaterThan(0)
    expect((await fetchGeneration(server, id)).usage_source).toBe('estimated')
  })

  test('reckons with the length of the recording where the provider says none', async () => {
    first.plan(json({ text: 'Hi' }))
    expect((await hear(ask({}))).usage).toMatchObject({ seconds: 2, cost: 0.02 })
  })

  test('silence is an answer', async () => {
    first.plan(json({ text: '', duration: 2 }))
    expect(await hear(ask({}))).toMatchObject({ text: '', usage: { seconds: 2 } })
  })

  test('transcribes with Mistral', async () => {
    const segments = [{ text: ' Hi', start: 0, end: 0.5, speaker_id: 'speaker_1' }]
    const usage = { prompt_audio_seconds: 3, prompt_tokens: 4, completion_tokens: 5 }
    first.plan(json({ model: 'voxtral', text: 'Hi', language: null, segments, usage }))
    const heard = await hear(
      ask({
        model: 'acme/vox',
        response_format: 'verbose_json',
        timestamp_granularities: ['word'],
        provider: { options: { vox: { diarize: true } } },
      }),
    )
    expect(heard.words).toEqual([{ word: 'Hi', start: 0, end: 0.5, speaker: 1 }])
    expect(heard.usage.cost).toBe(0.03)
    expect((await sentFields()).fields).toEqual([
      ['diarize', 'true'],
      ['model', 'voxtral-mini-latest'],
      ['timestamp_granularities', 'word'],
    ])
  })

  test('asks a server of the same API with base64, from a file too', async () => {
    const large = buildWav(5)
    await hear(send({ model: 'acme/routed', file: large, response_format: 'verbose_json' }))
    expect(first.hits[0]?.json).toEqual({
      model: 'x/y',
      response_format: 'verbose_json',
      timestamp_granularities: ['segment'],
      input_audio: { data: large.toString('base64'), format: 'wav' },
    })
  })

  test('transcribes with Gemini', async () => {
    const large = buildWav(5)
    first.plan(
      json({
        candidates: [{ content: { parts: [{ text: 'Hi\n' }] }, finishReason: 'STOP' }],
        usageMetadata: {
          promptTokenCount: 170,
          candidatesTokenCount: 2,
          promptTokensDetails: [
            { modality: 'AUDIO', tokenCount: 160 },
            { modality: 'TEXT', tokenCount: 10 },
          ],
        },
      }),
    )
    const form = { model: 'acme/gemini', file: large, prompt: '"data":"@@recording@@"' }
    const heard = await hear(send(form))
    expect(heard.text).toBe('Hi')
    expect(heard.usage.cost).toBe((10 + 160 * 6 + 2 * 10) / 1e6)
    expect(first.hits[0]?.path).toBe('/v1/models/gemini-2.5-flash:generateContent')
    const parts = [
      { text: expect.stringContaining(form.prompt) },
      { inlineData: { mimeType: 'audio/wav', data: large.toString('base64') } },
    ]
    expect(first.hits[0]?.json).toMatchObject({ contents: [{ role: 'user', parts }] })
  })

  test('transcribes with ElevenLabs', async () => {
    const word = (text: string, start: number, speaker_id: string) => ({
      text,
      start,
      end: start + 0.5,
      type: 'word',
      speaker_id,
    })
    const words = [word('Hi', 0, 'speaker_0'), word('there.', 1, 'speaker_0')]
    const more = [{ text: ' ', type: 'spacing' }, word('Yes', 2, 'speaker_1')]
    first.plan(json({ language_code: 'eng', text: 'Hi there. Yes', words: [...words, ...more] }))
    const heard = await hear(ask({ model: 'acme/scribe', response_format: 'verbose_json' }))
    expect(heard.segments).toEqual([
      { id: 0, start: 0, end: 1.5, text: 'Hi there.', speaker: 0 },
      { id: 1, start: 2, end: 2.5, text: 'Yes', speaker: 1 },
    ])
    expect(heard.usage).toEqual({ seconds: 2, cost: 0.02 })
    expect(first.hits[0]?.path).toBe('/v1/speech-to-text')
    expect((await sentFields()).fields).toContainEqual(['model_id', 'scribe_v1'])
  })

  test.each<[object, string]>([
    [{ prompt: 'Bob', temperature: 0.5 }, 'temperature, prompt'],
    [{ timestamp_granularities: ['word'] }, 'timestamp_granularities'],
    [
      {
        known_speaker_names: ['Ann'],
        known_speaker_references: ['data:audio/wav;base64,UklGRg=='],
      },
      'known_speaker_names, known_speaker_references',
    ],
  ])('names what Deepgram does without of %j', async (body, ignored) => {
    first.plan(json({ results: { channels: [{ alternatives: [{ transcript: TEXT }] }] } }))
    const response = await ask({ model: 'acme/nova', ...body })
    expect([response.status, response.headers.get('x-gateway-ignored')]).toEqual([200, ignored])
  })

  test('transcribes with Deepgram', async () => {
    const alternative = {
      transcript: 'Hi there.',
      words: [{ word: 'hi', punctuated_word: 'Hi', start: 0, end: 0.5 }],
    }
    first.plan(
      json({
        metadata: { request_id: 'r', duration: 4 },
        results: {
          channels: [{ detected_language: 'en', alternatives: [alternative] }],
          utterances: [{ start: 0, end: 1, transcript: 'Hi there.', speaker: 0 }],
        },
      }),
    )
    const heard = await hear(
      ask({
        model: 'acme/nova',
        response_format: 'verbose_json',
        timestamp_granularities: ['word', 'segment'],
        temperature: 0.5,
        provider: { options: { deep: { keyterm: ['Bob', 'Ann'] } } },
      }),
    )
    expect(heard).toMatchObject({
      text: 'Hi there.',
      duration: 4,
      language: 'en',
      segments: [{ id: 0, text: 'Hi there.', speaker: 0 }],
      words: [{ word: 'Hi', start: 0, end: 0.5 }],
      usage: { seconds: 4, cost: 0.04 },
    })
    const [hit] = first.hits
    expect(hit?.path).toBe(
      '/v1/listen?model=nova-3&smart_format=true&detect_language=true&utterances=true&keyterm=Bob&keyterm=Ann',
    )
    expect(hit?.headers['content-type']).toBe('audio/wav')
    expect(Buffer.from(hit?.bytes ?? []).equals(WAV)).toBe(true)
  })

  test('knows in the sandbox what was said there', async () => {
    const said = await server.fetch('/audio/speech', {
      json: { model: 'sandbox/speech', input: 'Grüß Gott, Bob!', response_format: 'wav' },
    })
    const file = Buffer.from(await said.arrayBuffer())
    expect((await hear(send({ model: 'sandbox/transcribe', file }))).text).toBe('Grüß Gott, Bob!')
    const other = await hear(ask({ model: 'sandbox/transcribe' }))
    expect(other.text).toBe(`A recording of ${WAV.length} bytes`)
  })

  const ZIP = Buffer.from('PK\u0003\u0004 a zip file that says nothing', 'latin1')

  test.each<[string, Buffer]>([
    ['a zip', ZIP],
    ['an empty file', Buffer.alloc(0)],
    ['the head of a WAV file alone', WAV.subarray(0, 30)],
    ['a page', Buffer.from('<!DOCTYPE html><html></html>')],
    ['the beginning of a FLAC file', Buffer.from('fLaC\u0000')],
  ])('refuses %s, in either form', async (_, file) => {
    expect(await readRefusal(send({ model: 'acme/listen', file }))).toMatchObject({
      status: 400,
      field: 'file',
    })
    const data = file.toString('base64')
    const asked = ask({ input_audio: { data, format: 'wav' } })
    expect(await readRefusal(asked)).toMatchObject({ status: 400, field: 'input_audio.data' })
    expect(first.hits).toEqual([])
  })

  test.each([
    ['0.30000000000000004', '0.30000000000000004'],
    ['1e-05', '0.00001'],
    ['1', '1'],
  ])('reads the number %s as clients write it', async (temperature, expected) => {
    const response = await send({ model: 'acme/listen', file: WAV, temperature })
    const sent = (await sentFields()).fields
    expect([response.status, Object.fromEntries(sent).temperature]).toEqual([200, expected])
  })

  test.each<[Fields, string]>([
    [{ model: 'acme/listen' }, 'file'],
    [{ file: WAV }, 'model'],
    [{ model: ['acme/listen', 'acme/gpt'], file: WAV }, 'model'],
    [{ model: 'acme/listen', file: 'a text' }, 'file'],
    [{ model: 'acme/listen', file: WAV, temperature: 'warm' }, 'temperature'],
    [{ model: 'acme/listen', file: WAV, temperature: '1.5' }, 'temperature'],
    [{ model: 'acme/listen', file: WAV, hologram: '1' }, 'hologram'],
    [{ model: 'acme/listen', file: WAV, response_format: 'yaml' }, 'response_format'],
    [
      { model: 'acme/listen', file: WAV, 'timestamp_granularities[]': ['letter'] },
      'timestamp_granularities.0',
    ],
  ])('refuses the form %j, naming the field', async (fields, field) => {
    expect(await readRefusal(send(fields))).toMatchObject({ status: 400, field })
    expect(first.hits).toEqual([])
  })

  test('sets every second of a form aside too', async () => {
    const key = await createLimitedKey(server, 0.019)
    expect((await send({ model: 'acme/listen', file: WAV }, key)).status).toBe(402)
    expect(first.hits).toEqual([])
  })

  testMediaLife(house, {
    ask,
    async expectSpare(response) {
      expect((await hear(response)).text).toBe(TEXT)
    },
    failures: [
      ['a failure', status(503)],
      ['a page', htmlError(200)],
      ['JSON without a text', json({ message: 'no' })],
      ['an error in JSON', json({ error: { message: 'no' } })],
      ['nothing', answerBody('application/json', '')],
      ['a cut answer', answerBody('application/json', '{"text":"Hel')],
    ],
    usd: 0.015,
    useless: htmlError(200),
    lacking: [
      ['acme/gpt', { response_format: 'srt' }, 'response_format'],
      ['acme/gemini', { response_format: 'verbose_json' }, 'response_format'],
    ],
    wrong: [
      [{ input_audio: { ...input_audio, format: 'mp3' } }, 'input_audio.format'],
      [{ input_audio: { ...input_audio, format: 'docx' } }, 'input_audio.format'],
      [{ input_audio: { ...input_audio, data: 'not base64!' } }, 'input_audio.data'],
      [{ input_audio: { ...input_audio, data: `data:audio/wav;base64,AA` } }, 'input_audio.data'],
      [{ provider: { options: { local: { magic: 1 } } } }, 'provider.options.local.magic'],
    ],
    reserve: {
      usd: 0.019,
      over: {},
      within: { input_audio: { data: buildWav(1).toString('base64'), format: 'wav' } },
    },
  })
})
