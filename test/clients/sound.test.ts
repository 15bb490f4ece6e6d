import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type MediaStage, openMediaStage } from '../support/media.ts'
import { buildWav } from '../support/recording.ts'
import {
  chunkedEnd,
  event,
  type Hit,
  head,
  json,
  type Script,
  sseHead,
} from '../support/upstream.ts'

/*
 * Sound with OpenAI's client: models are called with their defaults, and OpenAI's own fields are
 * followed, or refused because no endpoint can.
 */

const WAV = buildWav(1)
const USAGE = { type: 'tokens', input_tokens: 10, output_tokens: 5, total_tokens: 15 }
const SEGMENTS = [
  { type: 'transcript.text.segment', id: 's1', start: 0, end: 1, text: 'Hello.', speaker: 'A' },
  { type: 'transcript.text.segment', id: 's2', start: 1, end: 2, text: 'Bye.', speaker: 'Ann' },
]
const SPOKEN = SEGMENTS.map((segment, i) => ({ ...segment, id: `seg_${i}` }))

let stage: MediaStage

beforeAll(async () => {
  const model = (id: string, name: string, protocol = 'openai-chat', output = 'transcription') => ({
    ...{ id, output, model: name, providers: [{ protocol }] },
    prices: output === 'speech' ? { per_character: 0 } : { prompt: 2, completion: 4 },
  })
  stage = await openMediaStage([
    model('hear/diarize', 'gpt-4o-transcribe-diarize'),
    model('hear/gpt', 'gpt-4o-transcribe'),
    model('hear/whisper', 'whisper-1'),
    model('hear/deepgram', 'nova-3', 'deepgram'),
    model('hear/elevenlabs', 'scribe_v1', 'elevenlabs'),
    model('say/gpt', 'gpt-4o-mini-tts', 'openai-chat', 'speech'),
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

const openFile = () => new File([new Uint8Array(WAV)], 'speech.wav')
const readForm = (hit: Hit | undefined) =>
  new Response(hit?.bytes as BodyInit | undefined, {
    headers: { 'content-type': hit?.headers['content-type'] ?? '' },
  }).formData()

async function sent(model: string): Promise<Record<string, unknown[]>> {
  const form = await readForm(stage.upstreamOf(model).hits.at(-1))
  const fields: Record<string, unknown[]> = {}
  for (const [name, value] of form.entries())
    if (name !== 'file') fields[name] = [...(fields[name] ?? []), value]
  return fields
}

const streamOf = (...events: unknown[]): Script => [sseHead(), ...events.map(event), chunkedEnd()]

async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const one of stream) all.push(one)
  return all
}

describe('a model that tells speakers apart', () => {
  const model = 'hear/diarize'
  beforeEach(() => {
    stage.upstreamOf(model).plan(json({ text: 'Hello. Bye.', segments: SEGMENTS, usage: USAGE }))
  })

  test('is called with its defaults: long recordings are divided', async () => {
    const heard = await stage.openai.audio.transcriptions.create({ model, file: openFile() })
    expect(heard.text).toBe('Hello. Bye.')
    expect(await sent(model)).toMatchObject({
      chunking_strategy: ['auto'],
      response_format: ['json'],
    })
  })

  test('says who speaks', async () => {
    const heard = await stage.openai.audio.transcriptions.create({
      ...{ model, file: openFile(), response_format: 'diarized_json' as const },
      chunking_strategy: { type: 'server_vad', silence_duration_ms: 300 },
      known_speaker_names: ['Ann'],
      known_speaker_references: [`data:audio/wav;base64,${WAV.toString('base64')}`],
    })
    expect(heard as unknown).toMatchObject({ task: 'transcribe', duration: 1, segments: SPOKEN })
    expect(await sent(model)).toEqual({
      model: ['gpt-4o-transcribe-diarize'],
      response_format: ['diarized_json'],
      'chunking_strategy[type]': ['server_vad'],
      'chunking_strategy[silence_duration_ms]': ['300'],
      'known_speaker_names[]': ['Ann'],
      'known_speaker_references[]': [`data:audio/wav;base64,${WAV.toString('base64')}`],
    })
  })

  test('has subtitles, as it knows the times', async () => {
    const heard = await stage.openai.audio.transcriptions.create({
      ...{ model, file: openFile(), response_format: 'srt' as const },
    })
    expect(heard).toContain('00:00:01,000 --> 00:00:02,000\nBye.')
  })

  test('streams who speaks', async () => {
    stage
      .upstreamOf(model)
      .plan(
        streamOf(
          { type: 'transcript.text.delta', delta: 'Hello. ' },
          SEGMENTS[0],
          { type: 'transcript.text.delta', delta: 'Bye.' },
          SEGMENTS[1],
          { type: 'transcript.text.done', text: 'Hello. Bye.', usage: USAGE },
        ),
      )
    const events = await collect(
      await stage.openai.audio.transcriptions.create({
        ...{ model, file: openFile(), response_format: 'diarized_json' as const, stream: true },
      }),
    )
    expect(events.map(({ type }) => type)).toEqual([
      'transcript.text.delta',
      'transcript.text.delta',
      'transcript.text.segment',
      'transcript.text.segment',
      'transcript.text.done',
    ])
    expect(events.filter(({ type }) => type === 'transcript.text.segment')).toEqual(SPOKEN as never)
    expect((await sent(model)).stream).toEqual(['true'])
  })
})

test('who speaks is told by every provider that can tell, and refused by name by others', async () => {
  const ask = (model: string) =>
    stage.openai.audio.transcriptions.create({
      ...{ model, file: openFile(), response_format: 'diarized_json' as const },
    })
  stage.upstreamOf('hear/deepgram').plan(
    json({
      metadata: { duration: 2 },
      results: {
        channels: [{ alternatives: [{ transcript: 'Hello. Bye.' }] }],
        utterances: [
          { start: 0, end: 1, transcript: 'Hello.', speaker: 0 },
          { start: 1, end: 2, transcript: 'Bye.', speaker: 1 },
        ],
      },
    }),
  )
  stage.upstreamOf('hear/elevenlabs').plan(
    json({
      text: 'Hello. Bye.',
      words: [
        { text: 'Hello.', start: 0, end: 1, type: 'word', speaker_id: 'speaker_0' },
        { text: 'Bye.', start: 1, end: 2, type: 'word', speaker_id: 'speaker_1' },
      ],
    }),
  )
  for (const model of ['hear/deepgram', 'hear/elevenlabs']) {
    const { segments } = (await ask(model)) as unknown as { segments: { speaker: string }[] }
    expect(segments.map(({ speaker }) => speaker)).toEqual(['A', 'B'])
  }
  expect(stage.upstreamOf('hear/deepgram').hits[0]?.path).toContain('diarize=true')
  for (const model of ['hear/gpt', 'hear/whisper'])
    expect(String(await ask(model).catch(thrown => thrown))).toContain('response_format')
})

describe('a stream of what is heard', () => {
  test('comes as the provider streams it', async () => {
    stage.upstreamOf('hear/gpt').plan(
      streamOf(
        { type: 'transcript.text.delta', delta: 'Hel' },
        { type: 'transcript.text.delta', delta: 'lo' },
        {
          type: 'transcript.text.done',
          text: 'Hello',
          logprobs: [{ token: 'Hello', logprob: -1 }],
          usage: USAGE,
        },
      ),
    )
    const events = await collect(
      await stage.openai.audio.transcriptions.create({
        ...{ model: 'hear/gpt', file: openFile(), stream: true as const, include: ['logprobs'] },
      }),
    )
    expect(events).toMatchObject([
      { type: 'transcript.text.delta', delta: 'Hel' },
      { type: 'transcript.text.delta', delta: 'lo' },
      {
        type: 'transcript.text.done',
        text: 'Hello',
        logprobs: [{ token: 'Hello' }],
        usage: { input_tokens: 10, output_tokens: 5, cost: 0.00004 },
      },
    ])
    expect(await sent('hear/gpt')).toMatchObject({ stream: ['true'], 'include[]': ['logprobs'] })
  })

  test('comes from a provider that does not stream, too', async () => {
    stage.upstreamOf('hear/whisper').plan(json({ text: 'Hello' }))
    const events = await collect(
      await stage.openai.audio.transcriptions.create({
        ...{ model: 'hear/whisper', file: openFile(), stream: true as const },
        chunking_strategy: 'auto',
      }),
    )
    expect(events).toMatchObject([
      { type: 'transcript.text.delta', delta: 'Hello' },
      { type: 'transcript.text.done', text: 'Hello' },
    ])
    const fields = await sent('hear/whisper')
    expect([fields.stream, fields.chunking_strategy]).toEqual([undefined, undefined])
  })

  test('that breaks off ends with its failure', async () => {
    stage
      .upstreamOf('hear/gpt')
      .plan([
        ...[
          sseHead(),
          event({ type: 'transcript.text.delta', delta: 'Hel' }),
          { end: 'fin' as const },
        ],
      ])
    const reading = stage.openai.audio.transcriptions
      .create({ model: 'hear/gpt', file: openFile(), stream: true })
      .then(collect)
    expect(String(await reading.catch(thrown => thrown))).toContain('Provider returned error')
  })
})

describe('what clients send of a recording', () => {
  const model = 'hear/whisper'
  const withLength = (length: number) => {
    const wav = Buffer.from(WAV)
    wav.writeUInt32LE(length, wav.indexOf('data') + 4)
    return wav
  }

  // One second is there, whatever its head says.
  test.each([
    ['none', 0],
    ['as long as can be', 0xffff_ffff],
    ['a mebibyte', 1_048_576],
    ['a gigabyte', 1_000_000_000],
    ['a byte more than there is', WAV.length - 44 + 1],
  ])('a head that names a length of %s is read to count, not to judge', async (_, length) => {
    stage.upstreamOf(model).plan(json({ text: 'Hello' }))
    const file = new File([new Uint8Array(withLength(length))], 'speech.wav')
    const heard = await stage.openai.audio.transcriptions.create({
      ...{ model, file, response_format: 'verbose_json' as const },
    })
    expect([heard.text, heard.duration]).toEqual(['Hello', 1])
  })

  test('an empty field of a form is none', async () => {
    stage.upstreamOf(model).plan(json({ text: 'Hello' }))
    const heard = await stage.openai.audio.transcriptions.create({
      ...{ model, file: openFile(), prompt: '', language: '', temperature: '' as never },
      response_format: '' as never,
      timestamp_granularities: [] as [],
    })
    expect(heard.text).toBe('Hello')
    expect(await sent(model)).toEqual({ model: ['whisper-1'], response_format: ['json'] })
  })
})

describe('speech', () => {
  const model = 'say/gpt'
  const samples = WAV.subarray(44)

  test('comes as events where they are asked for, of a voice by its id', async () => {
    stage
      .upstreamOf(model)
      .plan([
        head(200, { 'content-type': 'audio/pcm', 'content-length': String(samples.length) }),
        samples,
      ])
    const response = await stage.openai.audio.speech.create({
      ...{ model, input: 'Hi', response_format: 'pcm', stream_format: 'sse' },
      voice: { id: 'voice_1' },
    })
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const events = (await response.text())
      .split('\n\n')
      .filter(one => one.startsWith('data: '))
      .map(one => JSON.parse(one.slice(6)))
    expect(new Set(events.map(({ type }) => type))).toEqual(
      new Set(['speech.audio.delta', 'speech.audio.done']),
    )
    const sound = Buffer.concat(
      events.flatMap(({ audio }) => (audio ? [Buffer.from(audio, 'base64')] : [])),
    )
    expect(sound.equals(samples)).toBe(true)
    expect(stage.upstreamOf(model).hits.at(-1)?.json).toMatchObject({ voice: 'voice_1' })
  })
})
