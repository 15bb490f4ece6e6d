import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { requireValid } from '../../src/base/body.ts'
import type { Json } from '../../src/base/json.ts'
import { writeWavHead } from '../../src/base/wav.ts'
import { NO_QUIRKS } from '../../src/config/quirks.ts'
import { kinds } from '../../src/engine/kinds.ts'
import type { Kind } from '../../src/language/work.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { embeddings } from '../../src/translation/dialects/embeddings.ts'
import { images } from '../../src/translation/dialects/images.ts'
import { rerank } from '../../src/translation/dialects/rerank.ts'
import { speech } from '../../src/translation/dialects/speech.ts'
import { transcriptions } from '../../src/translation/dialects/transcriptions.ts'
import { videos } from '../../src/translation/dialects/videos.ts'
import { protocols } from '../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'
import { PNG } from '../support/media.ts'

/*
 * A parameter that the chosen model or its protocol cannot use is left out and named, and never
 * refused (specification, What the service does, 5). Every field of every door of media is tried at
 * every protocol of its kind: it reaches the provider, or is named, or is among the exceptions.
 */

interface Door {
  kind: Exclude<Kind, 'text'>
  dialect: { body: unknown; toCall: unknown }
  /** The least that the door accepts. */
  least: Json
  /** A value of each field that asks for something; some need another field beside them. */
  fields: Record<string, { value: unknown; beside?: Json }[]>
  /** The models of each protocol that differ in what they take, and the settings of their servers. */
  models: Record<string, [model: string, quirks?: object, more?: Partial<Endpoint>][]>
}

const DATA_URL = `data:image/png;base64,${PNG}`
const WAV = Buffer.concat([writeWavHead(24_000, 48_000), Buffer.alloc(48_000)])
const reference = { type: 'image_url', image_url: { url: DATA_URL } }
const values = (...all: unknown[]) => all.map(value => ({ value }))

const RANKS: Door['models'][string] = [['m', {}, { output_modalities: ['rerank'] }]]
const COMPUTES: Door['models'][string] = [['m', {}, { output_modalities: ['embeddings'] }]]

/** Fields that the gateway reads for itself, whatever the protocol is. */
const OWN = {
  model: 'says who is asked',
  provider: 'says how the call is routed; its options are read by the provider that they name',
  session_id: 'groups calls',
  trace: 'goes to destinations',
  debug: 'asks for no answer',
  user: 'names who asks, and goes where a provider has a field for it',
}

const DOORS: Record<string, Door> = {
  embeddings: {
    kind: 'embedding',
    dialect: embeddings,
    least: { model: 'acme/m', input: 'Hi' },
    fields: {
      input: values('Bye'),
      dimensions: values(256),
      encoding_format: values('base64'),
      input_type: values(
        ...['search_query', 'search_document', 'classification', 'clustering', 'similarity'],
        ...['CODE_RETRIEVAL_QUERY', 'x'],
      ),
    },
    models: {
      'openai-chat': [
        ['m'],
        ['text-embedding-ada-002'],
        ['mistral-embed'],
        ['m', { dropped: ['input_type', 'dimensions'] }],
        ['m', { renamed: { dimensions: 'output_dimension' } }],
      ],
      'cohere-chat': [['embed-v4.0'], ['embed-english-v3.0']],
      gemini: [['gemini-embedding-001'], ['embedding-001']],
      'bedrock-converse': [
        ['amazon.titan-embed-text-v2:0'],
        ['amazon.titan-embed-text-v1'],
        ['us.cohere.embed-v4:0'],
        ['cohere.embed-multilingual-v3'],
        ['amazon.nova-2-multimodal-embeddings-v1:0'],
      ],
      'voyage-rerank': [['voyage-3.5'], ['voyage-law-2']],
      'jina-rerank': [['jina-embeddings-v4']],
      sandbox: [['sandbox/embeddings']],
    },
  },
  rerank: {
    kind: 'rerank',
    dialect: rerank,
    least: { model: 'acme/m', query: 'Hi', documents: ['a', 'b'] },
    fields: {
      query: values('Bye'),
      documents: values(['a', 'c']),
      top_n: values(1),
    },
    models: {
      'openai-chat': [
        ...RANKS,
        ...COMPUTES,
        ['m', { dropped: ['top_n'] }, { output_modalities: ['rerank'] }],
      ],
      'cohere-chat': [...RANKS, ...COMPUTES],
      gemini: COMPUTES,
      'bedrock-converse': [
        ...RANKS,
        ['cohere.embed-v4:0', {}, { output_modalities: ['embeddings'] }],
      ],
      'voyage-rerank': [...RANKS, ...COMPUTES],
      'jina-rerank': [...RANKS, ...COMPUTES],
      'nvidia-rerank': RANKS,
      'tei-rerank': RANKS,
      'vertex-rerank': RANKS,
      sandbox: RANKS,
    },
  },
  images: {
    kind: 'image',
    dialect: images,
    least: { model: 'acme/m', prompt: 'A cat' },
    fields: {
      prompt: values('A dog'),
      aspect_ratio: [
        ...values('3:2', '8:1', '9:19.5'),
        { value: '3:2', beside: { input_references: [reference] } },
      ],
      background: values('transparent', 'opaque'),
      n: values(2, 10),
      output_compression: [{ value: 50, beside: { output_format: 'jpeg' } }],
      output_format: values('jpeg', 'webp', 'svg'),
      quality: values('low', 'high', 'max', 'hd'),
      resolution: [
        ...values('512', '1K', '2K', '4K'),
        { value: '2K', beside: { input_references: [reference] } },
      ],
      seed: values(7),
      size: [
        ...values('1024x1024', '1000x300', '2K'),
        { value: '1536x1024', beside: { input_references: [reference] } },
      ],
      partial_images: [...values(2), { value: 2, beside: { stream: true, n: 2 } }],
      moderation: values('low'),
      input_fidelity: [
        ...values('high'),
        { value: 'high', beside: { input_references: [reference] } },
      ],
      style: values('natural'),
      stream: values(true),
      input_references: values([reference], [reference, reference, reference]),
      response_format: values('b64_json'),
    },
    models: {
      'openai-chat': [
        ['m'],
        ['gpt-image-1'],
        ['gpt-image-1-mini'],
        ['gpt-image-1.5'],
        ['gpt-image-2'],
        ['m', { dropped: ['seed', 'quality'] }],
        ['m', {}, { output_modalities: ['image', 'text'] }],
        ['m', { images: 'openrouter' }],
        ['grok-imagine-image', { images: 'xai' }],
        ['m', { images: 'together' }],
        ['recraftv4', { images: 'recraft' }],
        ['recraftv4_pro_vector', { images: 'recraft' }],
        ['flux-1-schnell-fp8', { images: 'fireworks' }],
        ['flux-kontext-pro', { images: 'fireworks' }],
      ],
      gemini: [
        ['imagen-4'],
        ['gemini-2.5-flash-image', {}, { output_modalities: ['image', 'text'] }],
        ['gemini-3-pro-image', {}, { output_modalities: ['image', 'text'] }],
      ],
      'openai-responses': [['m', {}, { output_modalities: ['image', 'text'] }]],
      bfl: [['flux-2-pro'], ['flux-kontext-pro'], ['flux-pro-1.1-ultra'], ['flux-pro-1.1']],
      fal: [
        ...(['fal-ai/flux-pro/kontext', 'fal-ai/nano-banana-pro', 'fal-ai/nano-banana'] as const),
        ...(['fal-ai/imagen4/preview', 'fal-ai/flux-2-pro', 'fal-ai/flux/dev'] as const),
        ...(['fal-ai/bytedance/seedream/v4', 'fal-ai/qwen-image'] as const),
      ].map(model => [model]),
      stability: [['stable-image-core'], ['stable-image-ultra'], ['sd3.5-large']],
      sandbox: [['sandbox/image']],
    },
  },
  speech: {
    kind: 'speech',
    dialect: speech,
    least: { model: 'acme/m', input: 'Hi' },
    fields: {
      input: values('Bye'),
      input_references: [
        ...values([{ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }]),
        {
          value: [
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
            { type: 'text', text: 'Good day' },
          ],
          beside: {
            input_references: [
              { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
            ],
          },
        },
      ],
      instructions: values('Whisper'),
      response_format: values('mp3', 'wav', 'opus', 'flac', 'aac'),
      speed: values(0.25, 0.9, 4),
      stream_format: values('sse'),
      voice: values('sage', { id: 'voice_1' }),
    },
    models: {
      'openai-chat': [
        ['m'],
        ['gpt-4o-mini-tts', { speech: 'openai' }],
        ['tts-1', { speech: 'openai' }],
        ['canopylabs/orpheus-v1-english', { speech: 'groq' }],
        ['voxtral-mini-tts-2603', { speech: 'mistral' }],
        ['m', { speech: 'openrouter' }],
        ['m', { dropped: ['speed', 'instructions'] }],
      ],
      gemini: [['gemini-2.5-flash-preview-tts']],
      elevenlabs: [['eleven_flash_v2_5']],
      deepgram: [['aura-2'], ['aura-2-thalia-en']],
      sandbox: [['sandbox/speech']],
    },
  },
  transcriptions: {
    kind: 'transcription',
    dialect: transcriptions,
    least: {
      model: 'acme/m',
      input_audio: { data: WAV.toString('base64'), format: 'wav' },
    },
    fields: {
      input_audio: [],
      language: values('de'),
      prompt: values('Names'),
      response_format: values('verbose_json', 'text', 'srt', 'vtt', 'diarized_json'),
      temperature: values(0.5),
      timestamp_granularities: [
        ...values(['word']),
        { value: ['word'], beside: { response_format: 'verbose_json' } },
      ],
      chunking_strategy: values('auto', { type: 'server_vad', threshold: 0.5 }),
      include: values(['logprobs']),
      keywords: values(['gateway']),
      languages: values(['de', 'en']),
      known_speaker_names: values(['Ann']),
      known_speaker_references: [
        { value: ['data:audio/wav;base64,UklGRg=='], beside: { known_speaker_names: ['Ann'] } },
      ],
      stream: values(true),
    },
    models: {
      'openai-chat': [
        ['m'],
        ['whisper-1', { speech: 'openai' }],
        ['gpt-4o-transcribe', { speech: 'openai' }],
        ['gpt-4o-transcribe-diarize', { speech: 'openai' }],
        ['whisper-large-v3', { speech: 'groq' }],
        ['voxtral-mini-latest', { speech: 'mistral' }],
        ['m', { speech: 'openrouter' }],
        ['m', { dropped: ['temperature', 'prompt'] }],
      ],
      gemini: [['gemini-2.5-flash']],
      elevenlabs: [['scribe_v1']],
      deepgram: [['nova-3']],
      sandbox: [['sandbox/transcribe']],
    },
  },
  videos: {
    kind: 'video',
    dialect: videos,
    least: { model: 'acme/m', prompt: 'A cat' },
    fields: {
      prompt: values('A dog'),
      aspect_ratio: values('9:16', '2:3'),
      callback_url: values('https://example.com/'),
      creativity: values(50),
      duration: values(1, 5, 6, 600),
      frame_images: values(
        [{ ...reference, frame_type: 'first_frame' }],
        [{ ...reference, frame_type: 'last_frame' }],
      ),
      generate_audio: values(true, false),
      input_references: values(
        [reference],
        [{ type: 'audio_url', audio_url: { url: 'https://example.com/a.mp3' } }],
        [{ type: 'video_url', video_url: { url: 'https://example.com/a.mp4' } }],
      ),
      resolution: values('480p', '720p', '1080p', '4K'),
      seed: values(7),
      size: values('1280x720', '1000x1000'),
      upscale_factor: values(2),
    },
    models: {
      'openai-chat': [
        ['m'],
        ['sora-2'],
        ['sora-2-pro'],
        ['m', { videos: 'openrouter' }],
        ['m', { dropped: ['seed'] }],
      ],
      gemini: [['veo-2.0-generate-001'], ['veo-3.0-generate-001'], ['veo-3.1-generate-preview']],
      fal: [['fal-ai/kling-video/v2/master/text-to-video']],
      runway: [['gen4.5'], ['gen4_turbo']],
      luma: [['ray-2']],
      sandbox: [['sandbox/video']],
    },
  },
}

/** What need neither reach a provider nor be named, by field and perhaps value, with the reason. */
const EXCEPTIONS: Record<string, Record<string, string>> = {
  embeddings: {
    encoding_format: 'the gateway turns vectors into the form that is asked for',
    'input_type search_document': 'is what is asked for where a call names no purpose',
  },
  rerank: {
    top_n: 'servers without it rank all, and the gateway returns as many as are asked for',
  },
  images: {
    stream: 'providers that stream no previews are answered for as a whole (E8)',
    response_format: 'there is one',
    output_format: 'the gateway converts pictures of pixels',
    output_compression: 'the gateway compresses what it converts',
    n: 'the gateway asks in several requests',
    'resolution 1K': 'is what a model draws that has one tier',
    'resolution 2K': 'is what a model draws that has one tier',
    'size 2K': 'is what a model draws that has one tier',
  },
  speech: {
    stream_format: 'the gateway writes the events',
    'response_format wav': 'the gateway makes samples of WAV files, and those of samples',
  },
  transcriptions: {
    stream: 'the gateway writes the events',
    'response_format text': 'the gateway writes it',
    'response_format verbose_json': 'the gateway writes it of times that always come',
    'response_format srt': 'the gateway writes it of times that always come',
    'response_format vtt': 'the gateway writes it of times that always come',
    timestamp_granularities: 'come always',
    'chunking_strategy auto':
      'is what OpenAI’s model that tells speakers apart is asked for anyway',
  },
  videos: {
    callback_url: 'the gateway calls back',
    'generate_audio true': 'is what comes anyway',
    'generate_audio false': 'is what comes anyway',
    'duration 5': 'is what is asked for where a call names no length',
    'size 1280x720': 'is what is asked for where a call names no size',
    'resolution 480p': 'is what a model makes that has one',
    'resolution 720p': 'is what a model makes that has one',
  },
}

/** What is refused where no provider can do it, with the reason. */
const REFUSED: Record<string, Record<string, string>> = {
  images: {
    input_references: 'a picture that nothing is done with is another request',
    'output_format svg': 'lines are not made of pixels',
    'output_format jpeg': 'pixels are not made of lines',
    'output_format webp': 'pixels are not made of lines',
    output_compression: 'pixels are not made of lines',
  },
  speech: {
    input_references: 'a voice that is not the one asked for is another request',
    response_format: 'a client cannot play another format than it asks for',
  },
  transcriptions: { response_format: 'there are no times, or no speakers, to write' },
  videos: {
    frame_images: 'a picture that nothing is done with is another request',
    input_references: 'a picture that nothing is done with is another request',
  },
}

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { origin, id } = buildTextCall()

// biome-ignore lint/suspicious/noExplicitAny: the doors differ in their calls.
type AnyCall = any

function readCall({ dialect, least }: Door, more: Json): AnyCall {
  const body = requireValid(dialect.body as typeof embeddings.body, { ...least, ...more }) as Json
  const context = { id, origin, session_id: null, betas: [] }
  const toCall = dialect.toCall as (...all: unknown[]) => AnyCall
  return { ...toCall(gateway, getOperator(gateway), body, context), job_id: 'job-1' }
}

/** What becomes of a call at an endpoint. */
function tell({ kind }: Door, call: AnyCall, endpoint: Endpoint) {
  const { understanding, splitCall } = kinds[kind] as AnyCall
  const verdict: string | true = understanding.checkEndpoint(call, endpoint)
  if (verdict !== true) return { verdict, ignored: [] as string[], sent: '' }
  const fitted = understanding.fitToEndpoint(call, endpoint)
  const shares: AnyCall[] = splitCall?.(fitted, endpoint) ?? [fitted]
  const protocol = (protocols[kind] as Record<string, AnyCall>)[endpoint.protocol]
  const sent = shares.map(share => {
    const { attachment: _, ...request } = protocol.buildRequest(share, endpoint)
    return request
  })
  const ignored: string[] = understanding.listIgnored(call, endpoint)
  return { verdict, ignored, sent: JSON.stringify(sent) }
}

const cases = Object.entries(DOORS).flatMap(([name, door]) =>
  Object.entries(door.models).flatMap(([protocol, models]) =>
    models.map(([model, quirks = {}, more = {}]) => ({
      ...{ name, protocol, model, quirks: JSON.stringify(quirks), more },
      modalities: (more.output_modalities ?? []).join(),
    })),
  ),
)

// A tier as the size is the same as the resolution.
const isNamed = (name: string, field: string): boolean =>
  name.split('.')[0] === field || (name === 'resolution' && field === 'size')

const toKey = (field: string, value: unknown): string =>
  typeof value === 'object' ? field : `${field} ${value}`

describe.each(Object.keys(DOORS))('POST /%s', name => {
  const door = DOORS[name] as Door

  test('has each of its fields tried, at each protocol', () => {
    const body = door.dialect.body as typeof embeddings.body & { properties: Json }
    const known = [...Object.keys(door.fields), ...Object.keys(OWN)]
    expect(Object.keys(body.properties).filter(field => !known.includes(field))).toEqual([])
    expect(Object.keys(door.models).sort()).toEqual(Object.keys(protocols[door.kind]).sort())
  })
})

test.each(cases)(
  '/$name: $protocol $model $quirks $modalities uses a parameter or names it',
  ({ name, protocol, model, quirks, more }) => {
    const door = DOORS[name] as Door
    const provider = buildProvider({ quirks: { ...NO_QUIRKS, ...JSON.parse(quirks) } })
    const endpoint = buildEndpoint({ protocol, upstreamModel: model, provider, ...more })
    const faults: string[] = []
    for (const [field, samples] of Object.entries(door.fields))
      for (const { value, beside = {} } of samples) {
        const asked = readCall(door, { ...beside, [field]: value })
        const plain = tell(door, readCall(door, beside), endpoint)
        if (plain.verdict !== true) continue
        const { verdict, ignored, sent } = tell(door, asked, endpoint)
        const isIn = (table: Record<string, Json>) =>
          Object.hasOwn(table[name] ?? {}, field) ||
          Object.hasOwn(table[name] ?? {}, toKey(field, value))
        const said = `${toKey(field, value)} ${JSON.stringify(value)} ${JSON.stringify(beside).slice(0, 60)}`
        if (verdict !== true) {
          if (!isIn(REFUSED)) faults.push(`refused (${verdict}): ${said}`)
        } else if (ignored.some(one => isNamed(one, field))) continue
        else if (sent === plain.sent && !isIn(EXCEPTIONS)) faults.push(`dropped: ${said}`)
      }
    expect(faults).toEqual([])
  },
)

const IDLE: Record<string, Json> = {
  images: {
    n: 1,
    quality: 'auto',
    background: 'auto',
    response_format: 'b64_json',
    moderation: 'auto',
  },
  speech: { speed: 1, response_format: 'pcm' },
  transcriptions: { response_format: 'json' },
  embeddings: { encoding_format: 'float' },
  videos: {},
  rerank: {},
}

test.each(cases)(
  '/$name: $protocol $model $quirks $modalities names nothing that asks for nothing',
  ({ name, protocol, model, quirks, more }) => {
    const door = DOORS[name] as Door
    const provider = buildProvider({ quirks: { ...NO_QUIRKS, ...JSON.parse(quirks) } })
    const endpoint = buildEndpoint({ protocol, upstreamModel: model, provider, ...more })
    const { verdict, ignored } = tell(door, readCall(door, IDLE[name] ?? {}), endpoint)
    if (verdict === true) expect(ignored.filter(one => !quirks.includes(one))).toEqual([])
  },
)
