import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { OpenRouter } from '@openrouter/sdk'
import { generateSpeech, transcribe } from 'ai'
import OpenAI from 'openai'
import { buildWav } from '../support/recording.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  type Hit,
  head,
  json,
  type Script,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

const MP3 = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0]), Buffer.alloc(1_000)])
const WAV = buildWav(1)
const HEARD = {
  text: 'Hello there.',
  language: 'english',
  duration: 1,
  segments: [{ id: 0, start: 0, end: 0.9, text: 'Hello there.' }],
  words: [{ word: 'Hello', start: 0, end: 0.4 }],
}

/** A provider that speaks and listens as OpenAI's older models do. */
function answer({ path, json: body }: Hit): Script {
  if (path.endsWith('/audio/transcriptions')) return json(HEARD)
  const isMp3 = (body as { response_format: string }).response_format === 'mp3'
  const sound = isMp3 ? MP3 : WAV.subarray(44)
  const type = isMp3 ? 'audio/mpeg' : 'audio/pcm'
  return [head(200, { 'content-type': type, 'content-length': String(sound.length) }), sound]
}

let upstream: Upstream
let server: LocalServer
let checker: Wirecheck | null
let base: string

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(answer)
  const model = (id: string, output: string, prices: object) => ({
    id,
    output_modalities: [output],
    endpoints: [
      {
        provider: 'local',
        model: 'm',
        usd_per_million_tokens: { prompt: 0, completion: 0, ...prices },
      },
    ],
  })
  server = await startLocalServer({
    // The public schema has a closed list of provider names, so this provider uses one of them.
    providers: {
      local: {
        name: 'OpenAI',
        protocol: 'openai-chat',
        base_url: upstream.url,
        api_key: 'mock',
      },
    },
    models: [
      model('acme/speak', 'speech', { per_character: 0.001 }),
      model('acme/listen', 'transcription', { per_input_second: 0.01 }),
    ],
  })
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  base = `${checker?.url ?? server.url}/api/v1`
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const openRouter = () =>
  new OpenRouter({
    apiKey: server.inference_key,
    serverURL: base,
    retryConfig: { strategy: 'none' },
  })
const openAi = () => new OpenAI({ apiKey: server.inference_key, baseURL: base, maxRetries: 0 })

const gather = async (stream: ReadableStream<Uint8Array>) =>
  Buffer.from(await new Response(stream).arrayBuffer())

test('@openrouter/sdk speaks', async () => {
  const request = { model: 'acme/speak', input: 'Hi' }
  const samples = await openRouter().tts.createSpeech({ speechRequest: request })
  expect((await gather(samples)).equals(WAV.subarray(44))).toBe(true)
  const mp3 = await openRouter().tts.createSpeech({
    speechRequest: { ...request, responseFormat: 'mp3', voice: 'alloy', speed: 1.5, user: 'ann' },
  })
  expect((await gather(mp3)).equals(MP3)).toBe(true)
})

test('@openrouter/sdk transcribes, in base64 and from a file', async () => {
  const heard = await openRouter().stt.createTranscription({
    sttRequest: {
      model: 'acme/listen',
      inputAudio: { data: WAV.toString('base64'), format: 'wav' },
      responseFormat: 'verbose_json',
      timestampGranularities: ['word', 'segment'],
    },
  })
  expect(heard).toMatchObject({
    text: 'Hello there.',
    duration: 1,
    words: [{ word: 'Hello' }],
    usage: { seconds: 1, cost: 0.01 },
  })
  const filed = await openRouter().stt.createTranscriptionMultipart({
    requestBody: {
      model: 'acme/listen',
      file: new Blob([new Uint8Array(WAV)], { type: 'audio/wav' }),
      language: 'en',
    },
  })
  expect(filed.text).toBe('Hello there.')
})

test('openai speaks, and transcribes a file', async () => {
  const client = openAi()
  const spoken = await client.audio.speech.create({
    model: 'acme/speak',
    voice: 'alloy',
    input: 'Hi',
    response_format: 'mp3',
  })
  expect(Buffer.from(await spoken.arrayBuffer()).equals(MP3)).toBe(true)
  const file = new File([new Uint8Array(WAV)], 'speech.wav', { type: 'audio/wav' })
  const heard = await client.audio.transcriptions.create({
    model: 'acme/listen',
    file,
    response_format: 'verbose_json',
    timestamp_granularities: ['word', 'segment'],
  })
  expect(heard).toMatchObject({ text: 'Hello there.', words: [{ word: 'Hello' }] })
})

test('openai reads subtitles, which the public schema does not have', async () => {
  const client = new OpenAI({ apiKey: server.inference_key, baseURL: server.base })
  const file = new File([new Uint8Array(WAV)], 'speech.wav', { type: 'audio/wav' })
  const srt = await client.audio.transcriptions.create({
    model: 'acme/listen',
    file,
    response_format: 'srt',
  })
  expect(String(srt)).toBe('1\n00:00:00,000 --> 00:00:00,900\nHello there.\n')
})

test('the AI SDK speaks and transcribes with the models of OpenAI’s provider', async () => {
  const provider = createOpenAI({ baseURL: base, apiKey: server.inference_key })
  const { audio } = await generateSpeech({
    model: provider.speech('acme/speak'),
    text: 'Hi',
    voice: 'alloy',
    outputFormat: 'mp3',
  })
  expect(Buffer.from(audio.uint8Array).equals(MP3)).toBe(true)
  const { text } = await transcribe({
    model: provider.transcription('acme/listen'),
    audio: new Uint8Array(WAV),
  })
  expect(text).toBe('Hello there.')
})

test.skipIf(!hasWirecheck)('every exchange matches the public schema', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen).toMatchObject({
    'createAudioSpeech 200': 4,
    'createAudioTranscriptions 200': 4,
  })
})
