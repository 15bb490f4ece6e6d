import { beforeAll, describe, expect, test } from 'bun:test'
import { readWavHead, writeWavHead } from '../../src/base/wav.ts'
import { type MediaHouse, openMediaHouse, readRefusal, testMediaLife } from '../suites/media.ts'
import { fetchGeneration, fetchKeyState, waitUntil } from '../support/chat.ts'
import {
  body as answerBody,
  chunk,
  chunkedEnd,
  event,
  head,
  htmlError,
  json,
  type Script,
  sseHead,
  status,
} from '../support/upstream.ts'

const PER_CHARACTER = { prompt: 0, completion: 0, per_character: 0.001 }
const PER_TOKEN = { prompt: 1, completion: 0, audio_output: 12 }
const PER_SECOND = { prompt: 0, completion: 0, per_second: 0.5 }

/** A second of samples. */
const SECOND = Buffer.alloc(48_000, 1)
const WAV = Buffer.concat([writeWavHead(24_000, SECOND.length), SECOND])
const MP3 = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0]), Buffer.alloc(15_996)])

const sound = (bytes: Buffer, type = 'audio/mpeg'): Script => [
  head(200, { 'content-type': type, 'content-length': String(bytes.length) }),
  bytes,
]

const house = openMediaHouse({
  modality: 'speech',
  model: 'speak-1',
  providers: {
    counts: { quirks: { speech: 'openai' } },
    wavs: { quirks: { speech: 'groq' } },
    clones: { quirks: { speech: 'mistral' } },
    router: { quirks: { speech: 'openrouter' } },
    goog: { protocol: 'gemini' },
    eleven: { protocol: 'elevenlabs' },
    deep: { protocol: 'deepgram' },
  },
  models: [
    ['acme/speak', ['local', 'spare'], PER_CHARACTER],
    ['acme/seconds', ['local'], PER_SECOND],
    ['acme/tokens', ['counts'], PER_TOKEN, { model: 'gpt-4o-mini-tts' }],
    ['acme/older', ['counts'], PER_CHARACTER, { model: 'tts-1' }],
    ['acme/wavs', ['wavs'], PER_CHARACTER, { model: 'canopylabs/orpheus-v1-english' }],
    ['acme/clones', ['clones'], PER_CHARACTER, { model: 'voxtral-mini-tts-2603' }],
    ['acme/routed', ['router'], PER_CHARACTER, { model: 'x/y' }],
    ['acme/gemini', ['goog'], PER_TOKEN, { model: 'gemini-2.5-flash-preview-tts' }],
    ['acme/eleven', ['eleven'], PER_CHARACTER, { model: 'eleven_flash_v2_5' }],
    ['acme/aura', ['deep'], PER_CHARACTER, { model: 'aura-2' }],
  ],
  answer: sound(SECOND, 'audio/pcm'),
})
let { server, first, second }: MediaHouse = house
beforeAll(() => {
  ;({ server, first, second } = house)
})

const ask = (body: object, more: object = {}) =>
  server.fetch('/audio/speech', { json: { model: 'acme/speak', input: 'Hello', ...body }, ...more })

async function speak(body: object = {}) {
  const response = await ask(body)
  const bytes = Buffer.from(await response.arrayBuffer())
  expect([response.status, bytes.toString('latin1', 0, 200)]).toEqual([200, expect.anything()])
  const id = response.headers.get('x-generation-id') ?? ''
  return { id, bytes, type: response.headers.get('content-type') }
}

const sent = (upstream = first) => upstream.hits[0]?.json as Record<string, unknown>

const refusal = (body: object) => readRefusal(ask(body))

describe('POST /audio/speech', () => {
  test('speaks, prices each character and records', async () => {
    const before = (await fetchKeyState(server)).usage
    const { id, bytes, type } = await speak({ user: 'ann', session_id: 's-1', voice: 'sage' })
    expect([type, bytes.equals(SECOND)]).toEqual(['audio/pcm', true])
    expect(await fetchGeneration(server, id)).toMatchObject({
      api_type: 'tts',
      total_cost: 0.005,
      session_id: 's-1',
    })
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(0.005)
    expect(first.hits[0]?.path).toBe('/v1/audio/speech')
    expect(sent()).toEqual({
      model: 'speak-1',
      input: 'Hello',
      response_format: 'pcm',
      voice: 'sage',
    })
  })

  test('counts a character of two code units once', async () => {
    const { id } = await speak({ input: '😀ö!' })
    expect((await fetchGeneration(server, id)).total_cost).toBe(0.003)
  })

  test('prices seconds by the samples that came', async () => {
    const { id } = await speak({ model: 'acme/seconds' })
    expect((await fetchGeneration(server, id)).total_cost).toBe(0.5)
  })

  test('prices seconds of mp3 by the rate of its frames', async () => {
    first.plan(sound(MP3))
    const { id } = await speak({ model: 'acme/seconds', response_format: 'mp3' })
    // 128 kilobits a second.
    expect((await fetchGeneration(server, id)).total_cost).toBe(0.5)
  })

  test('reads events where only those say what was counted', async () => {
    const delta = (bytes: Buffer) =>
      event({ type: 'speech.audio.delta', audio: bytes.toString('base64') })
    const usage = { input_tokens: 10, output_tokens: 100, total_tokens: 110 }
    first.plan([
      sseHead(),
      delta(SECOND.subarray(0, 24_000)),
      delta(SECOND.subarray(24_000)),
      event({ type: 'speech.audio.done', usage }),
      chunkedEnd(),
    ])
    const { id, bytes } = await speak({ model: 'acme/tokens', instructions: 'Whisper' })
    expect(bytes.equals(SECOND)).toBe(true)
    expect(sent()).toMatchObject({
      voice: 'alloy',
      stream_format: 'sse',
      instructions: 'Whisper',
    })
    expect(await fetchGeneration(server, id)).toMatchObject({
      usage_source: 'exact',
      total_cost: (10 + 100 * 12) / 1e6,
    })
  })

  test('names a voice of a user by its id', async () => {
    first.plan([
      sseHead(),
      event({ type: 'speech.audio.delta', audio: SECOND.toString('base64') }),
      event({ type: 'speech.audio.done' }),
      chunkedEnd(),
    ])
    await speak({ model: 'acme/tokens', voice: { id: 'voice_1' } })
    expect(sent()).toMatchObject({ voice: { id: 'voice_1' } })
  })

  test('asks an older model for bytes', async () => {
    await speak({ model: 'acme/older' })
    expect(sent()).toEqual({
      model: 'tts-1',
      input: 'Hello',
      response_format: 'pcm',
      voice: 'alloy',
    })
  })

  test('delivers what has come before the rest is there', async () => {
    first.plan([
      head(200, { 'content-type': 'audio/pcm', 'transfer-encoding': 'chunked' }),
      chunk(SECOND.subarray(0, 1_000)),
      { wait: 'read' },
      chunk(SECOND.subarray(1_000)),
      chunkedEnd(),
    ])
    const response = await ask({})
    const reader = response.body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    expect(value?.length).toBe(1_000)
    first.open('read')
    let rest = 0
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read())
      rest += step.value.length
    expect(rest).toBe(47_000)
  })

  test('takes the head off a WAV file where samples are wanted', async () => {
    first.plan(sound(WAV, 'audio/wav'))
    const { bytes } = await speak({ model: 'acme/wavs' })
    expect(bytes.equals(SECOND)).toBe(true)
    expect(sent()).toMatchObject({ response_format: 'wav', sample_rate: 24_000, voice: 'autumn' })
  })

  test('refuses samples of another rate than was promised', async () => {
    first.plan(sound(Buffer.concat([writeWavHead(48_000, SECOND.length), SECOND]), 'audio/wav'))
    expect((await ask({ model: 'acme/wavs' })).status).toBe(502)
    const { bytes } = await speak({ model: 'acme/wavs', response_format: 'wav' })
    expect(readWavHead(bytes)).toMatchObject({ rate: 48_000 })
  })

  test('speaks with Mistral, with the voice of a sample too', async () => {
    first.plan(json({ audio_data: MP3.toString('base64') }))
    const { bytes, type } = await speak({
      model: 'acme/clones',
      response_format: 'mp3',
      input_references: [
        { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
        { type: 'text', text: 'Good day' },
      ],
    })
    expect([type, bytes.equals(MP3)]).toEqual(['audio/mpeg', true])
    expect(sent()).toEqual({
      model: 'voxtral-mini-tts-2603',
      input: 'Hello',
      response_format: 'mp3',
      ref_audio: 'UklGRg==',
    })
  })

  test('asks a server of the same API in its own form', async () => {
    first.plan(sound(MP3))
    await speak({ model: 'acme/routed', response_format: 'mp3', speed: 2, user: 'ann' })
    expect(sent()).toEqual({
      model: 'x/y',
      input: 'Hello',
      response_format: 'mp3',
      speed: 2,
    })
  })

  test('speaks with Gemini', async () => {
    const inlineData = {
      mimeType: 'audio/L16;codec=pcm;rate=24000',
      data: SECOND.toString('base64'),
    }
    first.plan(
      json({
        candidates: [{ content: { parts: [{ inlineData }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 25 },
      }),
    )
    const { id, bytes } = await speak({ model: 'acme/gemini', response_format: 'wav', speed: 2 })
    expect(readWavHead(bytes)).toMatchObject({ rate: 24_000, bits: 16, channels: 1 })
    expect(bytes.subarray(44).equals(SECOND)).toBe(true)
    expect(first.hits[0]?.path).toBe('/v1/models/gemini-2.5-flash-preview-tts:generateContent')
    expect(sent()).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
      generationConfig: {
        responseModalities: ['AUDIO'],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
      },
    })
    expect((await fetchGeneration(server, id)).total_cost).toBe((5 + 25 * 12) / 1e6)
  })

  test('speaks with ElevenLabs', async () => {
    first.plan(sound(MP3))
    await speak({ model: 'acme/eleven', response_format: 'mp3', voice: 'a/b', speed: 4 })
    const [hit] = first.hits
    expect(hit?.path).toBe('/v1/text-to-speech/a%2Fb/stream?output_format=mp3_44100_128')
    expect(hit?.headers['xi-api-key']).toBe('mock')
    expect(sent()).toEqual({
      text: 'Hello',
      model_id: 'eleven_flash_v2_5',
      voice_settings: { speed: 1.2 },
    })
  })

  test.each<[string, object, string | null]>([
    ['acme/eleven', { instructions: 'Whisper' }, 'instructions'],
    ['acme/eleven', { speed: 4 }, 'speed'],
    ['acme/eleven', { speed: 1.1 }, null],
    ['acme/wavs', { speed: 2, response_format: 'wav' }, 'speed'],
    ['acme/wavs', { speed: 1, response_format: 'wav' }, null],
    ['acme/older', { instructions: 'Whisper', speed: 4 }, 'instructions'],
  ])('names what %s does without of %j', async (model, body, ignored) => {
    first.plan(sound(model === 'acme/wavs' ? WAV : SECOND, 'audio/wav'))
    const response = await ask({ model, ...body })
    await response.arrayBuffer()
    expect([response.status, response.headers.get('x-gateway-ignored')]).toEqual([200, ignored])
    expect(sent()).not.toHaveProperty('instructions')
  })

  test.each([
    [{ voice: 'luna' }, 'aura-2-luna-en', 'encoding=linear16&sample_rate=24000&container=none'],
    [{ voice: 'celeste-es' }, 'aura-2-celeste-es', 'encoding=linear16'],
    [{ voice: 'aura-2-luna-en' }, 'aura-2-luna-en', 'encoding=linear16'],
    [{}, 'aura-2-thalia-en', 'encoding=linear16'],
  ])('speaks with Deepgram: %j', async (body, model, encoding) => {
    await speak({ model: 'acme/aura', ...body })
    const [hit] = first.hits
    expect(hit?.path).toStartWith(`/v1/speak?model=${model}&${encoding}`)
    expect(hit?.headers.authorization).toBe('Token mock')
    expect(sent()).toEqual({ text: 'Hello' })
  })

  test('names a voice that does not exist', async () => {
    const detail = { status: 'voice_not_found', message: 'A voice with voice_id x was not found.' }
    first.plan(status(404, { detail }))
    const refused = await refusal({ model: 'acme/eleven', voice: 'x' })
    expect(refused.status).toBe(400)
    first.plan(status(400, 'voice: unknown voice x'))
    expect((await refusal({ voice: 'x' })).status).toBe(400)
  })

  test('breaks off where the provider does, and does not look whole', async () => {
    first.plan([
      head(200, { 'content-type': 'audio/pcm', 'content-length': '48000' }),
      SECOND.subarray(0, 24_000),
      { end: 'fin' },
    ])
    const response = await ask({ model: 'acme/seconds' })
    const id = response.headers.get('x-generation-id') ?? ''
    expect(await response.arrayBuffer().catch(() => 'cut')).toBe('cut')
    expect(second.hits).toEqual([])
    // Half a second was delivered.
    expect((await fetchGeneration(server, id)).total_cost).toBe(0.25)
  })

  test('works in the sandbox, the same each time', async () => {
    const body = { model: 'sandbox/speech', input: 'Hello there', response_format: 'wav' }
    const [one, other] = [await speak(body), await speak(body)]
    expect(one.bytes.equals(other.bytes)).toBe(true)
    const wav = readWavHead(one.bytes)
    expect(wav).toMatchObject({ encoding: 1, channels: 1, rate: 24_000, bits: 16 })
    if (typeof wav !== 'object') throw new Error('No head')
    expect(wav.offset + (wav.size ?? 0)).toBe(one.bytes.length)
    const { bytes } = await speak({ ...body, response_format: 'pcm' })
    expect(bytes.equals(one.bytes.subarray(wav.offset))).toBe(true)
    expect((await speak({ ...body, voice: 'other' })).bytes.equals(one.bytes)).toBe(false)
  })

  test('accepts the longest text, and the slowest and the fastest', async () => {
    for (const speed of [0.25, 4]) await speak({ input: 'a'.repeat(40_000), speed })
    expect(first.hits.map(({ json }) => (json as { speed: number }).speed)).toEqual([0.25, 4])
  })

  test('charges the text, and closes the connection, when the client leaves halfway', async () => {
    const before = (await fetchKeyState(server)).usage
    first.plan([
      head(200, { 'content-type': 'audio/pcm', 'transfer-encoding': 'chunked' }),
      chunk(SECOND),
      { wait: 'never' },
    ])
    const controller = new AbortController()
    const response = await ask({}, { signal: controller.signal })
    const id = response.headers.get('x-generation-id') ?? ''
    await response.body?.getReader().read()
    controller.abort()
    await (await first.hit()).clientLeft
    const isCharged = async () => (await fetchKeyState(server)).usage > before
    await waitUntil(isCharged)
    expect(await fetchGeneration(server, id)).toMatchObject({ cancelled: true, total_cost: 0.005 })
  })

  testMediaLife(house, {
    ask,
    asked: { response_format: 'mp3' },
    async expectSpare(response) {
      expect(Buffer.from(await response.arrayBuffer()).equals(MP3)).toBe(true)
    },
    failures: [
      ['a failure', status(503)],
      ['a page', htmlError(200)],
      ['a page that says it is a sound', answerBody('audio/pcm', '<!DOCTYPE html><html></html>')],
      ['JSON that says it is a sound', answerBody('audio/pcm', '{"error":{"message":"no"}}')],
      ['JSON', json({ message: 'no' })],
      ['an error in JSON', json({ error: { message: 'no' } })],
      ['nothing', answerBody('audio/pcm', '')],
      ['a zip', sound(Buffer.from('PK\u0003\u0004 a zip file'), 'application/zip')],
      ['no type and a page', [head(200, { 'content-length': '21' }), '<html>no sound</html>']],
    ],
    spare: sound(MP3),
    usd: 0.005,
    useless: htmlError(200),
    lacking: [
      ['sandbox/speech', { response_format: 'mp3' }, 'response_format'],
      ['acme/wavs', { response_format: 'flac' }, 'response_format'],
      [
        'acme/speak',
        {
          input_references: [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }],
        },
        'input_references',
      ],
    ],
    wrong: [
      [{ input_references: [{ type: 'text', text: 'Hi' }] }, 'input_references'],
      [
        { input_references: [{ type: 'input_audio', input_audio: { data: '!', format: 'wav' } }] },
        'input_references',
      ],
      [
        {
          voice: 'alloy',
          input_references: [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }],
        },
        'voice',
      ],
      [{ provider: { options: { local: { tempo: 2 } } } }, 'provider.options.local.tempo'],
      [{ provider: { options: { local: 7 } } }, 'options.local'],
      [{ stream: true }, 'stream'],
      [{ speed: Number.MAX_VALUE }, 'speed'],
    ],
    reserve: { usd: 0.004, over: {}, within: { input: 'Hell' } },
  })
})
